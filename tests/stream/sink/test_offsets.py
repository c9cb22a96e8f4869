"""The digest of a batch's offsets, by which a mark tells apart two batches of one number."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from frazil.stream.sink.offsets import batch_digest

HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":%d,"conf":{"spark.sql.shuffle.partitions":"%d"}}\n'
TABLE = '{"position":[7,"after",0],"uuid":"u"}'


def digest(
    offsets: str, more: Mapping[str, str] | None = None, time: int = 1, head: str = HEAD
) -> str | None:
    files = {"offsets/3": head % (time, time) + offsets, **(more or {})}
    return batch_digest(3, files.get)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (TABLE, TABLE, True),
        (TABLE, '{"uuid":"u", "position":[7,"after",0]}', True),
        (TABLE, TABLE.replace("7", "8"), False),
        ('{"t":{"0":5,"1":9}}', '{"t":{"0":5,"1":10}}', False),
        ("5", "6", False),
        ("not json", "not json", True),
        ("not json", "nor this", False),
        (f"{TABLE}\n-", f"-\n{TABLE}", False),
        (TABLE, f"0:{TABLE}", True),
        (f"orders:{TABLE}", f"users:{TABLE}", False),
    ],
)
def test_the_same_offsets_have_the_same_digest_whenever_the_batch_was_planned(
    first: str, second: str, same: bool
) -> None:
    assert (digest(first) == digest(second, time=2)) is same and digest(first) is not None


def test_a_batch_of_files_is_told_by_the_list_of_its_files() -> None:
    listed = lambda *names: (
        "v1\n" + "\n".join(f'{{"path":"{n}","timestamp":1,"batchId":4}}' for n in names)
    )
    offset = '{"logOffset":4}'
    one = digest(offset, {"sources/0/4": listed("a")})
    assert (
        one
        == digest(offset, {"sources/0/4": listed("a")}, time=9)
        != digest(offset, {"sources/0/4": listed("a", "b")})
    )
    compacted = listed("a") + '\n{"path":"old","timestamp":1,"batchId":3}'
    assert digest(offset, {"sources/0/4.compact": compacted}) == one
    assert digest(f"0:{offset}", {"sources/0/4": listed("a")}) == one, (
        "as version 2 of the log writes it"
    )


def test_what_a_checkpoint_does_not_tell_has_no_digest(caplog: pytest.LogCaptureFixture) -> None:
    def broken(path: str) -> str:
        raise OSError("gone")

    assert batch_digest(3, {}.get) is None and batch_digest(3, {"offsets/3": "v1\n{}"}.get) is None
    assert batch_digest(3, broken) is None and "cannot be read" in caplog.text
