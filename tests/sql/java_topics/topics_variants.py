"""Variants, geometries and geographies."""

from tests.sql.java_topics.harness import Place, case

V3 = "TBLPROPERTIES ('format-version' = '3')"
VECTORISED = ("true", "false")


def two_variants(p: Place) -> None:
    p.sql(f"CREATE TABLE $t (id BIGINT, v1 VARIANT, v2 VARIANT) USING iceberg {V3}")
    vectorised(p)
    p.sql("""INSERT INTO $t SELECT 1, parse_json('{"a":1}'), parse_json('{"x":10}')""")
    p.sql("""INSERT INTO $t SELECT 2, parse_json('{"b":2}'), parse_json('{"y":20}')""")


def vectorised(p: Place) -> None:
    p.sql(f"ALTER TABLE $t SET TBLPROPERTIES ('read.parquet.vectorization.enabled' = '{p.each}')")


def a_variant(key: str, value: int) -> str:
    return f"""parse_json('{{"{key}":{value}}}')"""


@case("TestSparkVariantRead.testVariantColumnProjection_singleVariant", each=VECTORISED)
def one_variant_of_two_is_read(p: Place) -> None:
    two_variants(p)
    frame = p.spark.table(p.text("$t")).select("id", "v1").orderBy("id")
    assert frame.columns == ["id", "v1"] and frame.count() == 2
    assert [row.v1.toPython() for row in frame.collect()] == [{"a": 1}, {"b": 2}]


@case("TestSparkVariantRead.testVariantReadAfterDelete", each=VECTORISED)
def variants_are_read_past_a_deletion_vector(p: Place) -> None:
    p.sql("""CREATE TABLE $t (id BIGINT, v1 VARIANT) USING iceberg
             TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')""")
    vectorised(p)
    query = f"SELECT 1L AS id, {a_variant('a', 1)} AS v1 UNION ALL SELECT 2L, {a_variant('b', 2)}"
    p.spark.sql(query).coalesce(1).writeTo(p.text("$t")).append()
    p.sql("DELETE FROM $t WHERE id = 1")
    p.rows("SELECT content FROM $t.all_files ORDER BY content", (0,), (1,))
    p.rows("SELECT id, variant_get(v1, '$$.b', 'int') FROM $t", (2, 2))


def person(name: str, age: int) -> str:
    return f"""parse_json('{{"age":{age},"name":"{name}"}}')"""


@case(
    "TestSparkVariantRead.testReadShreddedAfterPropertyToggled",
    "TestSparkVariantRead.testReadShreddedWithMetricsDisabled",
    each=VECTORISED,
    differs="variants are written unshredded, and the setting that asks for it is refused",
)
def variants_are_read_whether_they_are_to_be_shredded_or_not(p: Place) -> None:
    for n, mode in enumerate(("full", "none", "counts")):
        p.sql(f"""CREATE OR REPLACE TABLE $t (id BIGINT, v VARIANT) USING iceberg TBLPROPERTIES (
                  'format-version' = '3', 'write.parquet.shred-variants' = 'true',
                  'write.metadata.metrics.default' = '{mode}')""")
        vectorised(p)
        with p.conf({"spark.sql.iceberg.shred-variants": "true"}):
            p.sql(f"INSERT INTO $t VALUES (1, {person('alice', 30)}), (2, {person('bob', 25)})")
        if n == 0:
            p.sql("ALTER TABLE $t SET TBLPROPERTIES ('write.parquet.shred-variants' = 'false')")
        p.rows(
            "SELECT id, to_json(v) FROM $t ORDER BY id",
            (1, '{"age":30,"name":"alice"}'), (2, '{"age":25,"name":"bob"}'),
        )  # fmt: skip


POINT, OTHER = (
    "01010000000000000000003E400000000000002440",
    "010100000000000000000059400000000000004940",
)
PLACE = "01010000000000000000C051C00000000000004540"
MODES = ("copy-on-write", "merge-on-read")
GAP = "geometry and geography are a gap: no column of a table is of Spark's types"


