"""The page of a task: its history, notices, contents, trace, and the preview of each action."""

from __future__ import annotations

import cProfile
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from pydantic import ConfigDict

from functions.operations.tasks.prospects import prospects
from functions.pattern.definition import Registry, Workflow
from functions.pattern.events import Cancelled, GivenUp, MessageLost
from functions.pattern.identity import StepName, TaskId
from functions.pattern.records import SentAnnouncement, TaskRecord
from functions.pattern.rejected import About
from functions.pattern.states import AlertCause, AnnouncementKind, ProcessState, Remedy, StepState
from tests.fakes.interventions import cancellation
from tests.fakes.purchases import PURCHASES, Confirmation, purchase
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import DIAMOND, LINE, TASK, trip, workflow
from tests.fakes.workflows import step as a_step
from tests.unit.api.samples import problem
from tests.unit.operations.conftest import Desk, in_error, processed


async def test_task_is_shown_as_it_stands(desk: Desk) -> None:
    """Who holds it, which way it goes, its steps; but not what the order holds or services answered."""
    desk.holds(in_error())
    shown = (await desk.get(f"/tasks/{TASK}")).json
    assert (shown["state"], shown["direction"], shown["epoch"]) == ("Error", "do", 1)
    assert (shown["locked_by"], shown["last_error"]) == (None, "send: no money")
    assert [(step["name"], step["state"], step["error"]) for step in shown["steps"]] == [
        ("pick", "Completed", None),
        ("send", "Failed", "no money"),
    ]
    assert not {"payload", "result", "weight"} & (shown.keys() | shown["steps"][0].keys())


async def test_history_tells_who_ended_each_epoch_and_why(desk: Desk) -> None:
    """From the submission on; each epoch with its steps as they stood when it ended."""
    desk.holds(in_error())
    await desk.act("resubmit")
    await desk.store.change(TASK, claimed(SECOND))
    shown = (await desk.get(f"/tasks/{TASK}")).json
    assert (shown["state"], shown["epoch"], shown["locked_by"]) == ("Processing", 2, "task-1.2")
    assert [(step["name"], step["state"]) for step in shown["steps"]] == [
        ("pick", "Completed"),
        ("send", "NotStarted"),
    ]
    submitted, resubmitted = shown["history"]
    assert (submitted["event"], submitted["who"], submitted["epoch"]) == ("submitted", "tester", 1)
    assert (resubmitted["event"], resubmitted["epoch"], resubmitted["state"]) == ("resubmitted", 1, "Error")
    assert (resubmitted["who"], resubmitted["reason"]) == ("operator", "the service is back")
    assert (submitted["last_error"], resubmitted["last_error"]) == (None, "send: no money")
    assert "Z" in resubmitted["at"]


async def test_task_without_past_has_its_submission_only(desk: Desk) -> None:
    """Its one epoch is the current one."""
    desk.holds(processed())
    shown = (await desk.get(f"/tasks/{TASK}")).json
    assert [entry["event"] for entry in shown["history"]] == ["submitted"]
    assert shown["finished_at"] is not None


async def test_messages_that_were_lost_are_shown(desk: Desk) -> None:
    """With their queue and the reason, beside the task that they were about."""
    desk.holds(processed())
    await desk.store.change(TASK, MessageLost(queue="notices-demo", message_id="m-1", reason="TTL"))
    [lost] = (await desk.get(f"/tasks/{TASK}")).json["lost_messages"]
    assert (lost["queue"], lost["message_id"], lost["reason"]) == (
        "notices-demo",
        "m-1",
        "TTL",
    )


async def test_messages_that_were_rejected_are_shown_with_the_reason(desk: Desk) -> None:
    """Those that name the task, and nothing of what is in them: a reply holds a token."""
    desk.holds(processed())
    about = About(task=TASK, step=StepName("pick"), agent="picker")
    for name, named in (("m-1", about), ("m-2", About(task=TaskId("task-2")))):
        await desk.rejected.reject(
            "agent-replies", name, b'{"token":"s3cret-token-of-it"}', "why", about=named
        )
    answer = await desk.get(f"/tasks/{TASK}")
    [line] = answer.json["rejected"]
    assert (line["message_id"], line["step"], line["agent"], line["reason"]) == (
        "m-1",
        "pick",
        "picker",
        "why",
    )
    assert "s3cret" not in str(answer.json)


