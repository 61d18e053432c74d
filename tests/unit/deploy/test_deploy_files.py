"""The files of `deploy` are what their programs accept, and agree with the code and each other.

There is no container engine and no cluster here: compose.yaml and the manifests are compared with
the published schemas of the Compose specification and of Kubernetes. KEDA's own are not.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.support import env_example
from tests.support.binaries import systemd_analyze
from tests.support.engine import STOP_MARGIN

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
KUBERNETES = ("1.29", "1.33")  # an old one, and a newer one
VARIABLE = re.compile(r"(?:MUTIRAO|NOTIFY|WATCHDOG)_[A-Z_]+")


def compose() -> Any:
    """Return what compose.yaml says."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_the_example_of_variables_is_complete() -> None:
    """Write it anew with `python -m tests.support.env_example`."""
    assert env_example.FILE.read_text() == env_example.text()


def test_no_variable_is_read_beside_it() -> None:
    """Each that the code names stands in the example."""
    written = set(re.findall(r"^#? ?([A-Z_]+)=", env_example.FILE.read_text(), re.MULTILINE))
    found = {name for path in (ROOT / "src").rglob("*.py") for name in _named(path)}
    found.remove("MUTIRAO_URL")  # of a Flask application's configuration
    assert len(found) > 10
    assert found - written == set()


def _named(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and VARIABLE.fullmatch(value):
            yield value


def test_compose_is_as_its_specification_says() -> None:
    """And its variables stand in the example."""
    schema = json.loads(
        (_directory("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text()
    )
    checker = jsonschema.validators.validator_for(schema)(schema)
    checker.validate(compose())
    with pytest.raises(jsonschema.ValidationError):
        checker.validate({"services": {"a": {"comand": []}}})
    wanted = set(re.findall(r"\$\{(\w+)\}", (DEPLOY / "compose.yaml").read_text()))
    given = re.findall(r"^(\w+)=.", env_example.FILE.read_text(), re.MULTILINE)
    assert wanted <= {*given}


def _directory(package: str) -> Path:
    """Return where a package is, without an import: this one needs a newer click than we do."""
    found = find_spec(package)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_is_as_kubernetes_says(path: Path) -> None:
    """In a strict reading: a field that is none is refused."""
    for each in yaml.safe_load_all(path.read_text()):
        if each["apiVersion"].startswith("keda.sh/"):
            assert each["kind"] in ("ScaledObject", "TriggerAuthentication")
            continue
        for version in KUBERNETES:
            kubernetes_validate.validate(each, version, strict=True)


def test_a_wrong_manifest_is_noticed() -> None:
    """The test above can fail."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"container": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, KUBERNETES[0], strict=True)


def test_what_is_scaled_is_there() -> None:
    """KEDA scales the deployment that there is, with the metric or the view that there is."""
    [worker, _] = yaml.safe_load_all((DEPLOY / "kubernetes" / "worker.yaml").read_text())
    for name in ("keda-sql", "keda-metric"):
        found = yaml.safe_load_all((DEPLOY / "kubernetes" / f"{name}.yaml").read_text())
        [scaled] = [each for each in found if each["kind"] == "ScaledObject"]
        assert scaled["spec"]["scaleTargetRef"]["name"] == worker["metadata"]["name"]


def graces() -> Iterator[tuple[str, float, float]]:
    """Yield where a worker is stopped, its grace in seconds, and when it is killed."""
    service = compose()["services"]["worker"]
    yield "compose", _grace(service["command"]), float(service["stop_grace_period"].rstrip("s"))
    [worker, _] = yaml.safe_load_all((DEPLOY / "kubernetes" / "worker.yaml").read_text())
    pod = worker["spec"]["template"]["spec"]
    yield "pod", _grace(pod["containers"][0]["args"]), pod["terminationGracePeriodSeconds"]
    unit = (DEPLOY / "systemd" / "mutirao-worker@.service").read_text()
    start, stop = (
        re.search(rf"^{name}=(.+)$", unit, re.M) for name in ("ExecStart", "TimeoutStopSec")
    )
    assert start
    assert stop
    yield "unit", _grace(start[1].split()), float(stop[1])


def _grace(words: list[str]) -> float:
    return float(words[words.index("--grace") + 1])


@pytest.mark.parametrize(("where", "grace", "killed"), list(graces()))
def test_nobody_kills_a_worker_that_ends(where: str, grace: float, killed: float) -> None:
    """It ends by itself, at the latest a margin after its grace period."""
    assert killed >= grace + STOP_MARGIN + 5


def test_units_are_as_systemd_says(tmp_path: Path) -> None:
    """`systemd-analyze verify` finds nothing, and each unit is closed up well."""
    program = tmp_path / "mutirao"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for each in UNITS:
        text = each.read_text().replace("/srv/shop/.venv/bin/mutirao", str(program))
        (tmp_path / each.name.replace("@", "@1")).write_text(text)
    placed = sorted(map(str, tmp_path.glob("*.service")))
    assert _analyzed("verify", "--man=no", *placed) == ""
    for unit in placed:
        _analyzed("security", "--offline=true", "--threshold=20", "--no-pager", unit)
    assert "Unknown key" in _wrong(tmp_path)


def _analyzed(*words: str, status: int = 0) -> str:
    command = [str(systemd_analyze()), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr.strip()


def _wrong(directory: Path) -> str:
    unit = directory / "wrong.service"
    unit.write_text(f"[Service]\nExecStart={directory / 'mutirao'}\nWrong=yes\n")
    return _analyzed("verify", "--man=no", str(unit))


def test_the_last_stage_of_the_image_is_slim() -> None:
    """It has no root, no compiler and no pip, and a health check."""
    stages = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")
    assert len(stages) == 3
    last = stages[-1]
    assert last.startswith("python:${PYTHON}-slim\n")
    assert "USER 10001:10001" in last
    assert (
        'HEALTHCHECK --interval=30s --timeout=10s --start-period=30s CMD ["mutirao", "probe"]'
        in last
    )
    assert not re.search(r"apt-get|pip install|ensurepip", last)
    assert "pip uninstall --yes pip" in stages[1]


def test_the_image_runs_a_worker_unless_told_otherwise() -> None:
    """With the health check's port, as compose.yaml does, whose commands are run by a test."""
    last = (DEPLOY / "Dockerfile").read_text().splitlines()[-1]
    words = json.loads(last.removeprefix("CMD "))
    told = compose()["services"]["worker"]["command"]
    assert told == [words[0], "--grace", "60", *words[1:]]
