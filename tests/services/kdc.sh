#!/usr/bin/env bash
# A Kerberos KDC: Apache Kerby as Hadoop's tests run it (hadoop-minikdc), from Maven, for the realm FRAZIL.TEST.
#   kdc.sh start DIR [PORT] | status DIR | stop DIR        prints DIR, which holds what clients need:
#   krb5.conf        (KRB5_CONFIG of MIT's libraries, java.security.krb5.conf of Java)
#   NAME.keytab      alice and bob, who ask; hive/localhost and other/localhost, which are asked (hive.keytab, other.keytab)
#   hive-site.xml    (HIVE_CONF_DIR) says that metastores ask for tickets; so the tests of a plain metastore can be run with one that does
#   python           python-gssapi for $PYTHON, to be put on PYTHONPATH; built once
# Every start makes new keys: tickets of an earlier one are worth nothing.

. "$(dirname "$0")/_common.sh"
REALM=FRAZIL.TEST

make_gssapi() {
  say "building python-gssapi (once)"; rm -rf "$1.new"
  fetch "$1.log" "$PYTHON" -m pip install -q --target "$1.new" gssapi && mv "$1.new" "$1"
}
conf() {
  mkdir -p "$DIR/work"
  cat > "$DIR/kdc.properties" <<END
org.name=FRAZIL
org.domain=TEST
kdc.bind.address=$HOST
kdc.port=$PORT
instance=DefaultKrbServer
min.ticket.lifetime=1
max.ticket.lifetime=86400000
max.renewable.lifetime=604800000
transport=TCP
debug=false
END
  printf '%s\n' log4j.rootLogger=WARN,c log4j.appender.c=org.apache.log4j.ConsoleAppender log4j.appender.c.layout=org.apache.log4j.SimpleLayout > "$DIR/log4j.properties"
  cat > "$DIR/krb5.conf" <<END
[libdefaults]
    default_realm = $REALM
    dns_lookup_kdc = false
    dns_lookup_realm = false
    rdns = false
    udp_preference_limit = 1
    renew_lifetime = 7d
[realms]
    $REALM = {
        kdc = $HOST:$PORT
    }
[domain_realm]
    localhost = $REALM
END
  echo "<configuration><property><name>hive.metastore.sasl.enabled</name><value>true</value></property>
<property><name>hive.metastore.kerberos.principal</name><value>hive/localhost@$REALM</value></property></configuration>" > "$DIR/hive-site.xml"
}
# keytabs FILE: the keys of all principals, as one file for each
keytabs() {
  "$PYTHON" - "$1" "$DIR" <<'END'
import pathlib, struct, sys
data, folder = pathlib.Path(sys.argv[1]).read_bytes(), pathlib.Path(sys.argv[2])
assert data[:2] == b"\x05\x02", "a keytab of another format"
place, entries = 2, {}
while place < len(data):
    (size,) = struct.unpack_from(">i", data, place)
    if size > 0:
        realm_size = struct.unpack_from(">H", data, place + 6)[0]
        at = place + 8 + realm_size
        first = data[at + 2 : at + 2 + struct.unpack_from(">H", data, at)[0]].decode()
        entries.setdefault(first, []).append(data[place : place + 4 + size])
    place += 4 + abs(size)
for name, keys in entries.items():
    (folder / f"{name}.keytab").write_bytes(data[:2] + b"".join(keys))
END
}
start() {
  local cp python
  need_java; need krb5-config "apt-get install libkrb5-dev"; need gcc "apt-get install gcc"
  cp=$(jars kdc org.apache.hadoop:hadoop-minikdc:3.4.1)
  python=$CACHE/gssapi-$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  once "$python" make_gssapi "$python"
  rm -rf "$DIR"/*.keytab "$DIR/work" "$DIR/python"; conf; ln -s "$python" "$DIR/python"
  spawn kdc java -Xmx128m -XX:TieredStopAtLevel=1 -cp "$DIR:$cp" org.apache.hadoop.minikdc.MiniKdc \
    "$DIR/work" "$DIR/kdc.properties" "$DIR/work/all" alice bob hive/localhost other/localhost
  ready kdc grep -q "MiniKdc Running" "$DIR/kdc.log"
  keytabs "$DIR/work/all"
  announce "$DIR"
}
verbs kdc
