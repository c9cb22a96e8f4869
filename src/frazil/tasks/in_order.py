"""Read many files in parallel, with results in order and a bound on the bytes held in memory."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

U = TypeVar("U")
R = TypeVar("R")
MAX_OPEN = 64  # units that may be started before their results are consumed


def default_workers() -> int:
    """Count the cores that this process may use, at least 1."""
    return max(
        1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


_LIVE: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Close readers that were not read to their end: a thread inside Arrow must not outlive the
    interpreter.
    """
    for reader in list(_LIVE):
        reader.close()


class _Slot(Generic[R]):
    """Hold the results of one unit that are ready, whether it is done, and the error that ended it."""

    __slots__ = ("done", "error", "ready")

    def __init__(self) -> None:
        self.ready: deque[tuple[R, int]] = deque()
        self.done, self.error = False, None


class InOrder(Generic[U, R]):
    """Produce the results of units in threads, and yield them in the order of the units: `for
    result in InOrder(units, produce, …)`.

    `size` returns the bytes of a result; at most `budget` bytes wait to be consumed (the unit whose
    turn it is may always add one result). An error is raised where the results of its unit would
    come. `close`, or the end of the loop, stops the threads.
    """

    def __init__(
        self,
        units: Iterable[U],
        produce: Callable[[U], Iterator[R]],
        *,
        workers: int,
        budget: int,
        size: Callable[[R], int],
    ):
        self._units, self._produce, self._size, self._budget = iter(units), produce, size, budget
        self._take, self._state = threading.Lock(), threading.Condition()
        self._slots: deque[_Slot[R]] = deque()
        self._held, self._stopped, self._exhausted = 0, False, False
        self._working = workers
        self._threads = [
            threading.Thread(target=self._work, daemon=True, name=f"frazil-read-{i}")
            for i in range(workers)
        ]

    def __iter__(self) -> Iterator[R]:
        _LIVE.add(self)
        for thread in self._threads:
            thread.start()
        try:
            while (entry := self._next()) is not None:
                yield entry[0]
        finally:
            self.close()

    def close(self) -> None:
        """Stop the threads and wait for them; each finishes the result that it is producing."""
        with self._state:
            self._stopped = True
            self._state.notify_all()
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join()

    def _next(self) -> tuple[R, int] | None:
        with self._state:
            while True:
                head = self._slots[0] if self._slots else None
                if head is not None and head.ready:
                    entry = head.ready.popleft()
                    self._held -= entry[1]
                    self._state.notify_all()
                    return entry
                if head is not None and head.done:
                    self._slots.popleft()
                    self._state.notify_all()
                    if head.error is not None:
                        raise head.error
                    continue
                if head is None and (self._exhausted or self._working == 0):
                    return None
                self._state.wait()

    def _work(self) -> None:
        try:
            while (slot := self._start()) is not None:
                self._fill(*slot)
        finally:
            with self._state:
                self._working -= 1
                self._state.notify_all()

    def _start(self) -> tuple[U | None, _Slot[R]] | None:
        """Take the next unit and append its slot; one thread at a time does so, so that slots are
        in the order of units.
        """
        with self._take:
            with self._state:
                while len(self._slots) >= MAX_OPEN and not self._stopped:
                    self._state.wait()
                if self._stopped or self._exhausted:
                    return None
            slot: _Slot[R] = _Slot()
            unit: U | None = None
            try:
                unit = next(self._units)
            except StopIteration:
                with self._state:
                    self._exhausted = True
                    self._state.notify_all()
                return None
            except BaseException as error:
                slot.done, slot.error = True, error  # type: ignore[assignment]
            with self._state:
                if slot.done:
                    self._exhausted = True
                self._slots.append(slot)
                self._state.notify_all()
            return None if slot.done else (unit, slot)

    def _fill(self, unit: Any, slot: _Slot[R]) -> None:
        try:
            for result in self._produce(unit):
                size = self._size(result)
                with self._state:
                    while (
                        self._held >= self._budget
                        and not self._stopped
                        and not (slot is self._slots[0] and not slot.ready)
                    ):
                        self._state.wait()
                    if self._stopped:
                        return
                    slot.ready.append((result, size))
                    self._held += size
                    self._state.notify_all()
        except BaseException as error:
            slot.error = error  # type: ignore[assignment]
        finally:
            with self._state:
                slot.done = True
                self._state.notify_all()


def map_in_order(
    work: Callable[[U], R],
    units: Iterable[U],
    workers: int | None = None,
    *,
    abandon: Callable[[], None] = lambda: None,
) -> Iterator[R]:
    """Map a function over units in a few threads, with results in order; at most four units per
    thread are ahead of the caller.

    `abandon`: called at the end, before the threads are waited for, so that units whose results are
    not wanted any more can be asked to end.
    """
    count = workers or default_workers()
    if count <= 1:
        yield from map(work, units)
        return
    with ThreadPoolExecutor(count, thread_name_prefix="frazil-map") as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for unit in units:
                waiting.append(pool.submit(work, unit))
                if len(waiting) > 4 * count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            abandon()
            for future in waiting:
                future.cancel()
