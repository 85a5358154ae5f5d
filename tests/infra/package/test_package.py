"""The package for Azure, the page about its deployment, and the pipeline."""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
import zipfile
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from pathspec import GitIgnoreSpec

from local.platform import ANY_PORTS, Platform, PlatformOptions
from tests.e2e.caller import NEEDS_ORDERS, Caller
from tests.house.documents import ROOT
from tests.infra.application import functions


def packaged(root: Path = ROOT) -> Iterator[Path]:
    """Return the files of the package, relative to the root; `.funcignore` has the syntax of `.gitignore`."""
    ignored = GitIgnoreSpec.from_lines((root / ".funcignore").read_text(encoding="utf-8").splitlines())
    for folder, folders, files in root.walk():
        here = folder.relative_to(root)
        folders[:] = [name for name in folders if not ignored.match_file(f"{here / name}/")]
        yield from (here / name for name in files if not ignored.match_file(here / name))


def make_package(path: Path) -> None:
    """Write the zip file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in packaged():
            archive.write(ROOT / file, file)


def packages_imported(sources: Iterable[Path], *, ours: frozenset[str]) -> dict[str, str]:
    """Return the package of each module that is neither Python's nor ours, by the module's name."""
    owners: dict[str, str] = {}
    for each in distributions():
        folder, name = each.locate_file(""), each.name.lower().replace("_", "-")
        for line in (each.read_text("RECORD") or "").splitlines():
            owners[f"{folder}/{line.partition(',')[0]}"] = name
    modules = {module for source in sources for module in _modules(source)}
    foreign = {each for each in modules if each.partition(".")[0] not in sys.stdlib_module_names | ours}
    return {module: owners[_file_of(module)] for module in sorted(foreign)}


def _modules(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_bytes())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module)):
                yield module


def _file_of(module: str) -> str:
    spec = find_spec(module)
    assert spec, f"{module} is not installed"
    assert spec.origin, f"{module} is a namespace: import one of its modules"
    return spec.origin


#: The files besides the folder `functions/`.
_FILES = {"function_app.py", "host.json", "requirements.txt"}


def test_package_contains_only_the_application(tmp_path: Path) -> None:
    """No tests, no local platform, no templates, no developer's settings."""
    make_package(tmp_path / "package.zip")
    with zipfile.ZipFile(tmp_path / "package.zip") as archive:
        names = set(archive.namelist())
    every = (ROOT / "functions").rglob("*")
    ours = [path for path in every if path.is_file() and "__pycache__" not in path.parts]
    assert names == {str(path.relative_to(ROOT)) for path in ours} | _FILES


def test_package_has_new_files_and_no_virtual_environment(tmp_path: Path) -> None:
    """A file that `.funcignore` does not name is packaged, so the test above would fail.

    `<folder>_env` is the environment of `azd restore`: azd excludes only files that `.funcignore` names.
    """
    (tmp_path / ".funcignore").write_bytes((ROOT / ".funcignore").read_bytes())
    files = ["notes.txt", "local.settings.json", "secrets.env", ".env", "README.md", "tests/test_a.py"]
    files += [f"{environment}/lib/module.py" for environment in (".venv", "venv", "main_env")]
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    assert {str(path) for path in packaged(tmp_path)} == {"notes.txt", "secrets.env"}


#: Added to the entry point: records the path of the imported application.
_RECORD_ORIGIN = """
from pathlib import Path
import functions.wiring
Path(__file__).with_name("origin").write_text(functions.wiring.__file__)
"""

#: Pages that are served from files in the package: the console, the API's pages.
_SERVED = ("/api/ops", "/api/ops/console/main.js", "/api/docs", "/api/docs/docs.js")


