"""An order is what its caller sent: that is recorded and compared, and not what a model makes of it."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    SecretStr,
    StringConstraints,
    create_model,
    model_validator,
)
from pydantic.alias_generators import to_camel

from functions.messages.reading import read_message
from functions.pattern.definition import Workflow
from functions.pattern.messages import SubmissionMessage
from tests.fakes.workflows import step
from tests.unit.api.conftest import Api
from tests.unit.api.samples import problem


def _of(payload: type[BaseModel]) -> Workflow:
    return Workflow(name="forms", resource="forms", payload=payload, steps=(step("pick"),))


async def _submitted(api: Api, payload: type[BaseModel], body: dict[str, Any]) -> SubmissionMessage:
    """Submit it by itself and in a batch, which makes no difference."""
    client = api.serving(_of(payload))
    answer = await client.put("/api/forms/one", body)
    assert answer.status == 202, answer.body
    answer = await client.post("/api/forms/batch", {"forms": [{"id": "one", **body}]})
    assert answer.json["results"][0]["status"] == 202, answer.body
    alone, batched = api.submissions.messages[-2:]
    assert alone == batched
    return alone


class Camel(BaseModel):
    """A payload whose callers write camelCase."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    unit_price: str


class Tagged(BaseModel):
    """A payload with a set, whose order is another in each process."""

    tags: set[str]


Card = create_model("Card", number=(SecretStr, ...))
Measured = create_model("Measured", weight=(float | None, None))


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        (Card, {"number": "4111"}),
        (Tagged, {"tags": ["d", "b", "a", "c", "b"]}),
        (Measured, {"weight": "inf"}),
        (Measured, {"weight": 10**30}),
        (Camel, {"unitPrice": "4.90"}),
    ],
)
async def test_payload_is_recorded_as_it_was_sent(
    api: Api, payload: type[BaseModel], body: dict[str, Any]
) -> None:
    """Not as pydantic writes it: a card of stars, or null for what JSON has no number for."""
    envelope = {"reply_to": "notices-demo", "correlation_id": "c-1"}
    message = await _submitted(api, payload, body | envelope)
    assert message.payload == body
    assert (message.reply_to, message.correlation_id) == ("notices-demo", "c-1")
    assert read_message(SubmissionMessage, message.written).digest == message.digest


async def test_same_order_is_known_after_a_deployment_that_reads_it_differently(api: Api) -> None:
    """Neither a text that is stripped nor a number that is a float is another order."""
    name = Annotated[str, StringConstraints(strip_whitespace=True)]
    before = create_model("Before", name=(str, ...), amount=(int, ...))
    after = create_model("After", name=(name, ...), amount=(float, ...), note=(str, ""))
    body = {"name": " Ada ", "amount": 1}
    assert (await _submitted(api, after, body)).digest == (await _submitted(api, before, body)).digest


class List(BaseModel):
    """A payload that takes what is no object."""

    first: str

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        return {"first": given[0]} if isinstance(given, list) else given


async def test_list_that_the_model_would_take_is_refused(api: Api) -> None:
    """The payload stands alone from here on."""
    client = api.serving(_of(List))
    problem(await client.put("/api/forms/one", ["a"]), 422)
    answer = await client.post("/api/forms/batch", {"forms": [["a"]]})
    assert answer.json["results"][0]["status"] == 422
    assert api.submissions.messages == []
