"""Define every error that Frazil raises. Each tells the facts by name, and whether a retry can
help.

    FrazilError
    ├── InvalidInput (ValueError)          an argument or a change is refused; nothing was committed
    │   ├── ValidationError                a schema, spec, ref or property breaks a rule of the format
    │   │   ├── ValidationException        a concurrent change conflicts with the commit under its isolation level
    │   │   └── ResolveError               values of one type cannot be read as another
    │   ├── SchemaMismatch                 a frame does not fit the table's schema
    │   ├── ParseError                     text is not a valid predicate, type, transform or identifier
    │   ├── EvaluationError                an expression fails on a value (overflow, division by zero, invalid cast)
    │   │   └── ValueMismatch              a value cannot be stored in its column's type without loss (a SchemaMismatch as well)
    │   ├── Unsupported                    a valid request that Frazil does not serve (yet); see KNOWN_GAPS.md
    │   │   ├── NoSuchMethod               a method of another product; the message names Frazil's (an AttributeError as well)
    │   │   └── NotASequence               a table used as a list or a dict (a TypeError as well)
    │   ├── AlreadyExists: TableAlreadyExistsError NamespaceAlreadyExistsError ViewAlreadyExistsError FileAlreadyExistsError
    │   ├── NamespaceNotEmptyError
    │   └── NotInstalledError              an optional package is missing; the message holds the pip command
    ├── NotFound                           a table, namespace, snapshot, ref or file does not exist
    │   └── NoSuchTableError NoSuchNamespaceError NoSuchViewError NoSuchSnapshotError NoSuchRefError
    │       NoSuchPropertyException NoSuchFileError
    ├── CommitFailedException              another writer was first: certainly not applied, retryable
    │   └── WaitingForLockException
    ├── CommitStateUnknownException        the commit may have been applied: every file is kept
    ├── ScanPlanningError                  a catalog's server failed to plan a scan, cancelled it or took too long
    ├── CorruptData                        a file is truncated, damaged or hostile
    └── StorageError                       the store refused or failed (permission, space, network)
"""

from __future__ import annotations

import os.path
import sys
import traceback
from types import FrameType
from typing import Any

_HERE = os.path.dirname(__file__) + os.sep
HIDES_FRAMES = True
"""Whether pytest leaves out Frazil's own frames in tracebacks of its errors; `pytest --full-trace`
shows them in any case.
"""


class FrazilError(Exception):
    """Report an error; the base of all errors. `facts`: what is known, by name (table, snapshot_id,
    file, offset, …). `hint`: what to do next. `retryable`: whether the same call can succeed when
    it is made again."""

    retryable = False

    def __init__(self, message: str = "", *, hint: str | None = None, **facts: object):
        self.message, self.hint = message, hint
        self.facts: dict[str, Any] = {k: v for k, v in facts.items() if v is not None}
        super().__init__()
        self._set_text()
        _mark_frames(sys._getframe())

    def _set_text(self) -> None:
        self.args = (f"{self.message} {self.hint}" if self.hint else self.message,)

    def of_table(self, name: str, location: str) -> None:
        """Name the table in the message and the facts, unless the error names one already."""
        if (
            self.facts.setdefault("table", name) in (name, location)
            and name not in str(self)
            and location not in str(self)
        ):
            self.message = f"Table {name}: {self.message}"
            self._set_text()

    def advise(self, hint: str) -> None:
        """Add a sentence to the hint."""
        self.hint = f"{self.hint} {hint}" if self.hint else hint
        self._set_text()

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that IPython and notebooks show: the caller's lines, without those
        inside of Frazil.
        """
        frames = traceback.extract_tb(self.__traceback__)
        outside = [f for f in frames if not f.filename.startswith((_HERE, "<frozen"))]
        text = f"{type(self).__name__}: {self}"
        return [*(line.rstrip() for line in traceback.format_list(outside[-3:])), text]

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.message, self.hint, self.facts)


class FrazilDeprecationWarning(DeprecationWarning):
    """Warn of a name that a later release removes; the text says which release, and what to write."""


def _mark_frames(frame: FrameType | None) -> None:
    """Mark the modules of Frazil that are being executed as those whose frames pytest leaves out."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_HERE):
            frame.f_globals["__tracebackhide__"] = _is_hidden
        frame = frame.f_back


