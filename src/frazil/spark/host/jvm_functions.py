"""Make Iceberg's functions of SQL (`system.bucket`, `truncate`, `years`, …) for Spark, and convert
the parameters, arguments and rows of its procedures.

A function of a catalog is called in tasks, which objects of this process do not reach. So the
functions are classes of the JVM: their source stands here, Spark's own compiler (Janino) makes
classes of it once per JVM, and the session's resource loader gives them to all tasks, as ADD JAR
does. Spark then calls them from the code that it generates, without any detour.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql import types as s

from frazil.ops.session import Session
from frazil.spark.host.jvm import SPARK, Jvm
from frazil.spark.host.jvm_catalog import CATALOG, CatalogTypes

_PACKAGE = "frazil.functions"
_TYPES = f"{SPARK}sql.types."
_HASH = "org.apache.spark.unsafe.hash.Murmur3_x86_32"
_TEXT = "org.apache.spark.unsafe.types.UTF8String"
_DECIMAL = f"{_TYPES}Decimal"
_BYTES = "org.apache.spark.unsafe.Platform.BYTE_ARRAY_OFFSET"
_BYTE_HASH = f"{_HASH}.hashUnsafeBytes2({{0}}, {_BYTES}, {{0}}.length, 0)"
_DATE, _TIMESTAMP = (
    "java.time.LocalDate.ofEpochDay(v)",
    "java.time.LocalDate.ofEpochDay(Math.floorDiv(v, 86400000000L))",
)
_MONTHS = "({0}.getYear() - 1970) * 12 + {0}.getMonthValue() - 1"


# Spark calls no function of numbers with a null among them, but one of objects it does.
_OF_NULL = "if (v == null) { return null; } "


def _bucket(value: str, hashed: str, before: str = "") -> tuple[str, str, str, str]:
    """Describe a bucket function: what it takes, what it returns, and how."""
    body = f"{before}return ({hashed} & Integer.MAX_VALUE) % n;"
    if value in ("int", "long"):
        return f"int n, {value} v", "int", "DataTypes.IntegerType", body
    return f"int n, {value} v", "Integer", "DataTypes.IntegerType", _OF_NULL + body


def _truncate(value: str, body: str) -> tuple[str, str, str, str]:
    return f"int n, {value} v", value, "", _OF_NULL + body


def _truncate_whole(value: str) -> tuple[str, str, str, str]:
    return f"int n, {value} v", value, "", f"return ({value}) (v - (((v % n) + n) % n));"


def _time(value: str, result: str, body: str) -> tuple[str, str, str, str]:
    return f"{value} v", "int", f"DataTypes.{result}", f"return {body};"


_CLASSES = {  # name -> parameters, Java's type of the result, Spark's ("": that of the value), body
    "BucketInt": _bucket("int", f"{_HASH}.hashLong((long) v, 0)"),
    "BucketLong": _bucket("long", f"{_HASH}.hashLong(v, 0)"),
    "BucketString": _bucket(_TEXT, f"{_HASH}.hashUnsafeBytes2(v.getBaseObject(), v.getBaseOffset(), v.numBytes(), 0)"),
    "BucketBinary": _bucket("byte[]", _BYTE_HASH.format("v")),
    "BucketDecimal": _bucket(
        _DECIMAL, _BYTE_HASH.format("b"), "byte[] b = v.toJavaBigDecimal().unscaledValue().toByteArray(); ",
    ),
    "TruncateTinyInt": _truncate_whole("byte"),
    "TruncateSmallInt": _truncate_whole("short"),
    "TruncateInt": _truncate_whole("int"),
    "TruncateBigInt": _truncate_whole("long"),
    "TruncateString": _truncate(_TEXT, "return v.substring(0, n);"),
    "TruncateBinary": _truncate("byte[]", "return v.length <= n ? v : java.util.Arrays.copyOf(v, n);"),
    "TruncateDecimal": _truncate(
        _DECIMAL,
        "java.math.BigInteger u = v.toJavaBigDecimal().unscaledValue(); java.math.BigInteger w = java.math.BigInteger.valueOf((long) n); "
        f"return {_DECIMAL}.apply(new java.math.BigDecimal(u.subtract(u.mod(w)), v.scale()), v.precision(), v.scale());",
    ),
    "DateToYears": _time("int", "IntegerType", f"{_DATE}.getYear() - 1970"),
    "TimestampToYears": _time("long", "IntegerType", f"{_TIMESTAMP}.getYear() - 1970"),
    "DateToMonths": _time("int", "IntegerType", _MONTHS.format(_DATE)),
    "TimestampToMonths": _time("long", "IntegerType", _MONTHS.format(_TIMESTAMP)),
    "DateToDays": _time("int", "DateType", "v"),
    "TimestampToDays": _time("long", "DateType", "(int) Math.floorDiv(v, 86400000000L)"),
    "TimestampToHours": _time("long", "IntegerType", "(int) Math.floorDiv(v, 3600000000L)"),
    "IcebergVersion": ("", _TEXT, "DataTypes.StringType", f"return {_TEXT}.fromString(\"<version>\");"),
}  # fmt: skip
_SOURCE = """
  public static final class {name} extends Function {{
    public {name}(String name, DataType[] takes, DataType returns) {{ super(name, takes, returns); }}
    public static {result} invoke({parameters}) {{ {body} }}
  }}
