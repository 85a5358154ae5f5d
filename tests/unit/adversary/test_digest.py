"""The digest of a payload is of what the caller sent, so that the same `PUT` is the same order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints

from functions.api.models import submission_model
from functions.pattern.definition import Workflow
from functions.pattern.messages import SubmissionMessage
from functions.messages.reading import read_message
from tests.fakes.workflows import step
from tests.unit.api.conftest import Api
from tests.unit.api.conftest import api as api  # noqa: PLC0414 - the fixture

ROOT = Path(__file__).parents[3]


def _of(payload: type[BaseModel]) -> Workflow:
    return Workflow(name="forms", resource="forms", payload=payload, steps=(step("pick"),))


class Tagged(BaseModel):
    """A payload with a set."""

    model_config = ConfigDict(extra="forbid")

    tags: set[str]


class Card(BaseModel):
    """A payload with a secret, as pydantic has it."""

    model_config = ConfigDict(extra="forbid")

    number: SecretStr


class Before(BaseModel):
    """A payload of one deployment."""

    name: str
    amount: float


class After(BaseModel):
    """The same of the next one: it still takes everything that the first one took."""

    name: Annotated[str, StringConstraints(strip_whitespace=True)]
    amount: float
    note: str = ""


class Aliased(BaseModel):
    """A payload whose callers write camelCase."""

    model_config = ConfigDict(extra="forbid")

    unit_price: Annotated[str, Field(alias="unitPrice")]


class Measured(BaseModel):
    """A payload with an optional number."""

    weight: float | None = None


async def _digest(api: Api, payload: type[BaseModel], body: dict[str, Any]) -> str:
    answer = await api.serving(_of(payload)).put("/api/forms/one", body)
    assert answer.status == 202, answer.body
    return api.submissions.messages[-1].digest


_PRINT = """
from tests.unit.adversary.test_digest import Tagged, _of, submission_model
from datetime import datetime, UTC
from functions.pattern.messages import SubmissionMessage
fields = submission_model(_of(Tagged)).model_validate({"tags": ["a", "b", "c", "d"]}).model_dump(
    mode="json", exclude_unset=True)
print(SubmissionMessage(task_id="one", workflow="forms", payload=fields, submitter="x",
    submitted_at=datetime.now(UTC)).digest)
"""


def test_same_order_is_the_same_in_every_process() -> None:
    """The same `PUT` again, at another instance or after a restart, must not be answered with 409."""
    digests = {
        subprocess.run(  # noqa: S603 - our own code
            [sys.executable, "-c", _PRINT],
            cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1


async def test_two_cards_are_two_orders(api: Api) -> None:
    """What was sent differs, so other content under a known id is 409."""
    one = await _digest(api, Card, {"number": "4111"})
    assert await _digest(api, Card, {"number": "5500"}) != one


async def test_payload_is_recorded_as_it_was_sent(api: Api) -> None:
    """The service would be asked to charge a card of stars."""
    await _digest(api, Card, {"number": "4111"})
    assert api.submissions.messages[-1].payload == {"number": "4111"}


async def test_same_order_is_known_after_a_deployment_that_reads_it_differently(api: Api) -> None:
    """Issue 2: the digest is of what the caller sent."""
    body = {"name": " Ada ", "amount": 1}
    assert await _digest(api, After, body) == await _digest(api, Before, body)


@pytest.mark.parametrize("sent", ["inf", "nan"])
async def test_what_is_accepted_is_what_is_recorded(api: Api, sent: str) -> None:
    """It was answered with 202; on its way through the queue it becomes another order."""
    answer = await api.serving(_of(Measured)).put("/api/forms/one", {"weight": sent})
    if answer.status == 202:
        message = api.submissions.messages[-1]
        assert read_message(SubmissionMessage, message.written).digest == message.digest


async def test_payload_with_an_alias_can_be_submitted(api: Api) -> None:
    """The definition was taken at start."""
    await _digest(api, Aliased, {"unitPrice": "4.90"})
