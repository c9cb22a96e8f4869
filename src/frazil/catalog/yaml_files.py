"""Read .frazil.yaml and .pyiceberg.yaml: settings, and properties per catalog below `catalog:`,
with nested keys joined by dots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from frazil.errors import InvalidInput


def settings_of(product: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the top-level settings of the file; {} without a file. `product`: FRAZIL or PYICEBERG."""
    path = _find(product, env)
    return _parse(path) if path else {}


def catalogs_of(
    product: str, env: Mapping[str, str]
) -> tuple[Path | None, dict[str, dict[str, Any]]]:
    """Return the file (None: there is none) and the properties per catalog name. Raises
    InvalidInput for a malformed file.
    """
    path = _find(product, env)
    if path is None:
        return None, {}
    catalogs = _parse(path).get("catalog") or {}
    if not isinstance(catalogs, dict) or not all(isinstance(v, dict) for v in catalogs.values()):
        raise InvalidInput(
            f"{path}: `catalog` must hold a mapping of properties for each name.", file=str(path)
        )
    return path, {str(name): dict(_flat(values, "")) for name, values in catalogs.items()}


def _find(product: str, env: Mapping[str, str]) -> Path | None:
    folders = [env.get(f"{product}_HOME"), env.get("HOME"), "."]
    for folder in folders:
        if folder and (path := Path(folder) / f".{product.lower()}.yaml").is_file():
            return path
    return None


def _parse(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(
            error, "problem_mark", None
        )  # only the line is shown: the error's text quotes the file, which may hold secrets
        place = f" at line {mark.line + 1}" if mark else ""
        raise InvalidInput(f"{path} is not valid YAML{place}.", file=str(path)) from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", file=str(path)) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InvalidInput(f"{path} must hold a mapping.", file=str(path))
    return content


def _flat(values: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value
