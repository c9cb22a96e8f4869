"""Hints are said in the words of the door at which they are read."""

from __future__ import annotations

import pytest

from frazil.maintain.wording import in_commands, in_sql

HINTS = [
    ("Create it with create_namespace first.", "Create it with CREATE NAMESPACE first.",
     "Create it with frazil create-namespace first."),
    ("allow_short_interval=True takes any time.", "allow_short_interval => TRUE takes any time.",
     "--allow-short-interval takes any time."),
    ("t.maintenance.expire_snapshots(clean_expired_metadata=True) drops it.",
     "CALL system.expire_snapshots(clean_expired_metadata => TRUE) drops it.",
     "frazil expire-snapshots TABLE --clean-expired-metadata drops it."),
    ("Name them by equal_schemes={'s3a,s3n': 's3'}.", "Name them by equal_schemes => map('s3a,s3n', 's3').",
     "Name them by --equal-schemes s3a,s3n=s3."),
    ("Give sort_order='a, b DESC'.", "Give sort_order => 'a, b DESC'.", "Give --sort-order 'a, b DESC'."),
    ("Read it (snapshot_id=7).", "Read it (VERSION AS OF 7).", "Read it (--snapshot-id 7)."),
    ("Drop it: drop_view('db.v').", "Drop it: DROP VIEW db.v.", "Drop it: frazil sql \"DROP VIEW db.v\"."),
    ("Run rewrite_data_files again.", "Run CALL system.rewrite_data_files again.",
     "Run frazil rewrite-data-files TABLE again."),
    ("Leave write.data.path=x; to migrate is an auto start.",) * 3,
    ("f(…).scan(snapshot_id=…).to_spark() reads it.",) * 3,
]  # fmt: skip


@pytest.mark.parametrize("python, sql, command", HINTS)
def test_a_hint_has_the_words_of_each_door(python: str, sql: str, command: str) -> None:
    assert (in_sql(python), in_commands(python)) == (sql, command)