async def test_unknown_task_is_not_found(desk: Desk) -> None:
    """404; a name that no task can have is refused."""
    problem(await desk.get("/tasks/task-9"), 404)
    problem(await desk.get("/tasks/a%7Cb"), 422)


async def test_figures_are_shown(desk: Desk) -> None:
    """What this instance has asked of its services."""
    desk.bus_figures.messages = 7
    answer = await desk.get("/figures")
    assert answer.json["service_bus"] == {"messages": 7}
    assert answer.json["table_storage"]["reads"] == 0


async def test_notices_are_shown_in_the_order_of_sending(desk: Desk) -> None:
    """With the time that was recorded when they were sent."""
    sent = (
        SentAnnouncement(
            kind=AnnouncementKind.ALERT,
            epoch=FIRST,
            sent_at=after(8),
            cause=AlertCause.NOTED,
            step=StepName("pay"),
        ),
        SentAnnouncement(kind=AnnouncementKind.RECEIVED, epoch=FIRST, sent_at=after(1)),
        SentAnnouncement(kind=AnnouncementKind.FAILED, epoch=SECOND, sent_at=after(9)),
    )
    record = in_error()
    desk.holds(replace(record, task=replace(record.task, sent=sent)))
    none = {"cause": None, "step": None}
    noted = {"cause": "noted", "step": "pay"}
    assert (await desk.get(f"/tasks/{TASK}")).json["notices"] == [
        {"kind": "received", "epoch": 1, "sent_at": "2026-11-21T10:00:01.123456Z"} | none,
        {"kind": "alert", "epoch": 1, "sent_at": "2026-11-21T10:00:08.123456Z"} | noted,
        {"kind": "failed", "epoch": 2, "sent_at": "2026-11-21T10:00:09.123456Z"} | none,
    ]


async def test_what_is_not_sent_yet_is_not_shown(desk: Desk) -> None:
    """The history says what should have been sent; only the record of sending says what was."""
    desk.holds(in_error())
    assert (await desk.get(f"/tasks/{TASK}")).json["notices"] == []


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


OF_SECRETS = "its workflow has secret fields, and no model declares those of a request."


async def test_payload_is_shown(purchases: Desk) -> None:
    """A member to a line."""
    answer = await purchases.get(f"/tasks/{TASK}/contents")
    assert json.loads(answer.json["payload"]["text"])["card"] == {"number": "(hidden)", "holder": "Ann"}
    assert (answer.json["payload"]["more"], answer.json["payload"]["why"]) == (False, None)


async def test_steps_show_what_there_is(purchases: Desk) -> None:
    """A request where an Agent was asked, or why it is not shown, and a result where there is one."""
    paid = await _step(purchases, "pay")
    assert paid["request"] == OF_SECRETS
    assert (json.loads(paid["result"] or ""), paid["undo_request"]) == ({"receipt": "R-1"}, None)
    awaited = await _step(purchases, "confirm")
    assert (awaited["request"], awaited["undo_request"], awaited["result"]) == (None, None, None)
    assert "properties" in json.loads(awaited["event"])
    assert paid["event"] is None
    assert (await _step(purchases, "ship"))["request"] == "It is made when the step begins."


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


async def test_undone_step_shows_the_request_of_its_undo() -> None:
    """Beside that of its do, where it is another."""
    of = workflow(replace(a_step("pick", undo=True), undo_request=lambda *_: {"refund": 5}))
    desk = Desk(registry=Registry((of,), {}))
    begun = (claimed(), started("pick"), completed("pick"), cancellation(by_operator=True), claimed(SECOND))
    desk.holds(told(pending(of), *begun, started("pick", SECOND)))
    shown = await _step(desk, "pick")
    assert json.loads(shown["undo_request"] or "") == {"refund": 5}
    assert "refund" not in (shown["request"] or "")


async def test_long_text_is_cut() -> None:
    """It is told that there is more; what could turn a line around is not in it."""
    desk = Desk()
    long = json.dumps({"n": [*range(3_000)], "deep": [[[[[[[[[0]]]]]]]]] * 200, "text": "\u202e"}).encode()
    begun = (claimed(), started("pick"), completed("pick", result=long))
    desk.holds(told(pending(LINE), *begun))
    shown = (await desk.get(f"/tasks/{TASK}/steps/pick/contents")).json["result"]
    assert (len(shown["text"]), shown["more"]) == (64 * 1024, True)
    assert "\u202e" not in shown["text"]


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("template", "url"),
    [("https://t.example/{trace_id}/all", f"https://t.example/{TRACE}/all"), (None, None)],
)
async def test_task_names_the_trace_of_its_order(template: str | None, url: str | None) -> None:
    """By its id, and by an address where traces are shown."""
    desk = Desk(trace_url_template=template)
    record = pending(LINE)
    desk.holds(replace(record, order=replace(record.order, traceparent=TRACEPARENT)))
    shown = (await desk.get(f"/tasks/{TASK}")).json
    assert (shown["trace_id"], shown["trace_url"]) == (TRACE, url)


