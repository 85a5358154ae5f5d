"""The package for Azure, the page that deploys it, and the pipeline."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.infra.application import functions
from tests.infra.package.imports import packages_imported
from tests.infra.package.package import ROOT, make_package, packaged

#: The files besides the folder `functions/`.
_FILES = {"function_app.py", "host.json", "requirements.txt"}


def test_package_holds_the_application_and_nothing_else(tmp_path: Path) -> None:
    """No tests, no local platform, no templates, no developer's settings."""
    make_package(tmp_path / "package.zip")
    with zipfile.ZipFile(tmp_path / "package.zip") as archive:
        names = set(archive.namelist())
    every = (ROOT / "functions").rglob("*")
    ours = [path for path in every if path.is_file() and "__pycache__" not in path.parts]
    assert names == {str(path.relative_to(ROOT)) for path in ours} | _FILES


def test_new_file_at_the_root_is_detected(tmp_path: Path) -> None:
    """A file that `.funcignore` does not name is packaged, so the test above would fail."""
    (tmp_path / ".funcignore").write_bytes((ROOT / ".funcignore").read_bytes())
    for name in ("notes.txt", "local.settings.json", "secrets.env", ".env", "README.md", "tests/test_a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert {str(path) for path in packaged(tmp_path)} == {"notes.txt", "secrets.env"}


@pytest.mark.parametrize("environment", [".venv", "venv", "main_env"])
def test_no_virtual_environment_is_packaged(environment: str, tmp_path: Path) -> None:
    """Nor that of `azd restore`, `<folder>_env`: azd excludes only what `.funcignore` names."""
    (tmp_path / ".funcignore").write_bytes((ROOT / ".funcignore").read_bytes())
    (tmp_path / environment / "lib").mkdir(parents=True)
    (tmp_path / environment / "lib" / "module.py").touch()
    assert list(packaged(tmp_path)) == []


def test_requirements_name_everything_that_is_imported() -> None:
    """Pinned, because the build in Azure installs exactly these."""
    required = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    sources = [ROOT / path for path in packaged() if path.suffix == ".py"]
    imported = packages_imported(sources, ours=frozenset({"functions"}))
    assert {"fastapi", "azure-functions", "azure-data-tables"} <= set(imported.values())
    assert {module: name for module, name in imported.items() if name not in required} == {}


def test_imports_are_found(tmp_path: Path) -> None:
    """Also those within functions, and the package of a namespace's module."""
    source = tmp_path / "source.py"
    source.write_text(
        "import json\ndef late():\n    from azure.data.tables import TableClient\nimport pytest\n"
    )
    assert packages_imported([source], ours=frozenset()) == {
        "azure.data.tables": "azure-data-tables",
        "pytest": "pytest",
    }


_PAGE = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
_PARAMETERS = (ROOT / "infra/main.bicepparam").read_text(encoding="utf-8")

#: The options and their defaults; environment and region have none, and a hook of azd sets the key.
_CHOICES = dict(re.findall(r"readEnvironmentVariable\('([A-Z_]+)', '(.*?)'\)", _PARAMETERS))
assert _CHOICES.pop("SAMPLE_SERVICES_KEY") == ""

#: They would be secrets in the pipeline, which has none.
_SECRETS = {"ALERT_WEBHOOK_URL"}


def test_page_answers_a_fresh_readers_questions_in_order() -> None:
    """What it makes comes first, what to do when it fails last."""
    asked = ["What it makes", "What it costs", "One command", "Size", "Zones and regions"]
    asked += ["An app for each role", "Network", "Sign-in", "When it fails"]
    assert [each for each in re.findall(r"^## (.+)$", _PAGE, re.MULTILINE) if each in asked] == asked


def test_page_says_that_nothing_was_deployed() -> None:
    """Before anything else."""
    assert "No deployment to a subscription was tested" in _PAGE.split("\n## ")[0]


def test_page_lists_every_option() -> None:
    """Each with its default, if it has one."""
    listed = dict(re.findall(r"^\| `([A-Z_]+)` \| (\S+) \|", _PAGE, re.MULTILINE))
    assert listed == {name: f"`{default}`" if default else "none" for name, default in _CHOICES.items()}


def test_pipeline_passes_on_every_option() -> None:
    """Otherwise it would reset a chosen value to its default."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/deploy.yml").read_text(encoding="utf-8"))
    passed = workflow["jobs"]["deploy"]["env"]
    wanted = {
        name: f"${{{{ vars.{name} || '{default}' }}}}" if default else f"${{{{ vars.{name} }}}}"
        for name, default in _CHOICES.items()
        if name not in _SECRETS
    }
    assert wanted
    assert {name: passed.get(name) for name in wanted} == wanted


def test_page_counts_the_groups_that_zones_are_paid_for() -> None:
    """HTTP, Durable, and each function with another trigger that is no Agent's; two of each are ready."""
    all_of_them = functions().items()
    own = [its for name, its in all_of_them if not name.startswith("agent_") or name == "agent_replies"]
    triggers = [each["type"] for its in own for each in its if "Trigger" in each["type"]]
    together = {"httpTrigger", "orchestrationTrigger", "activityTrigger"}
    groups = 2 + sum(trigger not in together for trigger in triggers)
    flowing = " ".join(_PAGE.split())
    assert f"for each of the {groups} groups of functions, and of each Agent" in flowing
    assert f"at least {2 * groups} instances instead of one" in flowing


def test_page_counts_the_alerts_that_are_paid_for() -> None:
    """Each log alert, and each metric alert once per queue."""
    alerts = json.loads((ROOT / "infra/modules/watching/alerts.json").read_text(encoding="utf-8"))
    logs, metrics = len(alerts["log"]), len(alerts["metric"])
    assert f"every 5 minutes ({logs}) and metric alert series ({metrics} for each queue)" in _PAGE


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
def test_steps_get_neither_token_nor_event(path: Path) -> None:
    """Later steps could read the token, and a branch's name could run as a command."""
    checkouts = [step for step in _steps(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert [step["with"]["persist-credentials"] for step in checkouts] == ["false"]
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