@pytest.mark.process
@NEEDS_ORDERS
async def test_package_processes_an_order_and_serves_its_pages(tmp_path: Path) -> None:
    """It starts in a separate folder: it contains everything that it needs from this project."""
    make_package(tmp_path / "package.zip")
    app = tmp_path / "app"
    with zipfile.ZipFile(tmp_path / "package.zip") as archive:
        archive.extractall(app)
    shutil.copy(ROOT / "local.settings.sample.json", app)  # in Azure, settings are not in the package
    with (app / "function_app.py").open("a", encoding="utf-8") as entry:
        entry.write(_RECORD_ORIGIN)
    queues = ROOT / "infra" / "queues.json"  # nor are queues
    options = PlatformOptions(
        ports=ANY_PORTS, data=tmp_path / "data", app=app, queues=queues, in_memory_storage=True
    )
    async with Platform(options) as platform, Caller.of(platform) as caller:
        assert await caller.put("packaged") == HTTPStatus.ACCEPTED
        await caller.until_state("packaged", "Processed")
        for path in _SERVED:
            async with caller.session.get(path) as answer:
                assert answer.status == HTTPStatus.OK, path
    assert Path((app / "origin").read_text(encoding="utf-8")).is_relative_to(app)


def test_requirements_name_everything_that_is_imported(tmp_path: Path) -> None:
    """Pinned, because the build in Azure installs exactly these.

    Imports within functions are found, and the package of a namespace's module.
    """
    required = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    sources = [ROOT / path for path in packaged() if path.suffix == ".py"]
    imported = packages_imported(sources, ours=frozenset({"functions"}))
    assert {"fastapi", "azure-functions", "azure-data-tables"} <= set(imported.values())
    assert {module: name for module, name in imported.items() if name not in required} == {}
    source = tmp_path / "source.py"
    late = "def late():\n    from azure.data.tables import TableClient\n"
    source.write_text(f"import json\n{late}import pytest\n")
    found = {"azure.data.tables": "azure-data-tables", "pytest": "pytest"}
    assert packages_imported([source], ours=frozenset()) == found


_PAGE = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
_PARAMETERS = (ROOT / "infra/main.bicepparam").read_text(encoding="utf-8")

#: The options and their defaults; environment and region have none, and a hook of azd sets the key.
_CHOICES = dict(re.findall(r"readEnvironmentVariable\('([A-Z_]+)', '(.*?)'\)", _PARAMETERS))
assert _CHOICES.pop("SAMPLE_SERVICES_KEY") == ""

#: They would be secrets in the pipeline, which has none.
_SECRETS = {"ALERT_WEBHOOK_URL"}


def test_page_has_its_sections_in_order() -> None:
    """First, it says that nothing was deployed; the remedies for failures come last."""
    assert "No deployment to a subscription was tested" in _PAGE.split("\n## ")[0]
    wanted = ["What it makes", "What it costs", "One command", "Size", "Zones and regions"]
    wanted += ["An app for each role", "Network", "Sign-in", "When it fails"]
    assert [each for each in re.findall(r"^## (.+)$", _PAGE, re.MULTILINE) if each in wanted] == wanted


def test_page_and_pipeline_have_every_option() -> None:
    """Each with its default, if it has one. The pipeline would reset a missing option to its default."""
    listed = dict(re.findall(r"^\| `([A-Z_]+)` \| (\S+) \|", _PAGE, re.MULTILINE))
    assert listed == {name: f"`{default}`" if default else "none" for name, default in _CHOICES.items()}
    passed = _read(_FOLDER / "deploy.yml")["jobs"]["deploy"]["env"]
    for name, default in _CHOICES.items():
        value = f"vars.{name} || '{default}'" if default else f"vars.{name}"
        assert passed.get(name) == (None if name in _SECRETS else f"${{{{ {value} }}}}"), name


