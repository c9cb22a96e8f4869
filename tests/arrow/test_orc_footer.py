"""Damaged footers of ORC files are errors: pyarrow ends the process at a decimal that cannot be."""

import random

import pyarrow as pa
import pytest
from pyarrow import orc

from frazil.arrow.files.read_orc import OrcSource, _footer, _precisions, check_types
from frazil.errors import CorruptData
from frazil.spec.manifest import DataFile
from frazil.storage import storage_for

WIDE = pa.table({f"column_{n}": pa.array([1], pa.decimal128(10 + n % 20, 2)) for n in range(200)})


def damaged(path):
    """A file whose first decimal has a precision of 74."""
    orc.write_table(
        pa.table({"d": pa.array([1], pa.decimal128(10, 2))}), path, compression="uncompressed"
    )
    data = path.read_bytes()
    at = data.index(bytes([0x28, 10, 0x30, 2]))  # field 5 of a type, then field 6
    path.write_bytes(data[: at + 1] + bytes([74]) + data[at + 2 :])


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "zstd", "snappy"])
def test_precisions_are_found_whatever_the_codec(tmp_path, codec):
    path = tmp_path / "a.orc"
    orc.write_table(WIDE, path, compression=codec)
    with pa.OSFile(str(path)) as source:
        assert list(_precisions(_footer(source))) == [10 + n % 20 for n in range(200)]
        check_types(source, "a.orc")
        assert orc.ORCFile(source).read() == WIDE


def test_a_decimal_that_cannot_be_is_an_error_that_names_the_file(tmp_path):
    damaged(tmp_path / "a.orc")
    path = str(tmp_path / "a.orc")
    with pytest.raises(CorruptData, match=f"{path}.*precision 74"):
        OrcSource.open(
            DataFile(
                file_path=path,
                file_format="orc",
                partition=(),
                record_count=1,
                file_size_in_bytes=1,
            ),
            storage_for(path, {}),
        )


def test_flipped_bits_and_cut_files_end_in_errors(tmp_path):
    path, rnd = tmp_path / "a.orc", random.Random(5)
    orc.write_table(WIDE.slice(0, 1), path, compression="zlib")
    data = path.read_bytes()
    told = 0
    for n in range(300):
        bad = bytearray(data) if n % 3 else bytearray(data[: rnd.randrange(len(data))])
        if bad:
            bad[-1 - rnd.randrange(min(len(bad), 600))] ^= 1 << rnd.randrange(8)
        try:
            check_types(pa.BufferReader(bytes(bad)), "a.orc")
            orc.ORCFile(pa.BufferReader(bytes(bad))).read()
        except (CorruptData, pa.ArrowException, OSError):
            told += 1
    assert told > 100
