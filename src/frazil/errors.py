"""Every error Frazil raises, drawn as one tree; each carries facts and whether trying again can help.

FrazilError
├── InvalidInput (ValueError)          refused before anything was written
│   ├── ValidationError                a schema, spec or property breaks a rule of the format
│   │   ├── ValidationException        a commit would break what its writer assumed (conflicting files)
│   │   └── ResolveError               values of one type cannot be read as another
│   ├── SchemaMismatch                 a frame does not fit the table
│   ├── ParseError                     text that is no predicate, DDL or transform
│   ├── EvaluationError                a row's value breaks an expression (overflow, division by zero, invalid cast)
│   │   └── ValueMismatch              a value has no equal one in its column's type (a SchemaMismatch as well)
│   ├── Unsupported                    right, but not done by Frazil (yet); see KNOWN_GAPS.md
│   │   └── NoSuchMethod               a method of another product; the message names Frazil's (an AttributeError as well)
│   ├── AlreadyExists: TableAlreadyExistsError NamespaceAlreadyExistsError ViewAlreadyExistsError FileAlreadyExistsError
│   ├── NamespaceNotEmptyError
│   └── NotInstalledError              an extra is missing; the message holds the pip command
├── NotFound                           not there
│   └── NoSuchTableError NoSuchNamespaceError NoSuchViewError NoSuchSnapshotError NoSuchRefError
│       NoSuchPropertyException NoSuchFileError
├── CommitFailedException              lost a race: definitely not applied, retryable
│   └── WaitingForLockException
├── CommitStateUnknownException        may be applied: every file is kept
├── CorruptData                        a file that cannot be what the table says it is
└── StorageError                       the store refused or failed (permission, space, network)
"""

from __future__ import annotations

from typing import Any


class FrazilError(Exception):
    """Base of all. `facts` holds what is known by name (table, snapshot_id, file, offset, …); `hint` says what to do next."""

    retryable = False

    def __init__(self, message: str = "", *, hint: str | None = None, **facts: Any):
        self.message, self.hint, self.facts = message, hint, {k: v for k, v in facts.items() if v is not None}
        super().__init__()
        self._tell()

    def _tell(self) -> None:
        self.args = (f"{self.message} {self.hint}" if self.hint else self.message,)

    def of_table(self, name: str, location: str) -> None:
        """Says which table it is about, unless it does."""
        if self.facts.setdefault("table", name) in (name, location) and name not in str(self) and location not in str(self):
            self.message = f"Table {name}: {self.message}"
            self._tell()

    def advise(self, hint: str) -> None:
        """One more thing to do next."""
        self.hint = f"{self.hint} {hint}" if self.hint else hint
        self._tell()

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.message, self.hint, self.facts)


def _rebuild(kind: type[FrazilError], message: str, hint: str | None, facts: dict[str, Any]) -> FrazilError:
    return kind(message, hint=hint, **facts)


class InvalidInput(FrazilError, ValueError):
    """Refused before anything was written."""


class ValidationError(InvalidInput):
    """A schema, spec, ref or property breaks a rule of the format."""


class ValidationException(ValidationError):
    """A commit was refused because the table changed in a way its isolation level forbids. Nothing was applied."""


class ResolveError(ValidationError):
    """Values of a column's type cannot be read as the type that was asked for."""


class SchemaMismatch(InvalidInput):
    """The frame's columns do not fit the table's schema."""


class ParseError(InvalidInput):
    """Text that is no predicate, type, transform or identifier."""


class EvaluationError(InvalidInput, ArithmeticError):
    """A value breaks an expression under Spark's ANSI rules: overflow, division by zero, an invalid cast."""


class ValueMismatch(SchemaMismatch, EvaluationError):
    """A value has no equal one in its column's type; whether a frame or an expression brought it, callers may catch either base."""


class Unsupported(InvalidInput, NotImplementedError):
    """A right request that Frazil does not serve; the message names it."""


class NoSuchMethod(Unsupported, AttributeError):
    """A method that the object has not, known from other products; the message names the call that does the same."""


class AlreadyExists(InvalidInput):
    """Something of that name is there already."""


class TableAlreadyExistsError(AlreadyExists):
    pass


class NamespaceAlreadyExistsError(AlreadyExists):
    pass


class ViewAlreadyExistsError(AlreadyExists):
    pass


class FileAlreadyExistsError(AlreadyExists, FileExistsError):
    """There is a file at that location, and nobody asked for it to be replaced."""


class NamespaceNotEmptyError(InvalidInput):
    pass


class NotInstalledError(InvalidInput, ImportError):
    """An optional dependency is missing; the message holds the pip command."""


class NotFound(FrazilError):
    """What was asked for is not there."""


class NoSuchTableError(NotFound):
    pass


class NoSuchNamespaceError(NotFound):
    pass


class NoSuchViewError(NotFound):
    pass


class NoSuchSnapshotError(NotFound):
    pass


class NoSuchRefError(NotFound):
    pass


class NoSuchPropertyException(NotFound):
    pass


class NoSuchFileError(NotFound, FileNotFoundError):
    """A file that the table or the caller names is not in the store."""


class CommitFailedException(FrazilError):
    """Lost a race: definitely not applied. Trying again on fresh metadata can succeed."""

    retryable = True


class WaitingForLockException(CommitFailedException):
    pass


class CommitStateUnknownException(FrazilError):
    """The commit may or may not have been applied; every file it wrote is kept. Look at the table before trying again."""


class CorruptData(FrazilError):
    """A file that cannot be what the table says it is: truncated, damaged or hostile. Facts: file, offset."""


class StorageError(FrazilError, OSError):
    """The store refused or failed: permission, space, network."""


NoSuchIcebergTableError = NoSuchTableError
NoSuchIdentifierError = NotFound
