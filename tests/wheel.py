"""Install a wheel into an empty environment of the Python that runs this, import it, and run the
examples of README.md out of it: `python tests/wheel.py dist/frazil-0.1.0-py3-none-any.whl`.

`--spark` runs the example with Spark as well; `--version 0.1.0` demands that version, as of a tag. The
standard library is enough for this script.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
FIRST = """
import datetime
import frazil
catalog = frazil.load_catalog()
catalog.create_namespace("db")
t = catalog.create_table("db.t", "id bigint, day date", partition_by=["day"])
t.append([{"id": 1, "day": datetime.date(2026, 1, 1)}, {"id": 2, "day": None}])
t.delete("id = 1")
assert t.to_arrow().to_pylist() == [{"id": 2, "day": None}]
"""  # with no package but those that the wheel asks for
LAST = """
jvm = spark.sparkContext._gateway
spark.stop()
jvm.shutdown()
jvm.proc.stdin.close()
jvm.proc.wait()
"""  # or its JVM would still read the environment while that is removed


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("wheel", type=Path)
    words.add_argument("--spark", action="store_true")
    words.add_argument("--version")
    given = words.parse_args()
    wheel = given.wheel.resolve()
    with_spark, without = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.S | re.M)[:2]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "env", with_pip=True)
        python = home / "env" / "bin" / "python"
        clean = {
            k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FRAZIL_", "SPARK_"))
        }

        def install(what: str) -> None:
            command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*command, what], check=True, env=clean)

        def run(name: str, code: str) -> None:
            place = home / name
            place.mkdir()
            subprocess.run([str(python), "-c", code], check=True, cwd=place, env=clean)
            print(f"{name}: ran on Python {sys.version.split()[0]}", flush=True)

        install(str(wheel))
        run("import", "import frazil; print(frazil.__version__)")
        if given.version:
            run("version", f"import frazil; assert frazil.__version__ == {given.version!r}")
        run("first", FIRST)
        install(f"{wheel}[pandas,polars,duckdb]")
        run("readme", without)
        if given.spark:
            install(f"{wheel}[spark]")
            run("readme-spark", with_spark + LAST)


if __name__ == "__main__":
    main()
