"""A reply that is refused says why, where somebody looks; what it tells of its step's end is not lost."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import AsyncMock

import pytest

from functions.messages.reading import FaultAt
from functions.pattern.definition import Workflow
from functions.pattern.errors import TransientError, UnreadableError
from functions.pattern.identity import StepName, TaskId
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.rejected import About
from functions.pattern.shared_rows import Occasion
from functions.pattern.states import ProcessState, Remedy, StepState, Way
from functions.pattern.transitions import apply
from tests.fakes.interventions import found_done, found_not_done, resubmission
from tests.fakes.tasks import FIRST, SECOND, claimed, failed, started, told
from tests.fakes.workflows import LINE, TASK, step, workflow
from tests.unit.scheduler.bench import over
from tests.unit.scheduler.test_replies import PICK, TOKEN, ReplyBench

RIGHT: dict[str, Any] = {
    "schema_version": 1,
    "task_id": TASK,
    "step": PICK,
    "epoch": FIRST,
    "token": TOKEN,
    "outcome": "completed",
}
PICKED_BY = LINE.steps[0].agent
ABOUT = About(task=TASK, step=PICK, agent=PICKED_BY)
UNDONE_IF_REFUSED = workflow(step("pick", via=Way.QUEUE, undo=True), name="undone", remedy=Remedy.COMPENSATE)
NAN = json.dumps(RIGHT | {"result": {"amount": 0}}).replace(": 0}", ": NaN}")

WRONG = {
    "misspelt": (RIGHT | {"reslut": {}}, "reslut: Extra inputs are not permitted"),
    "number as text": (RIGHT | {"epoch": "1"}, "epoch: Input should be a valid integer"),
    "no version": (
        {name: value for name, value in RIGHT.items() if name != "schema_version"},
        "schema_version: Field required",
    ),
    "refused with a result": (
        RIGHT | {"outcome": "failed", "result": {"a": 1}},
        "result: not beside the outcome 'failed'",
    ),
    "done with an error": (RIGHT | {"error": "slow"}, "error: not beside the outcome 'completed'"),
}
#: Only the result is wrong.
UNUSABLE = {
    "NaN": (NAN, "not a finite number"),
    "number": (NAN.replace("NaN", "1" + "0" * 400), "not a finite number"),
    "digits": (NAN.replace("NaN", "9" * 5_000), "not JSON (number out of range at line 1 column 4452)"),
    "deep": (NAN.replace("NaN", "[" * 110 + "]" * 110), "nested deeper than 100 levels"),
    "deeper": (
        NAN.replace("NaN", "[" * 1_100 + "]" * 1_100),
        "not JSON (recursion limit exceeded at line 1 column 350)",
    ),
    "half a character": (
        NAN.replace("NaN", '"\\ud83d"'),
        "not JSON (unexpected end of hex escape at line 1 column 158)",
    ),
    "no object": (json.dumps(RIGHT | {"result": [1]}), "result: Input should be an object"),
    "large": (
        json.dumps(RIGHT | {"result": {"text": "x" * 25_000}}),
        "result: has 25011 bytes; at most 24576 can be sent",
    ),
}


async def _take(bench: ReplyBench, body: str | dict[str, Any], message_id: str = "m-1") -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    await bench.taker.take(message_id, text.encode(), bench.schedulers)


@pytest.mark.parametrize(("body", "reason"), WRONG.values(), ids=WRONG)
async def test_refused_reply_is_told_with_the_reason(
    caplog: pytest.LogCaptureFixture, body: dict[str, Any], reason: str
) -> None:
    """In `Rejected`, in the log and in an alert, with task, step and Agent; its task is not changed."""
    bench = ReplyBench()
    writes = bench.store.writes
    await _take(bench, body)
    assert [(each.message_id, each.reason) for each in bench.rejections.all] == [("m-1", reason)]
    assert bench.rejections.about == [ABOUT]
    assert bench.refusals.alerts == [(ABOUT, reason)]
    where = f"(task {TASK}, step pick, Agent {PICKED_BY})"
    assert f"agent-replies: message m-1 rejected {where}: {reason}" in caplog.messages
    assert TOKEN not in caplog.text
    assert (bench.store.writes, bench.state, bench.schedulers.woken) == (writes, StepState.RUNNING, [])


async def test_a_fault_of_one_kind_is_alerted_once_an_hour() -> None:
    """Of each Agent; whatever is wrong in which field. Its sign of life is the other time that is kept."""
    bench = ReplyBench()
    for number in range(50):
        await _take(bench, RIGHT | {f"field-{number}": 1}, f"m-{number}")
    assert (len(bench.rejections.all), len(bench.refusals.alerts), bench.times.asked) == (50, 1, 2)
    await _take(bench, RIGHT | {"epoch": "1"})
    await _take(bench, RIGHT | {"task_id": "elsewhere", "more": 1})
    assert [about.agent for about, _ in bench.refusals.alerts] == [PICKED_BY, PICKED_BY, None]
    bench.clock.advance(3_601)
    await _take(bench, RIGHT | {"more": 1})
    assert len(bench.refusals.alerts) == 4
    # Another instance that has alerted is enough for its hour.
    bench, other = ReplyBench(), ReplyBench()
    other.times.kept = bench.times.kept
    await _take(bench, "{")
    for minutes in (59, 2, 58):
        other.clock.advance(minutes * 60)
        await _take(other, "{")
    assert (len(bench.refusals.alerts), len(other.refusals.alerts)) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "is_heard"),
    [
        ({}, True),
        ({"token": 7}, True),
        ({"token": "a-token-that-was-guessed"}, False),
        ({"token": TOKEN + "\ud83d"}, False),
        ({"step": "fly"}, False),
    ],
    ids=["right", "no token", "forged", "half a character", "no such step"],
)
async def test_agent_whose_replies_are_refused_is_not_silent(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *, is_heard: bool
) -> None:
    """A misspelt field is no silence, whatever this process remembers of the task."""
    bench = ReplyBench()
    monkeypatch.setattr(bench.store, "known", AsyncMock(return_value=None))
    await _take(bench, RIGHT | {"reslut": {}} | changes)
    assert (PICKED_BY in await bench.times.latest(Occasion.REPLIED)) is is_heard


async def test_name_of_a_field_in_a_reason_is_bounded() -> None:
    """To 64 bytes, without characters that can't be shown, and so is the place of a fault."""
    bench = ReplyBench()
    await _take(bench, RIGHT | {"\n" + "x" * 1_000: 1})
    [kept] = bench.rejections.all
    assert kept.reason == f" {'x' * 60}…: Extra inputs are not permitted"
    assert len(str(FaultAt(("x" * 60,) * 10, "kind", "text")).encode()) == len("text") + 2 + 256


