"""Workflows in the shapes that tests need, and orders for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict

from functions.pattern.definition import Condition, Default, Finder, Json, Step, Workflow
from functions.pattern.identity import Birth, StepName, TaskId
from functions.pattern.messages import SubmissionMessage, order_of
from functions.pattern.records import Order
from functions.pattern.states import Expiry, Remedy, Way
from tests.fakes.clock import START


class Parcel(BaseModel):
    """A minimal payload."""

    model_config = ConfigDict(extra="forbid")

    weight: int


def _request(parcel: Parcel, results: Mapping[StepName, Json]) -> Json:
    return {"weight": parcel.weight, "after": sorted(results)}


def step(
    name: str,
    *needs: str,
    complete_within: float = 10,
    undo: bool = False,
    idempotent: bool = True,
    when: Condition | None = None,
    via: Way = Way.ACTIVITY,
    on_failure: Remedy | None = None,
) -> Step:
    """Create a step whose Agent has the same name."""
    return Step(
        StepName(name),
        agent=name,
        request=_request,
        complete_within=complete_within,
        needs=frozenset(map(StepName, needs)),
        undo=undo,
        idempotent=idempotent,
        when=when,
        via=via,
        on_failure=on_failure,
    )


def each(
    name: str,
    *needs: str,
    at_once: int | None = None,
    undo: bool = False,
    idempotent: bool = True,
    via: Way = Way.ACTIVITY,
    on_failure: Remedy | None = None,
    when: Condition | None = None,
) -> Step:
    """Create a step for each item: an order has as many as its weight, numbered from 1."""
    return replace(
        step(name, *needs, undo=undo, idempotent=idempotent, via=via, on_failure=on_failure, when=when),
        request=lambda _parcel, results, item: {"item": item, "after": sorted(results)},
        for_each=lambda parcel: list(range(1, parcel.weight + 1)),
        at_once=at_once,
    )


class Approval(BaseModel):
    """A minimal event."""

    model_config = ConfigDict(extra="forbid")

    approved: bool


def awaiting(
    name: str,
    *needs: str,
    complete_within: float = 3 * 86_400,
    on_expiry: Expiry | Default = Expiry.REFUSE,
    on_failure: Remedy | None = None,
    role: str = "Operator",
) -> Step:
    """Create a step that waits for an event."""
    return Step(
        StepName(name),
        via=Way.EVENT,
        payload=Approval,
        complete_within=complete_within,
        needs=frozenset(map(StepName, needs)),
        on_expiry=on_expiry,
        on_failure=on_failure,
        role=role,
    )


def timer(name: str, *needs: str, until: datetime | None = None) -> Step:
    """Create a step that waits until a time: a year after the start of every test, unless it is given."""
    time = until or START + timedelta(days=365)
    return Step(
        StepName(name),
        via=Way.TIMER,
        until=lambda _parcel, _results: time,
        needs=frozenset(map(StepName, needs)),
    )


def nested(
    name: str,
    *needs: str,
    of: str = "line",
    complete_within: float = 3_600,
    on_failure: Remedy | None = None,
) -> Step:
    """Create a step that is a task of another workflow, whose parcel has the same weight."""
    return Step(
        StepName(name),
        via=Way.WORKFLOW,
        workflow=of,
        request=lambda parcel, _results: {"weight": parcel.weight},
        complete_within=complete_within,
        needs=frozenset(map(StepName, needs)),
        on_failure=on_failure,
    )


def workflow(
    *steps: Step,
    name: str = "parcels",
    resource: str = "parcels",
    remedy: Remedy = Remedy.HOLD,
    cancel_within: float | None = None,
    find_by: Finder | None = None,
) -> Workflow:
    """Create a workflow of these steps; `remedy` applies to refusals and to exhausted recoveries."""
    return Workflow(
        name=name,
        resource=resource,
        payload=Parcel,
        steps=steps,
        on_failure=remedy,
        on_exhausted=remedy,
        cancel_within=cancel_within,
        find_by=find_by,
    )


LINE = workflow(step("pick"), step("send", "pick"), name="line", resource="lines")
DIAMOND = workflow(
    step("open"), step("left", "open"), step("right", "open"), step("close", "left", "right"), name="diamond"
)


def trip(*, remedy: Remedy = Remedy.COMPENSATE, hotel_idempotent: bool = True) -> Workflow:
    """Create a workflow of three steps, of which the first and the last can be undone."""
    return workflow(
        step("flight", undo=True),
        step("hotel", "flight", idempotent=hotel_idempotent),
        step("car", "hotel", undo=True),
        name="trip",
        resource="trips",
        remedy=remedy,
    )


TRIP = trip()

TASK = TaskId("task-1")
BIRTH = Birth("0a1b2c3d")


def order(of: Workflow = DIAMOND, task: TaskId = TASK, weight: int = 3) -> Order:
    """Create an order, as the submission does."""
    return order_of(submission(of, task, weight), of, BIRTH)


def submission(of: Workflow = DIAMOND, task: TaskId = TASK, weight: int = 3) -> SubmissionMessage:
    """Create the message that contains an order."""
    return SubmissionMessage(
        task_id=task,
        workflow=of.name,
        payload={"weight": weight},
        submitter="tester",
        submitted_at=START,
        correlation_id="c-1",
    )
