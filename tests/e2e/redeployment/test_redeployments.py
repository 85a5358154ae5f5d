"""Tasks are in flight, at every step, when a host is killed and deployed with changed definitions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from functions.pattern.messages import SUBMISSIONS_QUEUE, SubmissionMessage
from local.platform.parts import PartName
from tests.e2e.caller import rows
from tests.e2e.recovery.bench import Bench, bench_with, events
from tests.e2e.recovery.remote import Behaviour, RemoteService
from tests.e2e.redeployment.definitions import AGENTS, CASES, Case, Deployment, Treatment

pytestmark = [pytest.mark.process, pytest.mark.timeout(1_200)]

_APP = Path(__file__).parent / "app"
#: Longer than a request is waited for that was lost with its host: until its complete-by, 340 s.
_PATIENCE = 420
#: The call that hangs while the host is killed; "" for none.
_HELD_AT = ("send/undo", "send/do", "payment/do", "label/do", "pick/do", "")

#: An order that comes while its workflow is not deployed.
_LATE = "comes-late"
_SUBMITTED = {"payload": {"weight": 3}, "submitter": "tester", "submitted_at": "2026-11-22T12:00:00Z"}

type Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Flight:
    """One task, and where it is held."""

    task: str
    case: Case
    held_at: str

    @property
    def is_turned(self) -> bool:
        """Tell whether its service has refused it before the change."""
        return self.held_at.endswith("/undo")

    def script(self, remote: RemoteService) -> None:
        """Have its services hold it."""
        if self.is_turned:
            remote.script(f"{self.task}/send/do", Behaviour.REFUSES)
        if self.held_at:
            remote.script(f"{self.task}/{self.held_at}", Behaviour.HANGS)

    def let_go(self, remote: RemoteService) -> None:
        """Have its services answer from now on."""
        if self.held_at:
            remote.script(f"{self.task}/{self.held_at}", Behaviour.ANSWERS)


FLIGHTS = {
    flight.task: flight
    for held_at in _HELD_AT
    for case in CASES
    for flight in [Flight(f"{case.workflow}-{held_at.replace('/', '-')}", case, held_at)]
}


@asynccontextmanager
async def _bench(folder: Path) -> AsyncIterator[Bench]:
    """Run the application as it was before."""
    async with RemoteService().serving() as remote:
        urls = {f"{agent.upper()}_URL": f"{remote.url}/{agent}" for agent in AGENTS}
        settings = {
            **urls,
            "PRINTER_URL": f"{remote.url}/printer/label",
            "PAYMENT_URL": f"{remote.url}/payment",
            "DEPLOYMENT": str(_say(folder, Deployment.BEFORE)),
            "SUPERVISOR_SCHEDULE": "* * * * * *",
            "SUPERVISOR_THRESHOLD": "100",
            "BREAKER_FAILURES": "100000",
            "STATE_SHARDS": "2",
        }
        async with bench_with(remote, folder / "data", settings, app=_APP) as bench:
            yield bench


def _say(folder: Path, deployment: Deployment) -> Path:
    file = folder / "deployment"
    file.write_text(deployment, encoding="utf-8")
    return file


async def _deploy(bench: Bench, folder: Path, deployment: Deployment) -> dict[str, Row]:
    """Kill the host and start it anew; give the tasks as the killed one left them."""
    await bench.platform.kill(PartName.HOST)
    left = await _tasks(bench)
    _say(folder, deployment)
    await bench.platform.start(PartName.HOST)
    return left


async def _tasks(bench: Bench) -> dict[str, Row]:
    found = await asyncio.to_thread(rows, bench.platform, "Tasks", "ProcessState ne ''")
    own = [row for row in found if row["RowKey"].endswith("|task")]
    return {row["OrderID"]: row for row in own if row["OrderID"] in FLIGHTS}


async def _until_all(bench: Bench, wanted: Callable[[Row], bool]) -> dict[str, Row]:
    """Wait until a condition holds for every task."""
    found: dict[str, Row] = {}
    try:
        async with asyncio.timeout(_PATIENCE):
            while len(found := await _tasks(bench)) < len(FLIGHTS) or not all(map(wanted, found.values())):
                await asyncio.sleep(1)
    except TimeoutError:
        left = [row for row in found.values() if not wanted(row)]
        raise AssertionError(f"{len(found)} tasks, {len(left)} not there yet: {left[:3]}") from None
    return found


async def _take_off(bench: Bench) -> None:
    """Submit all tasks, and wait until each step that is to hold one does so."""
    for flight in FLIGHTS.values():
        flight.script(bench.remote)
        await bench.submit(flight.task, flight.case.workflow)
    for flight in FLIGHTS.values():
        if flight.held_at:
            await bench.until_called(f"{flight.task}/{flight.held_at}")
    await _until_all(bench, lambda _: True)


def _is_at_rest(row: Row) -> bool:
    return bool(row.get("ParkedFor")) or row["ProcessState"] not in {"Pending", "Processing"}


def _check(found: Mapping[str, Row]) -> list[str]:
    """See that nothing is in `Error`, and nothing undone that was not before; name what is parked."""
    parked = [task for task, row in found.items() if row.get("ParkedFor")]
    for task, row in found.items():
        turned = FLIGHTS[task].is_turned
        assert row["Direction"] == ("undo" if turned else "do"), row
        if task not in parked:
            assert row["ProcessState"] == ("Compensated" if turned else "Processed"), row
    return parked


async def _until_swept(bench: Bench, times: int) -> None:
    """Let the Supervisor sweep some times more."""
    seen: set[str] = set()
    async with asyncio.timeout(_PATIENCE):
        while len(seen) <= times:
            overview = await _overview(bench)
            seen.add(overview["supervisor"]["finished_at"])
            await asyncio.sleep(0.2)


async def _overview(bench: Bench) -> dict[str, Any]:
    async with bench.session.get("/api/ops/overview") as answer:
        assert answer.status == 200
        found: dict[str, Any] = await answer.json()
        return found


async def test_no_task_is_undone_or_held_by_a_deployment(tmp_path: Path) -> None:
    """What lacks something is parked at no cost, told once, and goes on; each effect is there in the end."""
    async with _bench(tmp_path) as bench:
        await _take_off(bench)
        for flight in FLIGHTS.values():
            flight.let_go(bench.remote)
        left = await _deploy(bench, tmp_path, Deployment.CHANGED)
        parked = _check(await _until_all(bench, _is_at_rest))
        assert {FLIGHTS[task].case for task in parked} == {case for case in CASES if case.parks}
        await _check_waiting(bench, parked, left)
        await _submit_as_before(bench)
        await _deploy(bench, tmp_path, Deployment.RIGHT)
        found = await _until_all(bench, lambda row: _is_at_rest(row) and not row.get("ParkedFor"))
        assert _check(found) == []
        await bench.until_state(_LATE, "Processed")
        for task, flight in FLIGHTS.items():
            _check_effects(bench.remote, flight)
            if task in parked:
                assert "released" in events(await bench.until(task, bool))


async def _check_waiting(bench: Bench, parked: list[str], left: Mapping[str, Row]) -> None:
    """See that the parked ones cost no recovery, nor a write while they wait, and one alert each."""
    await bench.until_empty("operator-alerts")
    await _until_swept(bench, 1)  # what was sent is marked by then
    before = await _tasks(bench)
    await _until_swept(bench, 5)
    now = await _tasks(bench)
    for task in parked:
        row, case = now[task], FLIGHTS[task].case
        assert row == before[task]
        assert (row["ProcessState"], row.get("LockedBy")) == ("Pending", None)
        assert row["FailureCount"] == left[task]["FailureCount"]
        if case.treatment is Treatment.DROPPED:
            assert row["LastError"] == f"version 1 of '{case.workflow}' is not deployed here"
        [alert] = bench.remote.alerts_about(task)
        assert alert["reason"] == row["LastError"]
    needed = {
        each["workflow"]: (each["version"], each["deployed"], each["parked"])
        for each in (await _overview(bench))["versions"]
        if each["parked"]
    }
    counts = Counter(FLIGHTS[task].case for task in parked)
    assert needed == {
        case.workflow: (1, case.treatment is not Treatment.DROPPED, count) for case, count in counts.items()
    }


async def _submit_as_before(bench: Bench) -> None:
    """Send an order as a host of the old kind does; the workflow is not here, so it is put back."""
    gone = next(case.before for case in CASES if case.changed is None)
    message = SubmissionMessage.model_validate(
        {**_SUBMITTED, "task_id": _LATE, "workflow": gone.name, "version": gone.version}
    )
    connection = bench.platform.addresses.service_bus_connection
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_sender(SUBMISSIONS_QUEUE) as sender,
    ):
        await sender.send_messages(ServiceBusMessage(message.written, message_id=message.message_id))
    await _until_swept(bench, 3)
    assert await bench.look_at(_LATE) is None
    assert await asyncio.to_thread(rows, bench.platform, "Rejected") == []


def _check_effects(remote: RemoteService, flight: Flight) -> None:
    """See that all is done that the task was submitted with, and by nobody else."""
    done = remote.effects(flight.task)
    steps = ["label/do", "payment/do", "pick/do"]
    if flight.is_turned:
        assert sorted(done[:3]) == steps
        assert done[3:] == ["send/undo", "payment/undo", "pick/undo"]
    else:
        assert (sorted(done[:3]), done[3:]) == (steps, ["send/do"])
    assert not [call for call in remote.calls if call.effect.startswith(flight.task) and call.prefix]