async def test_alert_that_could_not_be_noted_comes_with_the_next_delivery() -> None:
    """The message is given back."""
    bench = ReplyBench()
    bench.times.failing = True
    with pytest.raises(TransientError):
        await _take(bench, "{")
    bench.times.failing = False
    await _take(bench, "{")
    assert len(bench.refusals.alerts) == 1
    # Task that cannot be read keeps no refusal from being told.
    bench = ReplyBench()
    bench.store.failure = UnreadableError("task-1|task", "damaged")
    await _take(bench, RIGHT | {"more": 1})
    assert bench.rejections.about == [About(task=TASK, step=PICK)]
    # A reply that is encoded twice is rejected with this reason.
    bench = ReplyBench()
    await _take(bench, json.dumps(json.dumps(RIGHT)))
    assert [each.reason for each in bench.rejections.all] == ["a JSON text, not an object"]


@pytest.mark.parametrize(
    ("named", "about"),
    [
        ({"step": "fly"}, About(task=TASK, step=StepName("fly"))),
        ({"step": 7}, About(task=TASK)),
        ({"task_id": "not a task", "step": "pick"}, About(step=PICK)),
        ({"task_id": f"{TASK}\n", "step": "pick\n"}, About()),
        ({"task_id": TaskId("gone")}, About(task=TaskId("gone"), step=PICK)),
    ],
    ids=["no such step", "no name", "no id", "line ends", "no such task"],
)
async def test_what_a_refused_reply_names_is_kept_as_far_as_it_is_known(
    named: dict[str, Any], about: About
) -> None:
    """No Agent is blamed on a stranger's word."""
    bench = ReplyBench()
    await _take(bench, RIGHT | {"more": 1} | named)
    assert bench.rejections.about == [about]


@pytest.mark.parametrize(("body", "reason"), UNUSABLE.values(), ids=UNUSABLE)
@pytest.mark.parametrize("of", [LINE, UNDONE_IF_REFUSED], ids=["hold", "compensate"])
async def test_task_whose_result_cannot_be_recorded_is_held(of: Workflow, body: str, reason: str) -> None:
    """Whatever its remedy: the step is known to be done. Only its result leads on, or an undo."""
    bench = ReplyBench(of)
    await _take(bench, body)
    assert [each.reason for each in bench.rejections.all] == [reason]
    held, now = bench.store.record(TASK), bench.clock.now()
    assert (held.task.process_state, bench.state) == (ProcessState.ERROR, StepState.UNRECORDED)
    expected = f"pick: it was done, but its result can't be recorded ({reason})"
    assert held.task.last_error == expected
    assert bench.schedulers.woken == [(TASK, FIRST, PICK, over("Error"))]
    for event in (resubmission(), found_not_done("pick")):
        assert apply(held, event, now) == Refused(RefusalReason.KNOWN_DONE)
    assert told(held, found_done("pick"), now=now).step(PICK).state is StepState.COMPLETED


@pytest.mark.parametrize(
    "changes",
    [
        {"token": "a-token-that-was-guessed"},
        {"epoch": "1"},
        {"outcome": "failed"},
        {"more": 1},
    ],
    ids=["token", "epoch", "refused", "more"],
)
async def test_result_that_cannot_be_recorded_does_not_excuse_what_else_is_wrong(
    changes: dict[str, Any],
) -> None:
    """Nothing is written, and the message is kept."""
    bench = ReplyBench()
    await _take(bench, json.dumps(RIGHT | changes | {"result": {"amount": 0}}).replace(": 0}", ": NaN}"))
    assert (bench.state, len(bench.rejections.all)) == (StepState.RUNNING, 1)


@pytest.mark.parametrize(
    "body", [NAN, json.dumps(RIGHT | {"no_result": "cut off"})], ids=["NaN", "no result"]
)
async def test_undo_that_another_process_began_needs_no_result(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This one remembers the task from before; by the token it sees that there is news."""
    bench, undo_token = ReplyBench(UNDONE_IF_REFUSED), "token-of-the-undo"
    before = told(bench.store.record(TASK), failed("pick", token=TOKEN), claimed(SECOND))
    bench.store.put(told(before, started("pick", SECOND, token=undo_token)))
    monkeypatch.setattr(bench.store, "known", AsyncMock(return_value=before))
    await _take(bench, body.replace(TOKEN, undo_token).replace('"epoch": 1', '"epoch": 2'))
    assert bench.state is StepState.UNDONE
