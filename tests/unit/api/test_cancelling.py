"""A caller cancels what it submitted, and is told why when that can't be done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.api.pages import api_document
from functions.pattern.errors import TransientError
from functions.pattern.identity import Parent, StepName, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, EpochEnd, ProcessState, Remedy
from tests.fakes.asgi import AsgiClient
from tests.fakes.interventions import done, park_request
from tests.fakes.tasks import after, claimed, failed, pending, started, told
from tests.fakes.workflows import BIRTH, TASK, step, workflow
from tests.unit.api.conftest import Api
from tests.unit.api.samples import problem

BOOKINGS = workflow(
    step("room", undo=True), name="booking", resource="bookings", remedy=Remedy.HOLD, cancel_within=60
)
PATH = f"/api/bookings/{TASK}"
RUNNING = told(pending(BOOKINGS), claimed(), started("room"))
PROCESSED = told(pending(BOOKINGS), claimed(), *done("room"))
HELD = told(RUNNING, failed("room"))
CHILD = replace(
    RUNNING,
    order=replace(RUNNING.order, parent=Parent(task=TaskId("trip-1"), birth=BIRTH, step=StepName("room"))),
)


@pytest.fixture
def client(api: Api) -> AsgiClient:
    """Serve bookings."""
    return api.serving(BOOKINGS)


def _put(api: Api, record: TaskRecord, at: float = 0) -> None:
    finished_at = None if record.task.finished_at is None else after(at)
    api.store.put(replace(record, task=replace(record.task, finished_at=finished_at)))


@pytest.mark.parametrize("record", [RUNNING, PROCESSED], ids=["under way", "processed"])
async def test_cancelled_task_is_being_undone(api: Api, client: AsgiClient, record: TaskRecord) -> None:
    """202, with the place where the end can be seen; who did it stands in the history."""
    _put(api, record)
    answer = await client.delete(PATH)
    assert (answer.status, answer.headers["location"]) == (202, PATH)
    assert answer.json == {"id": TASK, "location": PATH}
    task, [closed] = api.store.record(TASK).task, api.store.record(TASK).history
    assert (task.process_state, task.direction) == (ProcessState.PENDING, Direction.UNDO)
    assert task.complete_by == after(30)
    assert (closed.ended_by, closed.who) == (EpochEnd.CANCELLED, "tester")
    assert await client.delete(PATH) == answer
    assert len(api.store.record(TASK).history) == 1


@pytest.mark.parametrize(
    ("record", "at", "reason"),
    [
        (PROCESSED, -61, "It was processed, and can't be cancelled any more."),
        (CHILD, 0, "It is a step of another: cancel that instead."),
        (HELD, 0, "It is in Error: an operator decides what becomes of it."),
        (told(RUNNING, park_request()), 0, "An operator has parked it: ask the operator."),
    ],
    ids=["too late", "child", "Error", "parked"],
)
async def test_refusal_says_why(
    api: Api, client: AsgiClient, record: TaskRecord, at: int, reason: str
) -> None:
    """409, and nothing is changed."""
    _put(api, record, at)
    assert problem(await client.delete(PATH), 409)["detail"] == reason
    assert api.store.record(TASK).task.direction is Direction.DO


async def test_only_what_is_there_can_be_cancelled(api: Api, client: AsgiClient) -> None:
    """In its own resource, too."""
    assert problem(await client.delete(PATH), 404)["detail"] == "No booking is recorded under this id (yet)."
    api.store.put(pending())
    problem(await client.delete(PATH), 404)


async def test_store_that_does_not_answer_is_503(api: Api, client: AsgiClient) -> None:
    """It is safe to repeat."""
    api.store.failure = TransientError("Table Storage: ServiceRequestError")
    problem(await client.delete(PATH), 503)


def test_document_says_for_how_long(api: Api) -> None:
    """Where callers read of it."""
    document: dict[str, Any] = api_document("Test", api.application_of(BOOKINGS))
    described = document["paths"]["/api/bookings/{id}"]["delete"]
    assert described["summary"] == "Cancel this booking: what was done for it is undone"
    assert "up to 60 seconds after it was processed" in described["description"]
    assert described["responses"].keys() >= {"202", "404", "409"}