def geometry(wkb: str) -> str:
    return f"st_setsrid(st_geomfromwkb(X'{wkb}'), 4326)"


def geography(wkb: str) -> str:
    return f"st_setsrid(st_geogfromwkb(X'{wkb}'), 4326)"


def places(p: Place, kind: str = "GEOMETRY(4326), geog GEOGRAPHY(4326)") -> None:
    p.sql(f"""CREATE TABLE $t (id BIGINT, geom {kind}) USING iceberg TBLPROPERTIES (
              'format-version' = '3', 'write.delete.mode' = '{p.each}',
              'write.update.mode' = '{p.each}', 'write.merge.mode' = '{p.each}')""")
    p.sql(f"""INSERT INTO $t SELECT /*+ COALESCE(1) */ * FROM VALUES
              (1, {geometry(POINT)}, {geography(PLACE)}), (2, NULL, NULL)""")


def shown(p: Place, *expected: tuple[object, ...]) -> None:
    p.rows(
        "SELECT id, hex(st_asbinary(geom)), hex(st_asbinary(geog)) FROM $t ORDER BY id", *expected
    )


@case("TestSparkGeospatial.testGeospatialWkbReadBack", each=MODES, differs=GAP)
def shapes_come_back(p: Place) -> None:
    with p.conf({"spark.sql.geospatial.enabled": "true"}):
        places(p)
        shown(p, (1, POINT, PLACE), (2, None, None))


@case("TestSparkGeospatial.testDeleteGeospatial", each=MODES, differs=GAP)
def rows_beside_shapes_are_deleted(p: Place) -> None:
    with p.conf({"spark.sql.geospatial.enabled": "true"}):
        places(p)
        p.sql("DELETE FROM $t WHERE id = 1")
        shown(p, (2, None, None))


@case("TestSparkGeospatial.testUpdateGeospatial", each=MODES, differs=GAP)
def shapes_are_updated(p: Place) -> None:
    with p.conf({"spark.sql.geospatial.enabled": "true"}):
        places(p)
        p.sql(f"UPDATE $t SET geom = {geometry(OTHER)} WHERE id = 1")
        shown(p, (1, OTHER, PLACE), (2, None, None))


@case("TestSparkGeospatial.testMergeGeospatial", each=MODES, differs=GAP)
def shapes_are_merged(p: Place) -> None:
    with p.conf({"spark.sql.geospatial.enabled": "true"}):
        places(p)
        p.sql(f"""MERGE INTO $t AS t USING (
                  SELECT 1 AS id, {geometry(OTHER)} AS geom, {geography(PLACE)} AS geog
                  UNION ALL SELECT 3, {geometry(POINT)}, {geography(PLACE)}) AS s ON t.id = s.id
                  WHEN MATCHED THEN UPDATE SET t.geom = s.geom, t.geog = s.geog WHEN NOT MATCHED THEN INSERT *""")
        shown(p, (1, OTHER, PLACE), (2, None, None), (3, POINT, PLACE))


@case("TestSparkGeospatial.testDeleteNestedGeospatial", each=MODES, differs=GAP)
def shapes_inside_a_struct_stay_when_others_are_deleted(p: Place) -> None:
    with p.conf({"spark.sql.geospatial.enabled": "true"}):
        p.sql(f"""CREATE TABLE $t (id BIGINT, s STRUCT<c1: INT, geom: GEOMETRY(4326)>) USING iceberg
                  TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = '{p.each}')""")
        for n, wkb in ((1, OTHER), (2, POINT)):
            p.sql(
                f"INSERT INTO $t VALUES ({n}, named_struct('c1', {10 * n}, 'geom', {geometry(wkb)}))"
            )
        p.sql("DELETE FROM $t WHERE s.c1 = 10")
        p.rows("SELECT id, s.c1, hex(st_asbinary(s.geom)) FROM $t", (2, 20, POINT))
