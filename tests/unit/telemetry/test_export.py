"""Nothing is exported unless the settings say where to, and then nothing is imported or slowed for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest
from opentelemetry.trace import INVALID_SPAN

from functions.agents.endpoints import url_setting
from functions.pattern.definition import Json, Registry
from functions.pattern.identity import TaskId
from functions.pattern.ports import AgentCall
from functions.scheduler import activity_run, run_steps
from functions.telemetry import spans
from functions.telemetry.spans import call_span
from functions.workflows.registry import load_registrations
from tests.fakes.clock import FakeClock
from tests.fakes.runners import make_runs
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import pending
from tests.fakes.workflows import step, workflow

_ROOT = Path(__file__).parents[3]
_SETTINGS = {
    "StateStore": "UseDevelopmentStorage=true",
    "ServiceBusConnection": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=k;SharedAccessKey=a2V5",
    **{
        url_setting(step.agent): "https://service.example.com/things"
        for each in load_registrations()
        for step in each.workflow.steps
    },
}
#: Starts the application as the host does, but for the tables, and names what was imported for telemetry.
_START = """
import json, sys
from functions.wiring import Wiring
Wiring.prepare = lambda self: None
import function_app
function_app.app.get_functions()
heavy = ("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.instrumentation", "azure.monitor")
print(json.dumps(sorted(name for name in sys.modules if name.startswith(heavy))))
"""


def _imported(settings: dict[str, str]) -> list[str]:
    started = subprocess.run(
        [sys.executable, "-c", _START],
        cwd=_ROOT,
        env={**_SETTINGS, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    imported: list[str] = json.loads(started.stdout.splitlines()[-1])
    return imported


@pytest.mark.process
def test_sdk_is_not_imported_when_nothing_is_set() -> None:
    """Neither it nor an exporter: together they would cost each cold start more than a second."""
    assert _imported({}) == []


@pytest.mark.process
def test_each_place_brings_its_own_exporter() -> None:
    """With an OTLP endpoint, nothing of Azure's is imported; the endpoint need not be there."""
    imported = _imported({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})
    assert "opentelemetry.sdk.trace" in imported
    assert not [name for name in imported if name.startswith("azure.monitor")]


_PICK = workflow(step("pick"), name="pick")


class _Paying:
    """An Agent that does nothing but what telemetry sees of a call."""

    async def do(self, call: AgentCall) -> Json:
        with call_span("pick", "PUT") as span:
            span.answered(201)
        return {"task": call.task}


async def _calls(steps: int = 10) -> int:
    """Count the function calls that so many steps take, each of a task of its own."""
    clock = FakeClock()
    store = MemoryStateStore(clock)
    for number in range(steps):
        task = TaskId(f"t-{number}")
        store.put(pending(_PICK, task))
    runs = make_runs(store, {"pick": _Paying()}, Registry((_PICK,), {}), clock)
    counted = Counter[str]()
    sys.setprofile(lambda _frame, event, _argument: counted.update((event,)))
    try:
        for number in range(steps):
            await runs.run({"task": f"t-{number}", "epoch": 1, "number": 1, "share": False})
    finally:
        sys.setprofile(None)
    return counted["call"] + counted["c_call"]


async def test_step_is_not_slowed_when_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Telemetry is a small part even of a step in memory; a real one takes a hundred times as long.

    Calls are counted, because a busy machine says nothing by its timings.
    """
    await _calls()  # what is done once only
    with_it = await _calls()
    monkeypatch.setattr(spans, "span", lambda *_, **__: nullcontext(INVALID_SPAN))
    monkeypatch.setattr(run_steps, "run_steps_span", lambda *_: nullcontext(INVALID_SPAN))
    monkeypatch.setattr(activity_run, "step_span", lambda *_: nullcontext(INVALID_SPAN))
    assert with_it < await _calls() * 1.5
