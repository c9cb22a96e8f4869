"""The files of deploy/: what they call is what the command line, the extras and the catalogs'
properties take. Images are built and run where an engine of containers is.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from frazil.catalog.configuration import configuration
from frazil.catalog.options import check_properties
from frazil.catalog.rest.options import OPTIONS
from frazil.cli.app import app
from frazil.ops.listening import TOKEN, check_access

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
SERVICES = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]


def words(instruction: str) -> list[str]:
    """The words of a command in JSON, behind an instruction of the Dockerfile."""
    (found,) = re.findall(rf"^{instruction}\b.*?(\[.*\])$", DOCKERFILE, re.MULTILINE)
    return list(json.loads(found))


def served(command: list[str]) -> dict[str, object]:
    """The options that `frazil serve` reads in a command."""
    place = command.index("serve")
    assert command[place - 1] == "frazil"
    with app.commands["serve"].make_context("serve", command[place + 1 :]) as context:
        return dict(context.params)


def test_the_container_serves_and_tells_its_health_as_the_command_line_does() -> None:
    options = served(words("ENTRYPOINT"))
    assert options["host"] == "0.0.0.0" and f"EXPOSE {options['connect']}\n" in DOCKERFILE
    assert served(words("HEALTHCHECK"))["check"] is True
    check_access("0.0.0.0", "a token", int(str(options["connect"])), None)


def test_the_image_installs_extras_that_there_are() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (asked,) = re.findall(r"\$\{FRAZIL\}\[([^]]*)\]", DOCKERFILE)
    assert set(asked.split(",")) <= extras.keys() and "serve" in asked


def test_the_composed_server_has_a_catalog_whose_properties_are_known() -> None:
    server = SERVICES["frazil"]
    environment = server["environment"]
    of_lake = configuration("lake", environ=environment).properties
    assert of_lake["type"] == "rest" and of_lake["uri"] == "http://catalog:8181"
    assert of_lake["s3.endpoint"] == "http://store:9000"
    assert of_lake["s3.access-key-id"] == SERVICES["store"]["environment"]["MINIO_ROOT_USER"]
    check_properties("lake", "rest", of_lake, {}, OPTIONS)
    assert TOKEN in environment
    assert {"catalog", "store", "bucket"} == SERVICES.keys() - {"frazil"}
    port = str(served(words("ENTRYPOINT"))["connect"])
    assert server["ports"] == [f"127.0.0.1:{port}:{port}"]


@pytest.mark.soak
def test_the_image_is_built_and_serves_where_containers_run(tmp_path: Path) -> None:
    if (
        not shutil.which("docker")
        or subprocess.run(["docker", "info"], capture_output=True).returncode
    ):
        pytest.skip("no engine of containers runs here")
    environment = {**os.environ, TOKEN: "a-token"}
    up = shlex.split("docker compose -f deploy/compose.yaml up --build --wait frazil")
    try:
        subprocess.run(up, check=True, cwd=ROOT, env=environment, timeout=1800)
    finally:
        down = shlex.split("docker compose -f deploy/compose.yaml down -v")
        subprocess.run(down, check=False, cwd=ROOT, env=environment, timeout=300)