async def test_task_without_a_trace_names_none(desk: Desk) -> None:
    """Tracing was off when its order came."""
    desk.holds(pending(LINE))
    shown = (await desk.get(f"/tasks/{TASK}")).json
    assert (shown["trace_id"], shown["trace_url"]) == (None, None)


_GIVEN_UP = GivenUp(epoch=FIRST, reason="still overdue", hold=True, start_by=after(99))


async def _prospects(desk: Desk, record: TaskRecord) -> Any:
    desk.holds(record)
    return (await desk.get(f"/tasks/{TASK}")).json["prospects"]


def _runs(*steps: str) -> dict[str, Any]:
    return {"runs": [*steps], "undoes": [], "waits_until": None}


def _undoes(*steps: str, waits_until: datetime | None = None) -> dict[str, Any]:
    return {"runs": [], "undoes": [*steps], "waits_until": waits_until and _written(waits_until)}


def _only(by_itself: dict[str, Any], *, park: bool = False) -> dict[str, Any]:
    none = dict.fromkeys(("resubmit", "undo", "cancel", "unpark", "question"))
    return {"by_itself": by_itself, **none, "park": park, "answers": [], "skips": [], "events": []}


def _written(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _refused(workflow: Workflow) -> TaskRecord:
    """Refuse the last of three steps; each began a second after the one before."""
    record = told(pending(workflow), claimed())
    for number, step in enumerate(("flight", "hotel", "car")):
        record = told(record, started(step), now=after(number))
        last = failed(step) if step == "car" else completed(step)
        record = told(record, last, now=after(number))
    return record


async def test_resubmission_runs_what_is_not_done(desk: Desk) -> None:
    """And leaves what is; nothing is undone."""
    shown = await _prospects(desk, _refused(trip(remedy=Remedy.HOLD)))
    assert shown["resubmit"] == _runs("car")


async def test_undo_goes_back_in_the_order_of_dispatch(desk: Desk) -> None:
    """Also what failed, for its outcome is not known; but not what can't be undone."""
    shown = await _prospects(desk, _refused(trip(remedy=Remedy.HOLD)))
    assert shown["undo"] == shown["cancel"] == _undoes("car", "flight")


async def test_resubmission_of_an_undo_goes_on_undoing(desk: Desk) -> None:
    """What is undone is not undone again."""
    record = told(
        _refused(trip()),
        claimed(SECOND),
        started("car", SECOND),
        completed("car", SECOND),
        started("flight", SECOND),
        failed("flight", SECOND),
    )
    shown = await _prospects(desk, record)
    assert shown["resubmit"] == shown["undo"] == _undoes("flight")


async def test_nothing_is_resubmitted_while_an_outcome_is_unknown(desk: Desk) -> None:
    """It was begun, nobody knows what came of it: that is asked first."""
    workflow = trip(remedy=Remedy.HOLD, hotel_idempotent=False)
    begun = told(pending(workflow), claimed(), started("flight"), completed("flight"), started("hotel"))
    desk.clock.advance(50)
    shown = await _prospects(desk, told(begun, _GIVEN_UP, now=desk.clock.now()))
    assert shown["resubmit"] is None
    assert shown["undo"]["undoes"] == ["flight"]
    assert shown["question"] == "hotel: its outcome is unknown, and it must not run twice"
    assert shown["answers"] == [{"step": "hotel", "done": _runs("car"), "not_done": _runs("hotel", "car")}]


@pytest.mark.parametrize(
    ("record", "by_itself"),
    [(pending(LINE), _runs("pick", "send")), (processed(), None)],
    ids=["under way", "processed"],
)
async def test_task_that_is_not_in_error_can_only_be_cancelled(
    desk: Desk, record: TaskRecord, by_itself: Any
) -> None:
    """Here, nothing has to be undone for that."""
    assert await _prospects(desk, record) == {
        "by_itself": by_itself,
        "resubmit": None,
        "undo": None,
        "cancel": _undoes(),
        "park": by_itself is not None,
        "unpark": None,
        "skips": [],
        "events": [],
        "question": None,
        "answers": [],
    }


async def test_cancelling_waits_for_what_must_not_be_repeated(desk: Desk) -> None:
    """Once that is decided, it is shown with who and why, and what follows; it is not offered again."""
    workflow = trip(hotel_idempotent=False)
    record = told(pending(workflow), claimed(), started("flight"), completed("flight"), started("hotel"))
    shown = await _prospects(desk, record)
    assert shown["cancel"] == _undoes("flight", waits_until=after(20))
    assert (shown["question"], shown["answers"]) == (None, [])  # its Agent may answer yet
    cancelled = told(record, Cancelled(who="ann", reason="no trip", by_operator=True, start_by=after(30)))
    desk.holds(cancelled)
    shown = (await desk.get(f"/tasks/{TASK}")).json
    assert shown["prospects"] == _only(_undoes("flight", waits_until=after(20)))
    assert shown["state"] == "Processing"
    assert shown["decision"] == {
        "ended_by": "cancelled",
        "who": "ann",
        "reason": "no trip",
        "until": _written(after(20)),
    }


async def test_hold_waits_for_what_must_not_be_repeated(desk: Desk) -> None:
    """Then nothing is run or undone by itself; to cancel is still possible."""
    workflow = trip(remedy=Remedy.HOLD, hotel_idempotent=False)
    record = told(pending(workflow), claimed(), started("flight"), started("hotel"), failed("flight"))
    assert record.task.decision is not None
    shown = await _prospects(desk, record)
    assert shown["by_itself"] == _undoes(waits_until=after(20))
    assert shown["cancel"] == _undoes("flight", waits_until=after(20))


async def test_task_that_is_being_undone_takes_no_action(desk: Desk) -> None:
    """It can't be undone twice, and not be done again; what is still to be undone is told."""
    assert await _prospects(desk, _refused(trip())) == _only(_undoes("car", "flight"), park=True)


async def test_nothing_follows_when_all_is_undone(desk: Desk) -> None:
    """An undo is final."""
    record = told(pending(LINE), Cancelled(who="ann", reason="no", by_operator=True, start_by=after(30)))
    assert await _prospects(desk, record) is None


async def test_looking_changes_nothing(desk: Desk) -> None:
    """What would follow is tried on a copy."""
    desk.holds(in_error())
    before = await desk.store.load(TASK)
    await desk.get(f"/tasks/{TASK}")
    assert await desk.store.load(TASK) == before


async def test_graph_is_told_by_what_steps_need(desk: Desk) -> None:
    """As the task was recorded: no workflow of that name need be registered."""
    record = pending(DIAMOND)
    desk.holds(replace(record, order=replace(record.order, workflow="gone")))
    assert (await desk.get(f"/tasks/{TASK}")).json["needs"] == {
        "open": [],
        "left": ["open"],
        "right": ["open"],
        "close": ["left", "right"],
    }


def test_page_of_a_wide_task_does_not_block_the_process() -> None:
    """A fan-out whose service is gone: each of its items could be skipped, and none is cut in each trial."""
    brief, long = _calls_to_look_at("no"), _calls_to_look_at("refused " * 100)
    assert long < 1.2 * brief < 600_000


def _calls_to_look_at(error: str) -> int:
    """Count the calls of functions that it takes to show 89 steps which failed with `error`."""
    wide = workflow(*(a_step(f"s{number}") for number in range(89)), name="wide")
    record = told(pending(wide), claimed(), *(started(f"s{number}") for number in range(89)))
    steps = tuple(replace(each, state=StepState.FAILED, error=error) for each in record.steps)
    task = replace(
        record.task, process_state=ProcessState.ERROR, locked_by=None, finished_at=after(0), last_error="no"
    )
    calls = cProfile.Profile()
    shown = calls.runcall(prospects, replace(record, task=task, steps=steps), after(1))
    assert shown is not None
    assert len(shown.skips) == 89
    return sum(each.callcount for each in calls.getstats())


def test_question_is_told_whole() -> None:
    """However much was said: what an operator has to find out may stand at its end."""
    held = in_error()
    unrecorded = replace(held.steps[1], state=StepState.UNRECORDED, error="its result is too large " * 30)
    shown = prospects(held.with_step(unrecorded), after(1))
    assert shown is not None
    assert shown.question == f"send: {unrecorded.error}"
