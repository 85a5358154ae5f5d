"""Workflows of the shapes that tests need, and orders for them."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.identity import StepName, TaskId
from functions.pattern.messages import SubmissionMessage, order_of
from functions.pattern.records import Order
from tests.fakes.clock import START


class Parcel(BaseModel):
    """A payload as small as can be."""

    model_config = ConfigDict(extra="forbid")

    weight: int


def _request(parcel: Parcel, results: Mapping[StepName, Json]) -> Json:
    return {"weight": parcel.weight, "after": sorted(results)}


def step(name: str, *needs: str, complete_within: float = 10) -> Step:
    """Make a step that is done by the agent of its own name."""
    return Step(
        StepName(name),
        agent=name,
        request=_request,
        complete_within=complete_within,
        needs=frozenset(map(StepName, needs)),
    )


def workflow(*steps: Step, name: str = "parcels", resource: str = "parcels") -> Workflow:
    """Make a workflow of these steps."""
    return Workflow(name=name, resource=resource, payload=Parcel, steps=steps)


LINE = workflow(step("pick"), step("send", "pick"), name="line", resource="lines")
DIAMOND = workflow(
    step("open"), step("left", "open"), step("right", "open"), step("close", "left", "right"), name="diamond"
)

TASK = TaskId("task-1")


def order(of: Workflow = DIAMOND, task: TaskId = TASK, weight: int = 3) -> Order:
    """Make an order as the submission makes it."""
    return order_of(submission(of, task, weight), of)


def submission(of: Workflow = DIAMOND, task: TaskId = TASK, weight: int = 3) -> SubmissionMessage:
    """Make the message that brings an order."""
    return SubmissionMessage(
        task_id=task,
        workflow=of.name,
        payload={"weight": weight},
        submitter="tester",
        submitted_at=START,
        correlation_id="c-1",
    )
