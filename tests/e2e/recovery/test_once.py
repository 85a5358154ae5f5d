"""A step that must not be repeated gets one call, whatever its service and its host do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import product
from typing import Any

import pytest
import pytest_asyncio

from local.platform import PartName
from tests.e2e.recovery.bench import APP, Bench, bench_with, events, step
from tests.e2e.recovery.remote import Behaviour, RemoteService
from tests.e2e.recovery.workflows import ONCE, STEPS

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

#: Both ways to a step, by the name of the step that must not be repeated.
each_way = pytest.mark.parametrize("name", ONCE)
_TIMES_OUT, _BREAKS_OFF = (Behaviour.TIMES_OUT,), (Behaviour.BREAKS_OFF,)
_HANGS_FIRST, _IS_LATE = (Behaviour.HANGS, Behaviour.ANSWERS), (Behaviour.IS_LATE,)
_FORGETS = (Behaviour.FORGETS,)
#: Tasks with these scripts are submitted together, so that their steps time out at the same time.
_FROM_THE_START = (_TIMES_OUT, _BREAKS_OFF, _HANGS_FIRST, _IS_LATE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run a platform whose payment is the scripted service, too."""
    async with RemoteService().serving() as remote:
        urls = {f"{name.upper()}_URL": f"{remote.url}/{name}" for name in (*STEPS, "payment")}
        settings = {
            "SUPERVISOR_SCHEDULE": "* * * * * *",
            "SKEW_SECONDS": "0.5",
            "STATE_SHARDS": "2",
            "AGENTS_PICK_UP_SECONDS": "3",
            **urls,
        }
        data = tmp_path_factory.mktemp("once")
        async with bench_with(remote, data, settings, app=APP) as running:
            for name, behaviours in product(ONCE, _FROM_THE_START):
                await _submit(running, name, behaviours)
            yield running


async def _submit(bench: Bench, name: str, behaviours: Sequence[Behaviour]) -> None:
    task = _task(name, behaviours)
    bench.remote.script(f"{task}/{name}/do", *behaviours)
    await bench.submit(task, ONCE[name].resource)


def _task(name: str, behaviours: Sequence[Behaviour]) -> str:
    return f"{name}-{'-'.join(each.name for each in behaviours)}"


async def _held(bench: Bench, task: str, name: str) -> dict[str, Any]:
    """See that the task is held with its reason, and takes no resubmission."""
    found = await bench.until_state(task, "Error")
    assert found["last_error"].startswith(f"{name}: its outcome is unknown, and it must not run twice")
    assert (step(found, name)["state"], found["prospects"]["resubmit"]) == ("Running", None)
    assert await bench.act(task, "resubmit") == 409
    assert bench.remote.called(f"{task}/{name}/do") == 1
    return found


async def _said_done(bench: Bench, task: str, name: str) -> None:
    """See that the operator's answer leads to the end, with one call and one effect."""
    assert await bench.act(task, f"steps/{name}/done", result={"receipt": "p-1"}) == 202
    found = await bench.until_state(task, "Processed")
    assert events(found) == ["submitted", "found done"]
    assert bench.remote.called(f"{task}/{name}/do") == 1
    assert bench.remote.effects(task) == [f"{name}/do", "c/do"]


@each_way
async def test_service_that_does_it_and_fails_to_say_so_gets_one_call(bench: Bench, name: str) -> None:
    """It answers 504, or hangs up; who finds that it was done says so, and the task goes on after it."""
    for fault, reason in ((_TIMES_OUT, f"({name} answered 504)"), (_BREAKS_OFF, "Error)")):
        task = _task(name, fault)
        found = await _held(bench, task, name)
        assert found["last_error"].endswith(reason)
        assert step(found, name)["attempts"] == 1
        await _said_done(bench, task, name)


@each_way
async def test_step_that_was_not_done_is_called_again_on_the_operators_word(bench: Bench, name: str) -> None:
    """There is one effect in the end."""
    task = _task(name, _HANGS_FIRST)
    await _held(bench, task, name)
    assert bench.remote.effects(task) == []
    assert await bench.act(task, f"steps/{name}/not-done") == 202
    found = await bench.until_state(task, "Processed")
    assert events(found) == ["submitted", "found not done"]
    assert bench.remote.effects(task) == [f"{name}/do", "c/do"]


async def test_service_that_answers_late_gets_one_call(bench: Bench) -> None:
    """Over both ways; nothing but complete-by cuts the call off."""
    for name in ONCE:
        task = _task(name, _IS_LATE)
        await bench.until_state(task, "Processed")
        assert bench.remote.called(f"{task}/{name}/do") == 1


async def test_killed_host_calls_nothing_twice(bench: Bench) -> None:
    """Neither the activity, which runs again, nor the queue request, which is delivered again."""
    tasks = {name: _task(name, _FORGETS) for name in ONCE}
    for name in ONCE:
        await _submit(bench, name, _FORGETS)
    async with asyncio.timeout(60):
        while not all(bench.remote.called(f"{task}/{name}/do") for name, task in tasks.items()):
            await asyncio.sleep(0.05)
    await bench.platform.kill(PartName.HOST)
    await bench.platform.start(PartName.HOST)
    for name, task in tasks.items():
        await _held(bench, task, name)
        await _said_done(bench, task, name)
