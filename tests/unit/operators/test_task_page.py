"""The page of a task: its steps, its history, its contents without secrets, and previews of actions."""

from __future__ import annotations

import cProfile
import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from functions.core.definition.step_definition import EventStep, Step, WorkflowStep
from functions.core.definition.workflow_definition import Workflow
from functions.core.record import Operation, OperationState, StepRecord, TaskRecord
from functions.core.task_events import Cancelled, Canceller, Due, StepDeferred, Suspended
from functions.messaging.message_format import QueueMessage
from functions.operators.task_actions import previews
from functions.storage.row_keys import shard_of
from functions.storage.table_contract import RowChange
from tests.fakes.clock import START
from tests.security.purchases import CHARGED, EVENT, PAYLOAD, PURCHASES
from tests.unit.api.scene import WithoutSchema, problem
from tests.unit.operators.conftest import (
    BOOKING,
    LINE,
    PAYING,
    SHARDS,
    TASK,
    TRIP,
    Desk,
    Parcel,
    items_of,
    request,
)


async def _page(desk: Desk) -> Any:
    answer = await desk.get(f"/tasks/{TASK}")
    assert answer.status == 200, answer.body
    return answer.json


async def test_page_shows_order_steps_and_history(desk: Desk) -> None:
    """Steps that have not started are on it, too. No start id is."""
    await desk.in_error(correlation_id="c-1", reply_to="replies")
    await desk.act("resubmit", reason="fixed")
    record = await desk.run()
    shown = await _page(desk)
    assert (shown["state"], shown["epoch"], shown["waiting_for"]) == ("Processing", 2, "none")
    assert (shown["locked_by"], shown["order"]["correlation_id"]) == ("task-1.2.1", "c-1")
    assert [(step["name"], step["state"]) for step in shown["steps"]] == [
        ("pick", "Completed"),
        ("send", "Running"),
    ]
    send = shown["steps"][1]
    assert (send["spec"]["agent"], send["spec"]["needs"]) == ("send", ["pick"])
    [closed] = shown["history"]
    assert (closed["end"], closed["who"], closed["reason"]) == ("resubmitted", "operator", "fixed")
    assert closed["steps"] == {"pick": "done", "send": "refused"}
    assert str(record.do("send").start_id) not in json.dumps(shown).replace("task-1", "")


async def test_attempts_gates_and_corrupt_epochs_are_page(desk: Desk) -> None:
    """Attempts have their durations in seconds. A corrupt epoch hides no other one."""
    await desk.submit()
    await desk.run()
    for _ in range(2):
        desk.clock.advance(40)
        await desk.change(Due(may_recover=True))
        await desk.run()
    attempts = (await _page(desk))["steps"][0]["do"]["attempts"]
    assert [(each["seconds"], each["outcome"]) for each in attempts] == [(40, "no outcome")] * 2
    desk.clock.advance(40)
    await desk.change(Due(may_recover=True))
    await desk.change(StepDeferred(epoch=4, step="pick"))
    key = f"{TASK}|epoch|000001"
    desk.table.rows[shard_of(TASK, SHARDS), key]["Facts"] = "{"
    shown = await _page(desk)
    assert ([each["epoch"] for each in shown["history"]], shown["corrupt"][0]["key"]) == ([2, 3], key)
    assert (shown["waiting_for"], shown["gates"]) == ("deferred", {"pick": desk.at(120)})
    pick = shown["steps"][0]
    assert (pick["state"], pick["do"]["gate"]) == ("Deferred", "pick")


async def test_items_and_children_are_page() -> None:
    """A child is named after the start of its step."""
    send = Step("send", for_each=items_of, request=lambda *given: {"item": given[2]})
    car = WorkflowStep("car", workflow="line", request=request, needs=[send])
    flow = Workflow("each", payload=Parcel, steps=[send, car])
    desk = Desk(flow, LINE)
    await desk.submit(TASK, flow, '{"items":[1,2]}', parent="trip-1", parent_step="leg")
    await desk.run()
    shown = await _page(desk)
    assert [(step["name"], step["spec"]["item"]) for step in shown["steps"]] == [
        ("send.0", 0),
        ("send.1", 1),
        ("car", None),
    ]
    assert (shown["order"]["parent"], shown["order"]["parent_step"]) == ("trip-1", "leg")
    assert shown["steps"][2]["child"] is None
    assert _text((await _contents(desk, "send.0"))["request"]) == {"item": 1}
    await desk.end("send.0")
    record = await desk.end("send.1")
    assert (await _page(desk))["steps"][2]["child"] == record.order.child("car")