def _is_hidden(error: Any) -> bool:
    return HIDES_FRAMES and error.errisinstance(FrazilError)


def _rebuild(
    kind: type[FrazilError], message: str, hint: str | None, facts: dict[str, Any]
) -> FrazilError:
    return kind(message, hint=hint, **facts)


class InvalidInput(FrazilError, ValueError):
    """Report that an argument or a change is refused; nothing was committed."""


class ValidationError(InvalidInput):
    """Report that a schema, spec, ref or property breaks a rule of the format."""


class ValidationException(ValidationError):
    """Report that a commit was refused because another writer changed the table in a way that its
    isolation level forbids. Nothing was applied."""


class ResolveError(ValidationError):
    """Report that values of a column's type cannot be read as the requested type."""


class SchemaMismatch(InvalidInput):
    """Report that a frame's columns do not fit the table's schema."""


class ParseError(InvalidInput):
    """Report that text is not a valid predicate, type, transform or identifier."""


class EvaluationError(InvalidInput, ArithmeticError):
    """Report that an expression fails on a value under Spark's ANSI rules: overflow, division by
    zero, an invalid cast.
    """


class ValueMismatch(SchemaMismatch, EvaluationError):
    """Report that a value has no equal one in its column's type. It may come from a frame or an
    expression, so callers may catch either base class."""


class Unsupported(InvalidInput, NotImplementedError):
    """Report a valid request that Frazil does not serve; the message names it."""


class NoSuchMethod(Unsupported, AttributeError):
    """Report a method of another product that the object does not have; the message names the call
    that does the same.
    """


class NotASequence(Unsupported, TypeError):
    """Report that a table was used as a list or a dict; the message names the call that does what
    was meant.
    """


class AlreadyExists(InvalidInput):
    """Report that a table, namespace, view or file of that name exists already."""


class TableAlreadyExistsError(AlreadyExists):
    """Report that a table, or a view, of that name exists."""


class NamespaceAlreadyExistsError(AlreadyExists):
    """Report that a namespace of that name exists."""


class ViewAlreadyExistsError(AlreadyExists):
    """Report that a view, or a table, of that name exists."""


class FileAlreadyExistsError(AlreadyExists, FileExistsError):
    """Report that a file exists at the location, and that overwriting it was not requested."""


class NamespaceNotEmptyError(InvalidInput):
    """Refuse to drop a namespace that still has tables, views or namespaces."""


class NotInstalledError(InvalidInput, ImportError):
    """Report that an optional package is missing; the message holds the pip command."""


class NotFound(FrazilError):
    """Report that a table, namespace, view, snapshot, ref, property or file does not exist."""


class NoSuchTableError(NotFound):
    """Report that a table does not exist."""


class NoSuchNamespaceError(NotFound):
    """Report that a namespace does not exist."""


class NoSuchViewError(NotFound):
    """Report that a view does not exist."""


class NoSuchSnapshotError(NotFound):
    """Report that a snapshot does not exist, or has expired."""


class NoSuchRefError(NotFound):
    """Report that a branch or tag does not exist."""


class NoSuchPropertyException(NotFound):
    """Report that a property is not set."""


class NoSuchFileError(NotFound, FileNotFoundError):
    """Report that a file named by the table or the caller is not in the store."""


class CommitFailedException(FrazilError):
    """Report that another writer committed first. The commit was certainly not applied; a retry on
    fresh metadata can succeed.
    """

    retryable = True


class WaitingForLockException(CommitFailedException):
    """Report that the lock of a table could not be acquired in time: the commit was certainly not
    applied."""


class CommitStateUnknownException(FrazilError):
    """Report that a commit may or may not have been applied. Every file that it wrote is kept. Look
    at the table before a retry.
    """


class ScanPlanningError(FrazilError):
    """Report that a catalog's server failed to plan a scan, cancelled the plan or took too long."""


class CorruptData(FrazilError):
    """Report a file that is truncated, damaged or hostile. Facts: file, offset."""


class StorageError(FrazilError, OSError):
    """Report that the store refused a request or failed: permission, space, network."""


NoSuchIcebergTableError = NoSuchTableError
NoSuchIdentifierError = NotFound
