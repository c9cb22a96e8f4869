"""Keep a lake in order from the command line: `frazil describe db.events`, `frazil
rewrite-data-files db.events --dry-run`.

Start at `app`, which lists the commands. None has logic of its own: each ends in a call that could
be typed in Python, and procedures come from the registry `maintain.procedures`. Exit codes: 0, 1
(refused or failed; the message says why), 2 (wrong usage).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import sys


def main() -> None:
    """Run the command line. Without click and rich (the extra `cli`) it says how to install them."""
    try:
        import click  # noqa: F401
    except ModuleNotFoundError:
        print(
            "frazil on the command line needs click and rich: pip install 'frazil[cli]'",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    # Most of what a short command makes are modules, which stay: looking for garbage among them
    # takes a tenth of its time, and at the end, where Python does it once more, a fifth. DuckDB
    # would say on stderr that its objects are left.
    gc.set_threshold(200_000, 20, 20)
    atexit.register(lambda: None if "duckdb" in sys.modules else gc.freeze())
    importlib.import_module("frazil.cli.app").run()


__all__ = ["main"]
