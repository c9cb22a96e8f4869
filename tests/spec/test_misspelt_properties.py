"""A table property that is nearly a known one is a warning, wherever it is set; names of other
engines' properties are none.
"""

import logging

import pytest

import frazil
from frazil.commit.evolve.update_properties import meant_by
from frazil.spec.properties import COLUMN_PROPERTIES, OF_OTHERS, TABLE_PROPERTIES


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("write.format.defualt", "write.format.default"),
        ("write_format_default", "write.format.default"),
        ("Write.Target-File-Size-Bytes", "write.target-file-size-bytes"),
        ("write.target-file-size", "write.target-file-size-bytes"),
        ("write.parquet.compresion-codec", "write.parquet.compression-codec"),
        ("write.wap.enable", "write.wap.enabled"),
        ("commit.retry.num-retry", "commit.retry.num-retries"),
        ("history.expire.max-snapshot-age", "history.expire.max-snapshot-age-ms"),
        ("write.metadata.metrics.colum.id", "write.metadata.metrics.column.id"),
        ("gc.enable", "gc.enabled"),
        (
            "write.parquet.bloom-filter-enabled.columns.s.x",
            "write.parquet.bloom-filter-enabled.column.s.x",
        ),
        ("write.merge.mod", "write.merge.mode"),
        ("format_version", "format-version"),
    ],
)
def test_a_name_that_is_nearly_a_known_one_is_told(typed, meant):
    assert meant_by(typed) == meant


def test_known_names_and_names_of_ones_own_are_not_taken_for_misspelt():
    columns = [prefix + "some.column" for prefix in COLUMN_PROPERTIES]
    own = [
        "team",
        "dbt.model",
        "quality.owner",
        "write.team",
        "delta.appendOnly",
        "my-app.write.format",
        "retention",
        "spark.sql.x",
        "created-by",
        "write.delete.parquet.row-group-check-min-record-count",
        "write.delete.orc.vectorized.batch-size",
        "kafka.commit.offsets",
    ]
    assert [
        n for n in (*TABLE_PROPERTIES, *OF_OTHERS, *columns, *own) if meant_by(n) is not None
    ] == []


def test_a_misspelt_property_is_a_warning_wherever_it_is_set(caplog):
    catalog = frazil.load_catalog("names", type="memory")
    catalog.create_namespace("db")
    with caplog.at_level(logging.WARNING, "frazil"):
        table = catalog.create_table(
            "db.t", "id int", properties={"write.format.defualt": "orc", "owner": "me"}
        )
        table.set_properties({"write.merge.mod": "merge-on-read"})
        table.set_properties(write_format_default="orc")
        with table.update_properties() as update:
            update.set("gc.enable", False)
        with table.transaction() as tx:
            tx.set_properties({"write.wap.enable": True})
        told = [r.getMessage() for r in caplog.records]
        assert [m.partition("Did you mean ")[2] for m in told] == [
            "'write.format.default'?",
            "'write.merge.mode'?",
            "'write.format.default'?",
            "'gc.enabled'?",
            "'write.wap.enabled'?",
        ]
        caplog.clear()
        table.set_properties({"write.format.default": "orc", "team": "x"})
        table.append([{"id": 1}])
    assert caplog.records == [] and table.properties["write.format.defualt"] == "orc"
