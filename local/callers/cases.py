"""The cases of the demo with their expected outcomes, and a client of the sample remote services."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from itertools import cycle, islice

import aiohttp

from functions.workflows.registry import FOLDERS, load_registration
from local.callers.client import SAMPLE_DELIVERY, Body, OrderRefusedError, OrderState, OrderStatus
from local.platform import StartRefusedError

#: The workflow whose orders the commands send: the first one of the registry.
FIRST_WORKFLOW = load_registration(FOLDERS[0]).workflow

#: The account whose deliveries are refused.
SUSPENDED_ACCOUNT = "A-suspended"

_DELIVERY_STEPS = ("account", "package", "transport", "drone", "delivery")
_FAR_AWAY = {"latitude": 45.5152, "longitude": -122.6784}
_TIMEOUT = aiohttp.ClientTimeout(total=30)


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected outcome of a submission: its state, and those of its steps."""

    state: OrderState
    steps: Mapping[str, str]

    def unmet(self, order: OrderStatus | None) -> str | None:
        """Return the unexpected outcome in words, or `None`; `order` is the last status, if there was one."""
        if order is None:
            return "never seen"
        if order.state is not self.state:
            return f"{order.state} ({order.last_error})" if order.last_error else order.state
        seen = {step.name: step.state for step in order.steps}
        others = [f"{name} {seen.get(name)}" for name, state in self.steps.items() if seen.get(name) != state]
        return f"{order.state}, but {', '.join(others)}" if others else None


class Case(Enum):
    """One kind of submission: its label, its resource, and its expected outcome."""

    #: The example order of the first workflow.
    ORDER = (
        f"{FIRST_WORKFLOW.noun}, processed",
        FIRST_WORKFLOW.resource,
        Expectation(OrderState.PROCESSED, {}),
    )
    #: Pickup and dropoff lie within the service area, so no transport is needed.
    NEAR = (
        "delivery near by, no transport",
        "deliveries",
        Expectation(
            OrderState.PROCESSED,
            {**dict.fromkeys(_DELIVERY_STEPS, "Completed"), "transport": "Skipped"},
        ),
    )
    #: The dropoff lies outside, so a transport is quoted too.
    FAR = (
        "delivery far away, transport",
        "deliveries",
        Expectation(
            OrderState.PROCESSED,
            dict.fromkeys(_DELIVERY_STEPS, "Completed"),
        ),
    )
    #: The account is suspended: the first step is refused, before anything needs an undo.
    SUSPENDED = (
        "delivery, account suspended",
        "deliveries",
        Expectation(
            OrderState.COMPENSATED,
            {"account": "Refused", **dict.fromkeys(("package", "drone", "delivery"), "Not started")},
        ),
    )
    NO_DRONE = (
        "delivery, drone refused",
        "deliveries",
        Expectation(
            OrderState.COMPENSATED,
            {"account": "Completed", "package": "Undone", "drone": "Undone", "delivery": "Not started"},
        ),
    )

    def __init__(self, label: str, resource: str, expectation: Expectation) -> None:
        self.label = label
        self.resource = resource
        self.expectation = expectation


#: Deliveries are sent in this order, repeatedly; half of them are simple ones.
_DELIVERIES = (Case.NEAR, Case.FAR, Case.SUSPENDED, Case.NO_DRONE, Case.NEAR, Case.FAR, Case.NEAR, Case.NEAR)


@dataclass(frozen=True, slots=True)
class Submission:
    """One order or delivery, with an id that the caller chooses."""

    id: str
    case: Case

    @classmethod
    def new(cls, prefix: str, case: Case) -> Submission:
        """Give one a new id."""
        return cls(f"{prefix}-{uuid.uuid4().hex[:16]}", case)

    def body(self, reply_to: str | None = None) -> Body:
        """Return what is submitted under its id."""
        changes: dict[str, object] = {} if reply_to is None else {"reply_to": reply_to}
        if self.case is Case.ORDER:
            return {**example_orders()[0], **changes}
        if self.case is Case.FAR:
            changes["dropoff"] = _FAR_AWAY
        if self.case is Case.SUSPENDED:
            changes["account"] = SUSPENDED_ACCOUNT
        return SAMPLE_DELIVERY | changes

    def in_batch(self, reply_to: str | None = None) -> Body:
        """Return the same with its id, as part of a batch."""
        return {**self.body(reply_to), "id": self.id}


def example_orders() -> list[Body]:
    """Return the examples of the first workflow's payload. Raises `StartRefusedError` if there are none."""
    payload = FIRST_WORKFLOW.payload
    examples: list[Body] = payload.model_json_schema().get("examples", [])
    if not examples:
        raise StartRefusedError(
            f"{FIRST_WORKFLOW.file}: {payload.__name__} has no example order to send:"
            ' add model_config = ConfigDict(json_schema_extra={"examples": [{…}]})'
        )
    return examples


def submissions(orders: int, deliveries: int) -> list[Submission]:
    """Return `orders` orders and `deliveries` deliveries, with new ids."""
    cases = [*[Case.ORDER] * orders, *islice(cycle(_DELIVERIES), deliveries)]
    return [Submission.new("demo", case) for case in cases]


class NoSampleServicesError(OrderRefusedError):
    """The application serves no sample services."""


class SampleServices:
    """Calls the sample services of the application at one address; with `headers` in each request."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @classmethod
    @asynccontextmanager
    async def at(cls, url: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[SampleServices]:
        """Open the services of the application at `url` for the block."""
        base_url = f"{url.rstrip('/')}/api/services/"
        async with aiohttp.ClientSession(base_url=base_url, timeout=_TIMEOUT, headers=headers) as session:
            yield cls(session)

    async def prepare(self, submission: Submission) -> None:
        """Make the services refuse what the submission's case needs. Raises `OrderRefusedError`."""
        match submission.case:
            case Case.SUSPENDED:
                await self._put(f"accounts/{SUSPENDED_ACCOUNT}", {"suspended": True})
            case Case.NO_DRONE:
                await self._put(f"drones/faults/{submission.id}", {"kind": "refuse"})

    async def what_stands(self, submission: Submission) -> str | None:
        """Return what a service still holds of a submission that should leave nothing, or `None`."""
        if submission.case not in {Case.SUSPENDED, Case.NO_DRONE}:
            return None
        async with self._session.delete(f"drones/faults/{submission.id}") as response:
            response.raise_for_status()
        for service in ("packages", "drones", "deliveries"):
            async with self._session.get(f"{service}/{submission.id}") as response:
                if response.status == HTTPStatus.NOT_FOUND:
                    continue
                response.raise_for_status()
                if (await response.json())["undone_at"] is None:
                    return f"there is still something at {service}"
        return None

    async def _put(self, path: str, body: object) -> None:
        async with self._session.put(path, json=body) as response:
            if not response.ok:
                kind = NoSampleServicesError if response.status == HTTPStatus.NOT_FOUND else OrderRefusedError
                raise kind(
                    f"The sample services can't be set up: {response.status} {await response.text()}. "
                    "Is SAMPLE_SERVICES=1 set there? `--deliveries 0` does without them."
                )
