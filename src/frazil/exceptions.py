"""Provide errors by PyIceberg's module path: `from frazil.exceptions import NoSuchTableError`. All
errors are in `frazil.errors`.
"""

from frazil.errors import (
    CommitFailedException,
    CommitStateUnknownException,
    FrazilError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchIcebergTableError,
    NoSuchIdentifierError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    NoSuchViewError,
    NotInstalledError,
    ResolveError,
    TableAlreadyExistsError,
    ValidationError,
    ValidationException,
    ViewAlreadyExistsError,
    WaitingForLockException,
)

__all__ = [
    "CommitFailedException", "CommitStateUnknownException", "FrazilError", "NamespaceAlreadyExistsError", "NamespaceNotEmptyError",
    "NoSuchIcebergTableError", "NoSuchIdentifierError", "NoSuchNamespaceError", "NoSuchPropertyException", "NoSuchTableError",
    "NoSuchViewError", "NotInstalledError", "ResolveError", "TableAlreadyExistsError", "ValidationError", "ValidationException",
    "ViewAlreadyExistsError", "WaitingForLockException",
]  # fmt: skip
