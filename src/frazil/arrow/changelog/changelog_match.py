"""Match the deleted and inserted rows of a changelog: drop rows that were only carried over, and
pair the two sides of an update by key.

A copy-on-write commit rewrites whole files, so most of the rows that it deletes and inserts are
equal and are no change. To find them, only the digest of each row and its position in its file are
held: 28 bytes per row, 44 with keys. Within a budget they are held in memory, beyond it in files on
disk, one per range of digests, so that rows that may be equal are in the same file. The verdict on
a row is one bit at the row's position in its data file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.arrow.values.row_digest import Digests
from frazil.storage.base import temporary_files

BUDGET = 256 * 1024 * 1024  # bytes of digests and places, and of what sorting them takes
_BUCKETS = 256
_SORTING = 4  # sorting records takes this many times their own bytes
_PLAIN = [("a", "<u8"), ("b", "<u8"), ("source", "<i4"), ("place", "<i8")]
_KEYED = [*_PLAIN, ("ka", "<u8"), ("kb", "<u8")]
Records = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Marks:
    """Hold one bit per row of a data file."""

    def __init__(self, rows: int):
        self._bits = np.zeros((rows + 7) // 8, np.uint8)

    def set(self, places: Numbers) -> None:
        np.bitwise_or.at(self._bits, places >> 3, (1 << (places & 7)).astype(np.uint8))

    def get(self, places: Numbers) -> Flags:
        return np.asarray((self._bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1, bool)


@dataclass(frozen=True)
class Verdict:
    """Tell, for one changelog task, which rows stay in the changelog (`stays`) and which of those
    are one side of an update (`updates`).
    """

    stays: Marks
    updates: Marks


@dataclass
class Matcher(AbstractContextManager["Matcher"]):
    """Match the rows of several changelog tasks with each other.

    `inserted`, `order` and `rows` hold one value per task: whether it inserts or deletes rows, the
    ordinal of its snapshot, and the number of rows of its file. Rows of different snapshots are
    matched only for net changes; a later row then cancels the latest earlier one.
    """

    inserted: Sequence[bool]
    order: Sequence[int]
    rows: Sequence[int]
    keyed: bool = False
    budget: int = BUDGET
    staying: int = 0
    spilled: int = 0
    _held: list[Records] = field(default_factory=list)
    _bytes: int = 0
    _folder: Any = None

    def add(self, task: int, places: Numbers, rows: Digests, keys: Digests | None = None) -> None:
        """Add rows of a task: their positions in its file, their digests and, when `keyed`, the
        digests of their keys.
        """
        digests = np.zeros(len(places), _KEYED if self.keyed else _PLAIN)
        digests["a"], digests["b"], digests["source"], digests["place"] = (
            rows[0],
            rows[1],
            task,
            places,
        )
        if keys is not None:
            digests["ka"], digests["kb"] = keys
        self._held.append(digests)
        self._bytes += digests.nbytes
        if self._bytes * (1 + _SORTING) > self.budget:
            self._spill()

    def verdicts(self) -> list[Verdict]:
        """Decide on all rows, once all have been added; one verdict per task."""
        verdicts = [Verdict(Marks(n), Marks(n)) for n in self.rows]
        signs = np.where(np.asarray(self.inserted, bool), 1, -1).astype(np.int64)
        ranks = np.asarray(self.order, np.int64) * 2 + (signs > 0)
        for records in self._buckets():
            if not len(records):
                continue
            staying = _staying(records, signs, ranks)
            self.staying += len(staying)
            _mark(staying, [v.stays for v in verdicts])
            if self.keyed:
                _mark(_updates(staying, signs), [v.updates for v in verdicts])
        return verdicts

    def _buckets(self) -> Iterator[Records]:
        if self._folder is None:
            yield (
                np.concatenate(self._held)
                if self._held
                else np.zeros(0, _KEYED if self.keyed else _PLAIN)
            )
            return
        self._spill()
        with temporary_files(self._folder.name):
            paths = sorted(Path(self._folder.name).iterdir())
        for path in paths:
            with temporary_files(str(path)):
                records = np.fromfile(path, _KEYED if self.keyed else _PLAIN)
            yield records

    def _spill(self) -> None:
        """Write the records in memory to disk, into one file per first byte of the key's digest
        (without keys: of the row's digest).
        """
        if self._folder is None:
            with temporary_files():
                self._folder = tempfile.TemporaryDirectory(
                    prefix="frazil-changes-", ignore_cleanup_errors=True
                )
        if not self._held:
            return
        records = np.concatenate(self._held)
        bucket = (records["ka" if self.keyed else "a"] >> np.uint64(56)).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        records, ends = records[order], np.cumsum(np.bincount(bucket, minlength=_BUCKETS))
        for number, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if end > begin:
                path = Path(self._folder.name) / f"{number:03}"
                with temporary_files(str(path)), path.open("ab") as file:
                    file.write(records[begin:end].tobytes())
        self.spilled += len(records)
        self._held, self._bytes = [], 0

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def _staying(records: Records, signs: Numbers, ranks: Numbers) -> Records:
    """Keep the rows that no equal row cancels: in the order of time, a deleted and an inserted row
    cancel as brackets match.
    """
    sources = records["source"]
    order = np.lexsort((records["place"], sources, ranks[sources], records["b"], records["a"]))
    sorted_ = records[order]
    fresh = np.ones(len(sorted_), bool)
    fresh[1:] = (sorted_["a"][1:] != sorted_["a"][:-1]) | (sorted_["b"][1:] != sorted_["b"][:-1])
    group = np.cumsum(fresh) - 1
    steps = signs[sorted_["source"]]
    total = np.cumsum(steps)
    begins = np.flatnonzero(fresh)
    level = total - (total[begins] - steps[begins])[group]
    return np.asarray(
        sorted_[_unmatched(level, group, steps > 0) | _unmatched(-level, group, steps < 0)]
    )


def _unmatched(level: Numbers, group: Numbers, of_sign: Flags) -> Flags:
    """Flag the rows of one sign that stay unmatched.

    `level` is the running sum of the signs within each group of equal rows. An unmatched row lifts
    the sum above zero to a level below which it never falls again.
    """
    # shifts the groups so far apart that the minimum of one is never taken from a later one
    distance = 2 * len(level) + 2
    lowest = np.minimum.accumulate((level + group * distance)[::-1])[::-1] - group * distance
    return np.asarray(of_sign & (level >= 1) & (level <= lowest))


def _updates(staying: Records, signs: Numbers) -> Records:
    """Pick the rows that are updates: of each key, as many deleted rows as inserted ones, paired in
    the order of their digests.
    """
    coming = signs[staying["source"]] > 0
    order = np.lexsort(
        (
            staying["place"],
            staying["source"],
            staying["b"],
            staying["a"],
            coming,
            staying["kb"],
            staying["ka"],
        )
    )
    sorted_, coming = staying[order], coming[order]
    fresh = np.ones(len(sorted_), bool)
    fresh[1:] = (sorted_["ka"][1:] != sorted_["ka"][:-1]) | (
        sorted_["kb"][1:] != sorted_["kb"][:-1]
    )
    group = np.cumsum(fresh) - 1
    came = np.bincount(
        group, coming.astype(np.int64), minlength=int(group.max(initial=-1)) + 1
    ).astype(np.int64)
    went = np.bincount(group, minlength=len(came)) - came
    first = np.flatnonzero(fresh)[group] + np.where(coming, went[group], 0)
    place = np.arange(len(sorted_)) - first
    return np.asarray(sorted_[place < np.minimum(came, went)[group]])


def _mark(records: Records, marks: Sequence[Marks]) -> None:
    order = np.argsort(records["source"], kind="stable")
    sources, places = records["source"][order], records["place"][order]
    for source in np.unique(sources):
        begin, end = np.searchsorted(sources, (source, source + 1))
        marks[source].set(places[begin:end])
