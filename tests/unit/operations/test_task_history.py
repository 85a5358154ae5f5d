"""One task whole: how it stands, and how it came there."""

from __future__ import annotations

from functions.pattern.events import MessageLost
from functions.pattern.identity import StepName, TaskId
from functions.pattern.rejected import About
from tests.fakes.tasks import SECOND, claimed
from tests.fakes.workflows import TASK
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
    assert answer.json["service_bus"] == {"messages": 7, "batches": 0}
    assert answer.json["table_storage"]["reads"] == 0
