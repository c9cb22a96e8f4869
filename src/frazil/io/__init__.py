"""Open files of any store, by PyIceberg's module path:
`load_file_io(properties).new_input(location).open()`. The stores themselves are implemented in
`frazil.storage`."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.errors import Unsupported
from frazil.storage import (
    FileIO,
    InputFile,
    OutputFile,
    OutputStream,
    file_io,
    is_own_io,
    storage_for,
)

__all__ = ["FileIO", "InputFile", "OutputFile", "OutputStream", "load_file_io", "pyarrow"]


def load_file_io(properties: Mapping[str, str] = {}, location: str | None = None) -> FileIO:
    """Return a FileIO for the stores that Frazil serves. `properties`: those of the stores (`s3.…`,
    `gcs.…`, `adls.…`). The scheme of each file's location chooses its store; `location`, else the
    property `warehouse`, must have a scheme that Frazil supports.

    Raises Unsupported for schemes that are not served, and for a `py-io-impl` of another product.
    """
    if not is_own_io(named := properties.get("py-io-impl", "")):
        raise Unsupported(
            f"py-io-impl names a class that Frazil cannot run: {named}.", hint="Leave it out."
        )
    return file_io(storage_for(location or properties.get("warehouse") or "/", properties))