"""
_FRAME = """
package {package};
import org.apache.spark.sql.types.DataType;
public final class Functions {{
  public static abstract class Function implements org.apache.spark.sql.connector.catalog.functions.ScalarFunction {{
    private final String name;
    private final DataType[] takes;
    private final DataType returns;
    Function(String name, DataType[] takes, DataType returns) {{ this.name = name; this.takes = takes; this.returns = returns; }}
    public String name() {{ return name; }}
    public DataType[] inputTypes() {{ return takes; }}
    public DataType resultType() {{ return returns; }}
    public boolean isResultNullable() {{ return takes.length > 0; }}
    public boolean isDeterministic() {{ return true; }}
    public String canonicalName() {{
      StringBuilder text = new StringBuilder("iceberg." + name + "(");
      for (int i = 0; i < takes.length; i++) {{ text.append(i == 0 ? "" : ", ").append(takes[i].catalogString()); }}
      return text.append(")").toString();
    }}
  }}
  {classes}
}}
"""
_CLASSES_OF: weakref.WeakKeyDictionary[Jvm, _Compiled] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


class _Compiled:
    """Hold the functions' classes of one JVM, and the file that its tasks load them from."""

    def __init__(self, spark: Session, jvm: Jvm, version: str):
        self.jar = _jar(jvm, version)
        self.sessions: weakref.WeakSet[Any] = weakref.WeakSet()
        self.add(spark)
        loader = spark._jsparkSession.sharedState().jarClassLoader()
        find = jvm.view.java.lang.Class.forName
        self.constructors = {
            n: find(f"{_PACKAGE}.Functions${n}", True, loader).getConstructors()[0]
            for n in _CLASSES
        }

    def add(self, spark: Session) -> None:
        """Let a session's tasks load the classes."""
        if spark not in self.sessions:
            spark._jsparkSession.sessionState().resourceLoader().addJar(self.jar)
            self.sessions.add(spark)


