"""Wrong replies harm nobody's neighbours, and say why where an operator looks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

import pytest

from functions.pattern.agent_messages import AgentRequest, done
from tests.e2e.agents.stand_in import ELSEWHERE, StandIn
from tests.e2e.agents.wrong_replies import REFUSED, RefusedReply, ignored
from tests.e2e.caller import ORDER
from tests.e2e.fleet.bench import running
from tests.e2e.recovery.bench import Bench, events

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

_EACH = 50
#: As in the product; the Supervisor sweeps each second.
_LIMITS = {"PICK_UP_SECONDS": "30", "SUPERVISOR_THRESHOLD": "3"}

type Wrong = Sequence[tuple[AgentRequest, RefusedReply]]


async def test_wrong_replies_say_why_and_harm_no_neighbour(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """50 good orders beside 50 with wrong replies of every kind, to which a right one comes later."""
    names = [f"{kind}-{number}" for number in range(_EACH) for kind in ("good", "bad")]
    async with running(tmp_path, ELSEWHERE | _LIMITS) as bench, StandIn.at(bench) as agent:
        for name in names:
            await bench.submit(name, "orders", ORDER)
        asked = [await agent.next_request() for _ in names]
        assert sorted(request.task_id for request in asked) == sorted(names)
        bad = [request for request in asked if request.task_id.startswith("bad")]
        wrong = list(zip(bad, islice(cycle(REFUSED), _EACH), strict=True))
        told = [each for request in bad for each in ignored(request)]
        refused = {request.task_id: reply.to(request) for request, reply in wrong}
        await agent.reply(*(refused.get(each.task_id) or done(each, {}) for each in asked))
        await agent.reply(*(reply for reply, _ in told))
        await _good_are_processed(bench)
        await _bad_say_why(bench, wrong)
        again, held = _parted(wrong)
        await agent.reply(*(done(request, {}) for request in again))
        for request in again:
            await _undisturbed(bench, request.task_id)
        for request in held:
            await _result_leads_on(bench, request.task_id)
        _alerts_come_once(bench)
        tokens = {request.token for request in asked}
        assert [alert for alert in bench.remote.alerts if any(each in str(alert) for each in tokens)] == []
    log = "".join(capfd.readouterr())
    for request, reply in wrong:
        about = (
            f"task {request.task_id}, step payment, Agent payment" if reply.names_its_task else "task unknown"
        )
        assert f"rejected ({about}): {reply.reason}" in log
    for _, why in told:
        [line] = [line for line in log.splitlines() if why in line]
        assert ("WARNING" in line) is ("token" in why)
    assert [token for token in tokens if token in log] == []


def _parted(wrong: Wrong) -> tuple[list[AgentRequest], list[AgentRequest]]:
    """Tell requests that still wait for a reply from those that are known to be carried out."""
    held = [request for request, reply in wrong if reply.tells_of_an_end]
    return [request for request, _ in wrong if request not in held], held


async def _result_leads_on(bench: Bench, task: str) -> None:
    """Only that: the step is known to be done."""
    assert await bench.act(task, "resubmit") == 409
    assert await bench.act(task, "steps/payment/not-done") == 409
    assert await bench.act(task, "steps/payment/done", result={"reference": "P-2047"}) == 202
    assert events(await bench.until_state(task, "Processed")) == ["submitted", "found done"]


async def _undisturbed(bench: Bench, task: str) -> None:
    found = await bench.until_state(task, "Processed")
    assert (found["epoch"], found["failure_count"], events(found)) == (1, 0, ["submitted"])


async def _good_are_processed(bench: Bench) -> None:
    for number in range(_EACH):
        await _undisturbed(bench, f"good-{number}")
        assert bench.remote.alerts_about(f"good-{number}") == []


async def _bad_say_why(bench: Bench, wrong: Wrong) -> None:
    """On the task's page; one that names no task, among the queue's rejected messages."""
    async with bench.session.get("/api/ops/rejected?queue=agent-replies") as answer:
        kept = (await answer.json())["messages"]
    assert len(kept) == _EACH
    for request, reply in wrong:
        found = await bench.look_at(request.task_id)
        assert found is not None
        if not reply.names_its_task:
            assert found["rejected"] == []
            assert any(each["task"] is None and each["reason"].startswith(reply.reason) for each in kept)
            continue
        [message] = found["rejected"]
        about = (message["task"], message["step"], message["agent"])
        assert about == (request.task_id, "payment", "payment")
        assert message["reason"].startswith(reply.reason)
        if reply.tells_of_an_end:
            assert found["state"] == "Error"
            reason = f"payment: it was done, but its result can't be recorded ({reply.reason}"
            assert found["last_error"].startswith(reason)
        else:
            assert (found["state"], found["last_error"]) == ("Processing", None)


def _alerts_come_once(bench: Bench) -> None:
    """For each Agent and kind of fault; a reply that could not be read was nobody's."""
    alerts = [alert for alert in bench.remote.alerts if alert["event"] == "reply refused"]
    told = Counter((alert["agent"], re.sub(r".*: ", "", alert["reason"])) for alert in alerts)
    assert set(told.values()) == {1}
    assert {agent for agent, _ in told} == {"payment", None}
