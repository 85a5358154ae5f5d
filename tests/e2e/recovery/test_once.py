"""A step that must not be repeated gets one call, whatever its service and its host do."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from local.platform import PartName
from tests.e2e.recovery.bench import APP, Bench, actions, bench_with, ends, step
from tests.e2e.recovery.remote import Behaviour, RemoteService
from tests.e2e.recovery.workflows import ONCE, STEPS

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run a platform whose payment is the scripted service, too."""
    async with RemoteService().serving() as remote:
        urls = {f"{name.upper()}_URL": f"{remote.url}/{name}" for name in (*STEPS, "payment")}
        settings = {"SUPERVISOR_SCHEDULE": "* * * * * *", "SKEW_SECONDS": "0.5", "STATE_SHARDS": "4", **urls}
        async with bench_with(remote, tmp_path_factory.mktemp("once"), settings, app=APP) as running:
            yield running


async def test_killed_host_calls_nothing_twice(bench: Bench) -> None:
    """Neither the activity, which runs again, nor the queue request, which is delivered again."""
    for name, workflow in ONCE.items():
        bench.remote.script(f"by-{name}/{name}/do", Behaviour.FORGETS)
        await bench.submit(f"by-{name}", workflow.resource)
    for name in ONCE:
        await bench.until_called(f"by-{name}/{name}/do")
    await bench.platform.kill(PartName.HOST)
    await bench.platform.start(PartName.HOST)
    for name in ONCE:
        await _settled(bench, f"by-{name}", name)


async def _settled(bench: Bench, task: str, name: str) -> None:
    """See the unknown outcome in `Error`, answer "done", and see the end with one call and one effect."""
    found = await bench.until_state(task, "Error")
    assert found["question"].startswith(f"{name}: its outcome is unknown (")
    assert step(found, name)["state"] == "Outcome unknown"
    assert "resubmit" not in actions(found)
    assert await bench.act(task, "resubmit") == 409
    assert await bench.act(task, f"steps/{name}/done", result={"receipt": "p-1"}) == 202
    found = await bench.until_state(task, "Processed")
    assert ends(found) == ["answered"]
    assert bench.remote.called(f"{task}/{name}/do") == 1
    assert bench.remote.effects(task) == [f"{name}/do", "c/do"]
