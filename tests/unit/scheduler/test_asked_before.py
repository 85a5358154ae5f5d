"""A request that may have left is never taken for refused, whatever is deployed after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.agent_messages import done
from functions.pattern.definition import RequestMaker
from functions.pattern.states import ProcessState, StepState, Way
from functions.scheduler.takers import ReplyTaker
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import limits
from tests.fakes.tasks import claimed, pending, started, told
from tests.fakes.times import RecordedRefusals
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.test_parking import Deployed

ONCE = workflow(step("pay", idempotent=False, via=Way.QUEUE, complete_within=100), name="shop")


def _broken(_payload: object, _results: object) -> Any:
    raise KeyError("colour")


def _too_large(_payload: object, _results: object) -> Any:
    return {"text": "x" * 65_536}


async def _asked_and_redeployed(request: RequestMaker = _broken) -> Deployed:
    """Give a task whose request has left, and whose activity runs again with a defect in `request`."""
    bench = Deployed(ONCE, ONCE)
    await bench.run()
    bench.deploy(replace(ONCE, steps=(replace(ONCE.steps[0], request=request),)))
    await bench.run()
    return bench


async def test_payment_stays_running_when_its_definition_breaks_after_it_was_sent() -> None:
    """Its outcome is unknown: an operator answers before anything is sent again."""
    bench = await _asked_and_redeployed()
    assert len(bench.requests.sent) == 1
    assert bench.step("pay").state is StepState.RUNNING


async def test_reply_to_what_was_sent_before_the_defect_counts() -> None:
    """The Agent had the request, and answers in time."""
    bench = await _asked_and_redeployed()
    [(_, request)] = bench.requests.sent
    ports = fake_ports(store=bench.store, clock=bench.clock, rejected=RecordedRejections())
    reply = done(request, {"receipt": 1}).model_dump_json().encode()
    await ReplyTaker(ports, limits(), RecordedRefusals().alert).take("m", reply, RecordedSchedulers())
    assert bench.step("pay").state is StepState.COMPLETED


async def test_request_that_is_refused_when_sent_again_is_no_refusal() -> None:
    """It is too large by now; the first one was not."""
    bench = await _asked_and_redeployed(_too_large)
    assert len(bench.requests.sent) == 1
    assert bench.step("pay").state is StepState.RUNNING


@pytest.mark.parametrize("via", [Way.ACTIVITY, Way.QUEUE])
async def test_defect_after_a_deployment_holds_nothing_that_was_under_way(via: Way) -> None:
    """A step is taken up again under another shape of the same version: the next epoch parks the task."""
    flow = workflow(step("pick", via=via, complete_within=100), step("send", "pick"), name="shop")
    bench = Deployed(flow, flow)
    token = "t" * 16 if via is Way.QUEUE else None
    bench.store.put(told(pending(flow), claimed(), started("pick", complete_by=100, token=token)))
    bench.deploy(replace(flow, steps=(replace(flow.steps[0], request=_broken),)))
    await bench.run()
    assert bench.state is not ProcessState.ERROR, bench.store.record(TASK).task.last_error