def test_page_counts_the_groups_and_alerts_that_are_paid_for() -> None:
    """Groups are HTTP, Durable, and each function with another trigger; two instances of each are ready.

    An Agent behind a queue adds two groups: for its requests, and for their dead letters.

    Each log alert is paid for, and each metric alert once per queue.
    """
    all_of_them = functions().items()
    own = [its for name, its in all_of_them if not re.fullmatch(r"(dead_letter_)?agent_(?!replies).*", name)]
    triggers = [each["type"] for its in own for each in its if "Trigger" in each["type"]]
    together = {"httpTrigger", "orchestrationTrigger", "activityTrigger"}
    groups = 2 + sum(trigger not in together for trigger in triggers)
    flowing = " ".join(_PAGE.split())
    assert f"for each of the {groups} groups of functions, and for two of each Agent" in flowing
    assert f"at least {2 * groups} instances instead of one" in flowing
    alerts = json.loads((ROOT / "infra/modules/watching/alerts.json").read_text(encoding="utf-8"))
    logs, metrics = len(alerts["log"]), len(alerts["metric"])
    assert f"every 5 minutes ({logs}) and metric alert series ({metrics} for each queue)" in _PAGE


_FOLDER = ROOT / ".github/workflows"
_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*$")

#: The events that start a workflow.
_EVENTS = {"check": {"push", "pull_request"}, "nightly": {"schedule"}}

WORKFLOWS = [pytest.param(path, id=path.stem) for path in sorted(_FOLDER.iterdir())]


def _read(path: Path) -> dict[str, Any]:
    """Read a workflow with every value as text: YAML 1.1 reads the key `on` as a boolean."""
    workflow: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)  # noqa: S506 - texts only
    return workflow


def _steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in _read(path)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS)
def test_workflow_can_leak_no_secret(path: Path) -> None:
    """It uses none: federated identity needs only names. Permissions are minimal; one job adds its findings.

    Actions are pinned by commit, because a tag can be moved; a comment names the version. Later steps could
    read the token of a checkout, and a branch's name could run as a command.
    """
    text, steps = path.read_text(encoding="utf-8"), _steps(path)
    lines = re.findall(r"uses: (.+)$", text, re.MULTILINE)
    assert len(lines) == sum("uses" in step for step in steps) > 0
    assert [line for line in lines if not _PINNED.fullmatch(line)] == []
    sign_in = {"id-token": "write"} if path.stem == "deploy" else {}
    assert _read(path)["permissions"] == {"contents": "read", **sign_in}
    jobs = [job["permissions"] for job in _read(path)["jobs"].values() if "permissions" in job]
    assert jobs == ([{"contents": "read", "security-events": "write"}] if path.stem == "audit" else [])
    assert not re.search(r"\bsecrets\b", text)
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert {step["with"]["persist-credentials"] for step in checkouts} == {"false"}
    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []


def test_every_push_is_checked_and_every_test_runs_each_night() -> None:
    """With the same script as on a developer's machine; `make test` leaves out tests that are marked `night`.

    The templates' tests need a compiler; `make test` installs everything else.
    """
    commands = {name: [step.get("run", "") for step in _steps(_FOLDER / f"{name}.yml")] for name in _EVENTS}
    for name, events in _EVENTS.items():
        assert events <= _read(_FOLDER / f"{name}.yml")["on"].keys()
    assert "make test-all" in commands["nightly"]
    assert ".ci/run" in commands["check"]
    assert "az bicep install" in "\n".join(commands["check"])
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    own = [line for line in lines if line and not line.startswith(("#", "set ", "cd ", "export "))]
    assert own == ["make check", "make test"]


def test_only_checked_commits_of_main_are_deployed_one_at_a_time() -> None:
    """Or on request; never a fork's pull request, whose check has the same name.

    A deployment is not interrupted, and a skipped run, as after a failed check, cancels no waiting run.
    """
    workflow = _read(_FOLDER / "deploy.yml")
    assert workflow["on"] == {
        "workflow_dispatch": "",
        "workflow_run": {"workflows": ["check"], "types": ["completed"], "branches": ["main"]},
    }
    condition = workflow["jobs"]["deploy"]["if"]
    assert "workflow_run.conclusion == 'success'" in condition
    assert "workflow_run.event == 'push'" in condition
    assert "workflow_run.head_repository.full_name == github.repository" in condition
    assert "concurrency" not in workflow
    assert workflow["jobs"]["deploy"]["concurrency"] == {"group": "deploy", "cancel-in-progress": "false"}