async def test_rejected_messages_about_the_task_are_page(desk: Desk) -> None:
    """As their list shows them. A corrupt reference to one hides no other."""
    await desk.submit()
    message = QueueMessage(message_id="m-1", body=b"secret")
    await desk.rejected.reject("agent-replies", message, "late", task=TASK, step="pick")
    corrupt = RowChange("insert", f"!task|{TASK}|{0:018d}-{'a' * 64}", {})
    await desk.rejected._table.send("rejected", [corrupt])
    [shown] = (await _page(desk))["rejected"]
    assert (shown["message_id"], shown["step"], shown["reason"]) == ("m-1", "pick", "late")
    assert "secret" not in str(shown)


async def test_unknown_task_is_not_found(desk: Desk) -> None:
    """404, also for its contents and for an unknown step; 422 for a name that no task or step has."""
    await desk.submit()
    for path in ("other", "other/contents", f"{TASK}/steps/other/contents", f"{TASK}/steps/a.123/contents"):
        problem(await desk.get(f"/tasks/{path}"), 404)
    for path in ("a%7Cb", f"{TASK}/steps/a.٣/contents", f"{TASK}/steps/a.1234/contents"):
        problem(await desk.get(f"/tasks/{path}"), 422)


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("url", "traceparent", "shown"),
    [
        (
            "https://t.example/{trace_id}/all",
            f"00-{TRACE}-00f067aa0ba902b7-01",
            f"https://t.example/{TRACE}/all",
        ),
        (None, f"00-{TRACE}-00f067aa0ba902b7-01", None),
        ("https://t.example/{trace_id}", None, None),
    ],
)
async def test_trace_of_the_order_is_named(
    url: str | None, traceparent: str | None, shown: str | None
) -> None:
    """By an address if there is one."""
    desk = Desk(url=url)
    await desk.submit(traceparent=traceparent)
    page = await _page(desk)
    assert (page["trace_id"], page["trace_url"]) == (traceparent and TRACE, shown)


# Contents


async def _contents(desk: Desk, step: str) -> Any:
    answer = await desk.get(f"/tasks/{TASK}/steps/{step}/contents")
    assert answer.status == 200, answer.body
    return answer.json


def _text(shown: Any) -> Any:
    return json.loads(shown["text"])


async def test_secret_fields_are_not_page() -> None:
    """Neither are the request and the output, which have no model."""
    desk = Desk(PURCHASES)
    await desk.submit(TASK, PURCHASES, json.dumps(PAYLOAD))
    await desk.run()
    await desk.end("pay", result=CHARGED)
    await desk.act("events/confirm", body=json.loads(EVENT))
    await desk.run()
    await desk.end("ship")
    payload = (await desk.get(f"/tasks/{TASK}/contents")).json
    shown = {"amount": 5, "card": {"number": "(hidden)", "holder": "Ann"}, "pin": "(hidden)"}
    assert _text(payload["payload"]) == shown
    pay, confirm = await _contents(desk, "pay"), await _contents(desk, "confirm")
    assert _text(pay["result"]) == {"receipt": "R-1", "token": "(hidden)"}
    hidden = "its workflow has secret fields, and no model names those of this text."
    assert (pay["request"]["text"], pay["request"]["why"]) == (None, hidden)
    assert payload["output"]["why"] == hidden
    assert (_text(confirm["result"]), confirm["request"]) == ({"code": "(hidden)", "by": "Ann"}, None)
    assert "properties" in _text(confirm["event"])
    assert "c4n4ry" not in f"{payload}{pay}{confirm}{await _page(desk)}"


