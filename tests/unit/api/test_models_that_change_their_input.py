"""What a model does to the caller's JSON while it reads it, and what is recorded then."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from functions.pattern.definition import Workflow
from tests.fakes.workflows import step
from tests.unit.api.conftest import Api


def _of(payload: type[BaseModel]) -> Workflow:
    return Workflow(name="forms", resource="forms", payload=payload, steps=(step("pick"),))


class Renamed(BaseModel):
    """It takes the former name of a field, as pydantic's users do: in place."""

    amount: int

    @model_validator(mode="before")
    @classmethod
    def _former(cls, given: Any) -> Any:
        if isinstance(given, dict) and "total" in given:
            given["amount"] = given.pop("total")
        return given


class Required(BaseModel):
    """The same, of a field that has to be there."""

    amount: int

    @model_validator(mode="before")
    @classmethod
    def _former(cls, given: Any) -> Any:
        given["amount"] = given.pop("total")
        return given


class Stamped(BaseModel):
    """It fills in what was left out."""

    amount: int
    edition: str = ""

    @model_validator(mode="before")
    @classmethod
    def _stamp(cls, given: Any) -> Any:
        if isinstance(given, dict):
            given.setdefault("edition", "2")
        return given


@pytest.mark.parametrize(
    ("payload", "body"), [(Renamed, {"total": 3}), (Required, {"total": 3}), (Stamped, {"amount": 3})]
)
async def test_model_that_changes_its_input_changes_not_what_is_recorded(
    api: Api, payload: type[BaseModel], body: dict[str, Any]
) -> None:
    """The payload is the caller's own JSON, as it came."""
    client = api.serving(_of(payload))
    answer = await client.put("/api/forms/one", body)
    assert answer.status == 202, answer.body
    assert api.submissions.messages[-1].payload == body


@pytest.mark.parametrize(
    ("payload", "body"), [(Renamed, {"total": 3}), (Required, {"total": 3}), (Stamped, {"amount": 3})]
)
async def test_nor_in_a_batch(api: Api, payload: type[BaseModel], body: dict[str, Any]) -> None:
    """One after another."""
    client = api.serving(_of(payload))
    answer = await client.post("/api/forms/batch", {"forms": [{"id": "one", **body}]})
    assert answer.status in {200, 202, 207}, answer.body
    assert api.submissions.messages[-1].payload == body
