"""`docs/changing-a-workflow.md` is followed: its definitions live side by side, as it promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import create_model

from functions.pattern.definition import Json, Registry, Results, Step, Workflow
from functions.pattern.identity import StepName, TaskId
from functions.pattern.states import ProcessState
from functions.workflows.registration import Registration
from local.version_locks import check, lock
from tests.fakes.tasks import claimed, pending, told
from tests.fakes.workflows import Parcel
from tests.house.documents import ROOT, code_blocks
from tests.unit.scheduler.test_redeployments import Deployment

_PAGE = "docs/changing-a-workflow.md"


def _request(parcel: Parcel, _results: Results) -> Json:
    return parcel.model_dump()


@pytest.fixture
def page() -> dict[str, Any]:
    """Run the page's code, with the names that its folder would have."""
    names = {"PICK": StepName("pick"), "WEIGH": StepName("weigh"), "SEND": StepName("send")}
    space: dict[str, Any] = {
        **names,
        "Workflow": Workflow,
        "Step": Step,
        "Parcel": Parcel,
        "Registration": Registration,
        "_request": _request,
    }
    for block in code_blocks(_PAGE):
        if block.language == "python":
            exec(block.text, space)  # noqa: S102 - the page's own code
    return space


async def test_tasks_of_both_versions_are_processed_side_by_side(page: dict[str, Any]) -> None:
    """Each has the steps that it was submitted with; new orders have the new one."""
    registration: Registration = page["REGISTRATION"]
    old, new = page["PARCELS_1"], page["PARCELS"]
    assert Registry(registration.versions, {}).find("parcel") == new
    application = Deployment([pending(old, TaskId("old")), pending(new, TaskId("new"))])
    application.deploy(*registration.versions)
    await application.until_at_rest()
    steps = {name: len(application.store.record(TaskId(name)).steps) for name in ("old", "new")}
    assert steps == {"old": 2, "new": 3}
    assert not application.those(lambda record: record.task.process_state is not ProcessState.PROCESSED)


async def test_version_that_was_dropped_too_early_can_come_back(page: dict[str, Any]) -> None:
    """The reason is the one that the page shows."""
    old, new = page["PARCELS_1"], page["PARCELS"]
    application = Deployment([told(pending(old), claimed())])
    application.deploy(new)
    await application.sweep()
    await application.until_at_rest()
    [parked] = application.store.records()
    assert parked.task.is_parked
    [text] = [line for line in _text().splitlines() if "is not deployed here`" in line]
    assert f"`{parked.task.last_error}`" in text
    application.deploy(new, old)
    assert (await application.sweep()).released == 1
    await application.until_at_rest()
    assert application.store.records()[0].task.process_state is ProcessState.PROCESSED


def test_what_needs_a_version_is_told_by_the_lock(page: dict[str, Any], tmp_path: Any) -> None:
    """And what may change freely is not."""
    (tmp_path / "parcels").mkdir()
    registration: Registration = page["REGISTRATION"]
    assert lock(tmp_path, [registration]) == []
    pick, *others = page["PARCELS"].steps
    freely = replace(pick, request=lambda _parcel, _results: {}, when=lambda _parcel, _results: True)
    for changed, told_of in (
        (freely, 0),
        (replace(pick, complete_within=20), 1),
        (replace(pick, undo=True), 1),
    ):
        workflow = replace(page["PARCELS"], steps=(changed, *others))
        assert len(check(tmp_path, [replace(registration, workflow=workflow)])) == told_of
    stricter = replace(page["PARCELS"], payload=create_model("Stricter", colour=str))
    assert check(tmp_path, [replace(registration, workflow=stricter)]) == []  # it does not see the payload


def _text() -> str:
    return (ROOT / _PAGE).read_text(encoding="utf-8")
