"""The pipeline's workflows: actions are pinned, and permissions minimal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.infra.package.package import ROOT

_FOLDER = ROOT / ".github/workflows"
_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*$")

WORKFLOWS = [pytest.param(path, id=path.stem) for path in sorted(_FOLDER.iterdir())]


def _read(path: Path) -> dict[str, Any]:
    """Read a workflow with every value as text: YAML 1.1 reads the key `on` as a boolean."""
    workflow: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)  # noqa: S506 - texts only
    return workflow


def _steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in _read(path)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS)
def test_actions_are_pinned(path: Path) -> None:
    """By commit, because a tag can be moved; a comment names the version."""
    lines = re.findall(r"uses: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == sum("uses" in step for step in _steps(path)) > 0
    assert [line for line in lines if not _PINNED.fullmatch(line)] == []


@pytest.mark.parametrize(
    ("name", "permissions"),
    [
        pytest.param("check", {"contents": "read"}, id="check"),
        pytest.param("nightly", {"contents": "read"}, id="nightly"),
        pytest.param("deploy", {"contents": "read", "id-token": "write"}, id="deploy"),
    ],
)
def test_permissions_are_minimal(name: str, permissions: dict[str, str]) -> None:
    """To read the repository, and for deployment to sign in by federated identity. No job requests more."""
    workflow = _read(_FOLDER / f"{name}.yml")
    assert workflow["permissions"] == permissions
    assert [job for job in workflow["jobs"].values() if "permissions" in job] == []


@pytest.mark.parametrize("path", WORKFLOWS)
def test_no_secret_is_used(path: Path) -> None:
    """No secret can leak: federated identity needs only names."""
    assert not re.search(r"\bsecrets\b", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WORKFLOWS)
def test_checkout_does_not_persist_the_token(path: Path) -> None:
    """Later steps could read it."""
    checkouts = [step for step in _steps(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert [step["with"]["persist-credentials"] for step in checkouts] == ["false"]


@pytest.mark.parametrize("path", WORKFLOWS)
def test_scripts_take_nothing_from_the_event(path: Path) -> None:
    """A branch's name could run as a command: values are passed as environment variables."""
    assert [step["run"] for step in _steps(path) if "${{" in step.get("run", "")] == []


def test_every_push_and_pull_request_is_checked() -> None:
    """With the same script as on a developer's machine."""
    assert {"push", "pull_request"} <= _read(_FOLDER / "check.yml")["on"].keys()
    assert ".ci/run" in [step.get("run") for step in _steps(_FOLDER / "check.yml")]


def test_every_test_runs_each_night() -> None:
    """By a schedule: `make test` leaves out the tests that are marked `night`."""
    assert "schedule" in _read(_FOLDER / "nightly.yml")["on"]
    assert "make test-all" in [step.get("run") for step in _steps(_FOLDER / "nightly.yml")]


def test_check_has_what_the_tests_need() -> None:
    """The templates' tests need a compiler; `make test` installs everything else."""
    assert "az bicep install" in "\n".join(step.get("run", "") for step in _steps(_FOLDER / "check.yml"))
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    own = [line for line in lines if line and not line.startswith(("#", "set ", "cd ", "export "))]
    assert own == ["make check", "make test"]


def test_only_what_is_checked_on_main_is_deployed() -> None:
    """Or on request; never a fork's pull request, whose check has the same name."""
    workflow = _read(_FOLDER / "deploy.yml")
    assert workflow["on"] == {
        "workflow_dispatch": "",
        "workflow_run": {"workflows": ["check"], "types": ["completed"], "branches": ["main"]},
    }
    condition = workflow["jobs"]["deploy"]["if"]
    for needed in (
        "workflow_run.conclusion == 'success'",
        "workflow_run.event == 'push'",
        "workflow_run.head_repository.full_name == github.repository",
    ):
        assert needed in condition


def test_one_deployment_runs_at_a_time() -> None:
    """It is not interrupted; and a skipped run, as after a failed check, does not cancel a waiting one."""
    workflow = _read(_FOLDER / "deploy.yml")
    assert "concurrency" not in workflow
    assert workflow["jobs"]["deploy"]["concurrency"] == {"group": "deploy", "cancel-in-progress": "false"}
