"""Files by PyIceberg's path: `load_file_io(properties).new_input(location).open()`. The stores themselves are in `frazil.storage`."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.errors import Unsupported
from frazil.storage import FileIO, InputFile, OutputFile, OutputStream, file_io, is_own_io, storage_for

__all__ = ["FileIO", "InputFile", "OutputFile", "OutputStream", "load_file_io", "pyarrow"]


def load_file_io(properties: Mapping[str, str] = {}, location: str | None = None) -> FileIO:
    """Files of any store that Frazil serves, with the stores' properties (`s3.…`, `gcs.…`, `adls.…`); a location's scheme chooses the
    store, file by file. `location` (else the property `warehouse`) is one that must be served. Raises Unsupported for schemes that are
    not, and for a `py-io-impl` of somebody else."""
    if not is_own_io(named := properties.get("py-io-impl", "")):
        raise Unsupported(f"py-io-impl names a class that Frazil cannot run: {named}.", hint="Leave it out.")
    return file_io(storage_for(location or properties.get("warehouse") or "/", properties))