def _jar(jvm: Jvm, version: str) -> str:
    """Compile the classes, and return the path of the file that holds them."""
    classes = "".join(
        _SOURCE.format(
            name=name, parameters=takes, result=returns, body=body.replace("<version>", version)
        )
        for name, (takes, returns, _, body) in _CLASSES.items()
    )
    view = jvm.view
    compiler = getattr(view, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(view.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_FRAME.format(package=_PACKAGE, classes=classes))
    folder = Path(tempfile.mkdtemp(prefix="frazil-functions-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    code = compiler.getBytecodes()
    with zipfile.ZipFile(folder / "frazil-functions.jar", "w") as jar:
        for name in code:
            jar.writestr(str(name).replace(".", "/") + ".class", bytes(code[name]))
    return str(folder / "frazil-functions.jar")


def integer_type(jvm: Jvm) -> Any:
    """Return Spark's type INT, in the JVM."""
    return getattr(jvm.view, f"{_TYPES}DataTypes").IntegerType


def scalar_function(
    spark: Session,
    jvm: Jvm,
    class_name: str,
    name: str,
    version: str,
    takes: list[Any],
    returns: JavaObject | None = None,
) -> Any:
    """Make Spark's ScalarFunction of a class of `_CLASSES`. `takes`: Spark's types of its
    arguments, in the JVM; `returns`: that of the result, where it is that of the value."""
    with _LOCK:
        if (compiled := _CLASSES_OF.get(jvm)) is None:
            compiled = _CLASSES_OF[jvm] = _Compiled(spark, jvm, version)
        compiled.add(spark)
    types = getattr(jvm.view, f"{_TYPES}DataType")
    array = spark.sparkContext._gateway.new_array(types, len(takes))
    for place, of in enumerate(takes):
        array[place] = of
    own = _CLASSES[class_name][2].removeprefix("DataTypes.")
    result = getattr(getattr(jvm.view, f"{_TYPES}DataTypes"), own) if own else returns
    arguments = spark.sparkContext._gateway.new_array(jvm.view.java.lang.Object, 3)
    arguments[0], arguments[1], arguments[2] = name, array, result
    return compiled.constructors[class_name].newInstance(arguments)


_PARAMETER = CATALOG + "procedures.ProcedureParameter"


def parameters(
    types: CatalogTypes, spark: Session, described: Sequence[tuple[str, str, bool]]
) -> Any:
    """Make an array of ProcedureParameter. `described`: the name, the type as SQL text, and whether
    it is required, of each.
    """
    kind = getattr(types.jvm.view, _PARAMETER)
    parse = getattr(types.jvm.view, "org.apache.spark.sql.types.DataType").fromDDL
    built = []
    for name, type_text, required in described:
        builder = getattr(kind, "in")(name, parse(type_text))
        built.append((builder if required else builder.defaultValue("NULL")).build())
    return types.array(kind, built)


def arguments(row: JavaObject, kinds: Sequence[str]) -> list[Any]:
    """Read the row of arguments that Spark calls a procedure with. Times are milliseconds since
    1970.
    """
    return [
        None if row.isNullAt(place) else _value(row, place, kind)
        for place, kind in enumerate(kinds)
    ]


def _value(values: JavaObject, place: int, kind: str) -> Any:
    match kind:
        case "STRING":
            return str(values.getUTF8String(place).toString())
        case "BOOLEAN":
            return bool(values.getBoolean(place))
        case "INT":
            return int(values.getInt(place))
        case "BIGINT":
            return int(values.getLong(place))
        case "DOUBLE":
            return float(values.getDouble(place))
        case "TIMESTAMP":
            return int(values.getLong(place)) // 1000
        case "ARRAY<STRING>" | "ARRAY<BIGINT>":
            return _members(values.getArray(place), kind[6:-1])
        case "MAP<STRING, STRING>":
            pairs = values.getMap(place)
            return dict(
                zip(
                    _members(pairs.keyArray(), "STRING"),
                    _members(pairs.valueArray(), "STRING"),
                    strict=True,
                )
            )
    raise NotImplementedError(f"A parameter of type {kind} cannot be read.")


def _members(array: JavaObject, kind: str) -> list[Any]:
    return [
        None if array.isNullAt(n) else _value(array, n, kind) for n in range(array.numElements())
    ]


def rows(spark: Session, table: pa.Table, schema: s.StructType) -> Any:
    """Make an array of Spark's internal rows of an Arrow table. No job is run."""
    return (
        spark.createDataFrame(table, schema)._jdf.queryExecution().executedPlan().executeCollect()
    )
