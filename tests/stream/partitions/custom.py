"""Extractors and policies as users write them."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

CALLS: list[Any] = []


def next_day(keys: list[str], values: list[str]) -> datetime:
    assert keys[0] == "dt"
    return datetime.fromisoformat(values[0]) + timedelta(days=1)


class Noon:
    def extract(self, keys: list[str], values: list[str]) -> datetime:
        return datetime.combine(date.fromisoformat(values[0]), datetime.min.time()).replace(hour=12)


def nothing(keys: list[str], values: list[str]) -> None:
    return None


class Recorder:
    """A policy as a class with parameters, as Flink has it."""

    made = 0

    def __init__(self, *parameters: str):
        self.parameters = parameters
        Recorder.made += 1

    def commit(self, context: Any) -> None:
        CALLS.append((self.parameters, context.partition_spec))