async def test_recorded_requests_are_page() -> None:
    """Those of rebuilt generations and of the undo, too."""
    flight = Step("flight", request=request, undo=lambda *_: {"refund": 5})
    flow = Workflow("trip", payload=Parcel, steps=[flight])
    desk = Desk(flow)
    await desk.submit(TASK, flow)
    assert (await _contents(desk, "flight"))["request"] is None
    await desk.run()
    await desk.end("flight", error="full")
    await desk.act("steps/flight/rebuild")
    await desk.run()
    await desk.end("flight", error="full")
    await desk.act("undo")
    await desk.run()
    shown = await _contents(desk, "flight")
    assert (_text(shown["request"]), _text(shown["undo_request"])) == ({"weight": 3}, {"refund": 5})
    assert [_text(each) for each in shown["earlier_requests"]] == [{"weight": 3}]
    assert (shown["result"], shown["event"]) == (None, None)


async def test_contents_need_the_deployed_models() -> None:
    """The answer says what is missing."""
    desk = Desk(PURCHASES)
    await desk.submit(TASK, PURCHASES, json.dumps(PAYLOAD))
    other = desk.redeployed(LINE)
    payload = (await other.get(f"/tasks/{TASK}/contents")).json["payload"]
    assert (
        payload["why"] == "version 1 of workflow purchase is not deployed; its models name the secret fields."
    )
    assert "is not deployed" in (await _contents(other, "confirm"))["event"]["why"]


async def test_model_without_a_schema_is_not_page() -> None:
    """The rest of the step is."""
    sealed = EventStep("confirm", event=WithoutSchema, complete_within=60)
    flow = Workflow("sealed", payload=Parcel, steps=[Step("pick", request=request), sealed])
    desk = Desk(flow)
    await desk.submit(TASK, flow)
    await desk.run()
    assert "has no JSON schema" in (await _contents(desk, "confirm"))["event"]["why"]
    assert _text((await _contents(desk, "pick"))["request"]) == {"weight": 3}


async def test_long_text_is_cut(desk: Desk) -> None:
    """Characters that could reverse a line are replaced."""
    await desk.submit()
    await desk.run()
    deep: dict[str, Any] = {"text": "\u202e", "n": [*range(3_000)], "deep": [[[[[[[[[0]]]]]]]]] * 200}
    await desk.end("pick", result=json.dumps(deep, ensure_ascii=False))
    shown = (await _contents(desk, "pick"))["result"]
    assert (len(shown["text"]), shown["more"]) == (64 * 1024, True)
    assert "\u202e" not in shown["text"]


# Previews


async def _actions(desk: Desk) -> dict[str, Any]:
    """Return the previews by action and step."""
    found = {}
    for each in (await _page(desk))["actions"]:
        name = f"{each['action']} {each['step']}" if each["step"] else str(each["action"])
        waits = {"waits_until": each["waits_until"]} if each["waits_until"] else {}
        found[name] = {kind: each[kind] for kind in ("runs", "undoes") if each[kind]} | waits
    return found


async def _car_refused(desk: Desk) -> None:
    await desk.submit(TASK, TRIP)
    await desk.run()
    await desk.end("flight")
    await desk.end("hotel")
    await desk.end("car", error="none left")


async def test_refused_step_has_previews(desk: Desk) -> None:
    """A resubmission runs the rest; an undo goes back in the order of dispatch."""
    await _car_refused(desk)
    undoes = {"undoes": ["car", "flight"]}
    assert await _actions(desk) == {
        "resubmit": {"runs": ["car"]},
        "undo": undoes,
        "cancel": undoes,
        "rebuild car": {"runs": ["car"]},
        "done car": {},
    }
    states = {each["action"]: each["state"] for each in (await _page(desk))["actions"]}
    assert (states["resubmit"], states["done"]) == ("Pending", "Processed")


async def test_refused_undo_has_previews(desk: Desk) -> None:
    """A verdict continues the blocked undos."""
    await _car_refused(desk)
    await desk.act("undo")
    await desk.run()
    assert await _actions(desk) == {
        "None": {"undoes": ["car", "flight"]},
        "suspend": {"undoes": ["car", "flight"]},
    }
    await desk.end("car", error="too late")
    shown = await _actions(desk)
    assert "undo" not in shown
    assert shown["resubmit"] == {"undoes": ["car", "flight"]}
    assert shown["undone car"] == shown["leave car"] == {"undoes": ["flight"]}


