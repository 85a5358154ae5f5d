"""A host is deployed without the workflow of a task in flight, and later with it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.platform.parts import PartName
from tests.e2e.recovery.bench import Bench, bench_with, events
from tests.e2e.recovery.remote import Behaviour, RemoteService
from tests.e2e.recovery.workflows import STEPS

pytestmark = pytest.mark.process

_APP = Path(__file__).parent / "app"


async def test_task_outlives_the_removal_of_its_workflow(tmp_path: Path) -> None:
    """Parked with the reason, alerted once, and uncounted; then processed, each effect once."""
    missing = tmp_path / "missing"
    _write(missing, "")
    async with RemoteService().serving() as remote:
        settings = {
            **{f"{step.upper()}_URL": f"{remote.url}/{step}" for step in STEPS},
            "PAYMENT_URL": f"{remote.url}/payments",
            "MISSING_WORKFLOWS": str(missing),
            "SUPERVISOR_SCHEDULE": "* * * * * *",
            "PICK_UP_SECONDS": "8",
            "STATE_SHARDS": "2",
        }
        async with bench_with(remote, tmp_path / "data", settings, app=_APP) as bench:
            remote.script("kept/b/do", Behaviour.HANGS, Behaviour.ANSWERS)
            await bench.submit("kept")
            await bench.until_called("kept/b/do")
            await _deploy(bench, missing, "undone")
            parked = await bench.until("kept", lambda task: bool(task["parked"]))
            assert (parked["state"], parked["locked_by"]) == ("Pending", None)
            assert parked["last_error"] == "version 1 of 'undone' is not deployed here"
            assert events(parked) == ["submitted"]  # the killed host's step costs no recovery either
            await bench.until_alerted("kept")
            assert await _needed(bench) == {"deployed": False, "parked": 1}
            await _deploy(bench, missing, "")
            task = await bench.until_state("kept", "Processed")
            assert events(task) == ["submitted", "released"]
            assert (task["failure_count"], len(remote.alerts_about("kept"))) == (0, 1)
            assert remote.effects("kept") == ["a/do", "b/do", "c/do"]


async def _deploy(bench: Bench, missing: Path, names: str) -> None:
    await bench.platform.kill(PartName.HOST)
    _write(missing, names)
    await bench.platform.start(PartName.HOST)


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


async def _needed(bench: Bench) -> dict[str, int | bool]:
    """Tell what the operators' overview says of the version that the task needs."""
    async with bench.session.get("/api/ops/overview") as answer:
        versions = (await answer.json())["versions"]
    [line] = [each for each in versions if each["workflow"] == "undone"]
    return {name: line[name] for name in ("deployed", "parked")}
