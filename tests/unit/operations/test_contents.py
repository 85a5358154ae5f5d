"""Operators are shown what a task holds, step by step, without its secrets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ConfigDict

from functions.pattern.definition import Registry
from tests.fakes.interventions import cancellation
from tests.fakes.purchases import PURCHASES, Confirmation, purchase
from tests.fakes.tasks import SECOND, claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, TASK
from tests.unit.operations.conftest import Desk, processed


@pytest.fixture
def purchases() -> Desk:
    """Make an application with a purchase that is paid, and waits to be confirmed."""
    desk = Desk(registry=Registry((PURCHASES,), {}))
    begun = (claimed(), started("pay"), completed("pay", result=b'{"receipt":"R-1"}'))
    desk.holds(told(purchase(TASK), *begun, started("confirm", start_id="c")))
    return desk


async def _step(desk: Desk, step: str) -> dict[str, Any]:
    answer = await desk.get(f"/tasks/{TASK}/steps/{step}/contents")
    assert answer.status == 200
    shown: dict[str, Any] = answer.json
    return {name: each and (each["text"] or each["why"]) for name, each in shown.items()}


async def test_payload_is_shown(purchases: Desk) -> None:
    """A member to a line."""
    answer = await purchases.get(f"/tasks/{TASK}/contents")
    assert json.loads(answer.json["payload"]["text"])["card"] == {"number": "(hidden)", "holder": "Ann"}
    assert (answer.json["payload"]["more"], answer.json["payload"]["why"]) == (False, None)


async def test_steps_show_what_there_is(purchases: Desk) -> None:
    """A request where an Agent was asked, a result where there is one."""
    paid = await _step(purchases, "pay")
    assert json.loads(paid["request"] or "")["card"] == "(hidden)"
    assert (json.loads(paid["result"] or ""), paid["undo_request"]) == ({"receipt": "R-1"}, None)
    awaited = await _step(purchases, "confirm")
    assert (awaited["request"], awaited["undo_request"], awaited["result"]) == (None, None, None)
    assert "properties" in json.loads(awaited["event"])
    assert paid["event"] is None
    assert (await _step(purchases, "ship"))["request"] == "It is made when the step begins."


async def test_what_is_not_deployed_is_not_shown() -> None:
    """The page says why."""
    desk = Desk(registry=Registry((), {}))
    desk.holds(processed())
    shown = (await desk.get(f"/tasks/{TASK}/contents")).json["payload"]
    assert (shown["text"], shown["why"][:44]) == (None, "version 1 of 'line' is not deployed here, wh")


class _Sealed(Confirmation):
    """What is told, with what has no JSON schema."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    seal: range | None = None


async def test_event_whose_model_has_no_schema_says_so(purchases: Desk) -> None:
    """The rest of the step is shown."""
    steps = tuple(
        replace(each, payload=_Sealed) if each.name == "confirm" else each for each in PURCHASES.steps
    )
    desk = Desk(registry=Registry((replace(PURCHASES, steps=steps),), {}))
    desk.holds(purchases.store.record(TASK))
    assert (await _step(desk, "confirm"))["event"] == "its model has no JSON schema."


async def test_unknown_task_or_step_is_not_found(purchases: Desk) -> None:
    """Nor a name that is none."""
    assert (await purchases.get("/tasks/other/contents")).status == 404
    assert (await purchases.get(f"/tasks/{TASK}/steps/other/contents")).status == 404
    assert (await purchases.get(f"/tasks/{TASK}/steps/Other/contents")).status == 422


async def test_undone_step_shows_the_request_of_its_undo(purchases: Desk) -> None:
    """Beside that of its do, where it is another."""
    paid = purchases.store.record(TASK)
    undoing = told(paid, cancellation(by_operator=True), claimed(SECOND), started("pay", SECOND))
    purchases.holds(undoing)
    shown = await _step(purchases, "pay")
    assert json.loads(shown["undo_request"] or "") == {"refund_to": "(hidden)"}
    assert "refund_to" not in (shown["request"] or "")


async def test_long_text_is_cut() -> None:
    """It is told that there is more; what could turn a line around is not in it."""
    desk = Desk()
    long = json.dumps({"n": [*range(3_000)], "deep": [[[[[[[[[0]]]]]]]]] * 200, "text": "\u202e"}).encode()
    begun = (claimed(), started("pick"), completed("pick", result=long))
    desk.holds(told(pending(LINE), *begun))
    shown = (await desk.get(f"/tasks/{TASK}/steps/pick/contents")).json["result"]
    assert (len(shown["text"]), shown["more"]) == (64 * 1024, True)
    assert "\u202e" not in shown["text"]