async def test_question_has_previews(desk: Desk) -> None:
    """There is no resubmission before the answer."""
    await desk.in_question()
    assert (await _page(desk))["question"] == "pay: its outcome is unknown (None)"
    assert await _actions(desk) == {
        "undo": {},
        "cancel": {},
        "done pay": {"runs": ["mail"]},
        "not-done pay": {"runs": ["pay", "mail"]},
    }


async def test_cancelling_waits_for_a_step_that_must_not_be_repeated(desk: Desk) -> None:
    """Then the decision is shown, and it is not offered again."""
    await desk.submit(TASK, PAYING)
    await desk.run()
    waits = {"waits_until": desk.at(5)}
    assert (await _actions(desk))["cancel"] == waits
    await desk.change(Cancelled(by=Canceller.OPERATOR, who="ann", reason="no trip"))
    shown = await _page(desk)
    assert shown["decision"] == {"end": "cancelled", "who": "ann", "reason": "no trip", "is_derived": False}
    assert (shown["decision_at"], shown["state"]) == (desk.at(5), "Processing")
    assert await _actions(desk) == {"None": waits, "suspend": waits}


async def test_task_under_way_suspended_and_ended(desk: Desk) -> None:
    """An event can be sent as long as it counts; an undone task accepts nothing."""
    await desk.submit(TASK, BOOKING)
    runs = {"runs": ["room", "approve"]}
    assert await _actions(desk) == {"None": runs, "cancel": {}, "suspend": runs, "event approve": runs}
    await desk.change(Suspended(reason="closed", by_operator=True))
    assert await _actions(desk) == {"cancel": {}, "resume": runs, "event approve": runs}
    await desk.act("cancel")
    assert await _actions(desk) == {}


async def test_look_changes_nothing(desk: Desk) -> None:
    """Neither the record nor a row is written."""
    await desk.in_error()
    before = len(desk.table.transactions)
    await _page(desk)
    assert len(desk.table.transactions) == before


async def test_page_of_a_wide_task_does_not_block_the_process(desk: Desk) -> None:
    """Each of 89 refused steps has previews."""
    steps = [Step(f"s{number}", agent="a", request=request) for number in range(89)]
    wide = Workflow("wide", payload=Parcel, steps=steps)
    order = wide.new_order(TASK, "r1", "{}", START)
    refused = Operation(state=OperationState.REFUSED, number=1, error="no", start_id="x")
    records = {step.name: StepRecord(name=step.name, do=replace(refused, number=1)) for step in steps}
    record = TaskRecord(order=order, start_by=START, steps=records, error="s0: no", finished_at=START)
    calls = cProfile.Profile()
    shown = calls.runcall(lambda: list(previews(record, START, desk.process.settings)))
    assert sum(each.action == "done" for each in shown) == 89
    assert sum(each.callcount for each in calls.getstats()) < 900_000


class _WithCard(BaseModel):
    amount: int
    card: SecretStr


class _WithoutCard(BaseModel):
    amount: int


async def test_secret_of_a_child_is_hidden_beside_a_newer_version_without_it() -> None:
    """The newer version accepts the request, too: it ignores the field."""
    work = Step("work", request=request)
    versions: list[Workflow[Any]] = [
        Workflow("c", payload=_WithCard, steps=[work]),
        Workflow("c", payload=_WithoutCard, steps=[work], version=2),
    ]
    pay = WorkflowStep("pay", workflow="c", request=lambda *_: {"amount": 5, "card": "c4n4ry"})
    parent = Workflow("p", payload=Parcel, steps=[pay])
    desk = Desk(parent, versions[0])
    await desk.submit(TASK, parent, "{}")
    await desk.run()
    for registered in (versions[:1], versions):
        shown = await desk.redeployed(parent, *registered).get(f"/tasks/{TASK}/steps/pay/contents")
        assert (shown.status, "c4n4ry" in str(shown.json)) == (200, False)
