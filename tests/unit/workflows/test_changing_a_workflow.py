"""The definitions of `docs/changing-a-workflow.md` live side by side, and the lock names each change."""

from __future__ import annotations

from typing import Any

from functions.core.derive import ProcessState, WaitingFor, derive
from functions.core.record import TaskRecord
from functions.core.rules import admit
from functions.workflow import Step, Workflow
from functions.workflows.registry import Registration
from tests.fakes.storage_process import virtual_now
from tests.house.documents import ROOT, code_blocks
from tests.unit.scheduler.world import Parcel, World, request
from tests.unit.storage.virtual import virtual

_PAGE = "docs/changing-a-workflow.md"


def _page() -> dict[str, Any]:
    """Run the code of the page; return its names."""
    space: dict[str, Any] = {
        "Parcel": Parcel,
        "Registration": Registration,
        "Step": Step,
        "Workflow": Workflow,
        "_request": request,
    }
    for block in code_blocks(_PAGE):
        if block.language == "python":
            exec(block.text, space)  # noqa: S102 - the page's own code
    return space


_SPACE = _page()
_REGISTRATION: Registration = _SPACE["REGISTRATION"]
_NEW, _OLD = _REGISTRATION.versions


async def _admit(world: World, workflow: Workflow[Any], task: str) -> None:
    order = workflow.new_order(task, "r1", "{}", virtual_now())
    await world.process.storage.admit(admit(order, virtual_now(), world.process.settings))


@virtual
async def test_tasks_of_both_versions_are_processed_side_by_side() -> None:
    """Each has the steps that it was submitted with; new orders have those of the new version."""
    world = World(_NEW, _OLD)
    assert world.registry.find("parcel") == _NEW
    steps = {}
    for workflow, task in ((_OLD, "old"), (_NEW, "new")):
        await _admit(world, workflow, task)
        record = await world.until_rest(task)
        assert derive(record).state is ProcessState.PROCESSED
        steps[task] = sorted(record.steps)
    assert steps == {"old": ["pick", "send"], "new": ["pick", "send", "weigh"]}


@virtual
async def test_task_of_a_version_that_was_dropped_too_early_is_suspended() -> None:
    """The page shows its reason. The Supervisor resumes it when the version is deployed again."""
    world = World(_NEW)
    await _admit(world, _OLD, "old")
    record: TaskRecord | None = None
    while record is None or record.suspension is None:
        await world.sweep()
        record = await world.record("old")
    assert derive(record).waiting_for is WaitingFor.SUSPENDED
    assert f"`{record.suspension.reason}`" in (ROOT / _PAGE).read_text(encoding="utf-8")
    assert world.services.calls == []
