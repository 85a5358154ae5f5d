"""The course of a seed: tasks run through faults, the faults stop, all tasks end; months, and retention."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from functions.core.derive import ProcessState, derive
from functions.core.record import TaskRecord
from tests.simulation.drawn import LATE, REPLY_DAYS, SLOW, STEADY, DrawnPayload, DrawnTask
from tests.simulation.host import Host
from tests.simulation.table import RETENTION
from tests.simulation.world import World

#: Seconds after the last fault within which every task ends, and rounds of operators' actions.
_BOUND, _ROUNDS = 6 * 3600, 80
#: Transactions of an order of five steps that is alone, with its reservation.
_MOST_TRANSACTIONS = 8
_DAY = 86400


async def run(world: World) -> None:
    """Draw tasks, run them through all faults, stop the faults, and check the end."""
    random = world.random
    world.definitions.draw()
    world.services.troubled.add(SLOW)
    world.hosts += [Host(world, name) for name in ("h1", "h2", "h3")[: random.randint(1, 3)]]
    world.spawn(world.supervise())
    world.people.start()
    await _pass(world, random.uniform(60, 400))
    await _stop_faults(world)
    await finish(world)
    if random.random() < 0.2:
        await _order_alone(world)
    if random.random() < 0.1:
        await _late_request(world)
    if random.random() < 0.1:
        await _months(world)
    if random.random() < 0.25:
        await _retention(world)
    _raise(world)


async def finish(world: World) -> None:
    """Check that all tasks end without further faults, resolve them as operators, and check the end."""
    await _until(world, _BOUND, _is_at_rest)
    if world.table.damaged:  # it delayed no other task
        world.require(_is_at_rest(world), "tasks wait for a corrupt row of another task")
        world.people.repair()
        await _until(world, _BOUND, _is_at_rest)
    _check_end(world)
    for _ in range(_ROUNDS):  # operators resolve every task
        stopped = [task for task, record in world.records.items() if record.error is not None]
        if not stopped:
            break
        for task in stopped:
            await world.people.operate(task, is_final=True)
        await _until(world, _BOUND, _is_at_rest)
    else:
        world.require(False, f"{stopped}: not resolved: {world.records[stopped[0]].error}")
    _check_end(world)


def _raise(world: World) -> None:
    if world.violation is not None:
        raise world.violation


def _check_end(world: World) -> None:
    world.checks.check_end(world.definitions.tasks)
    world.intake.check_end()
    world.table.check_rest()
    _raise(world)


async def _stop_faults(world: World) -> None:
    """Stop the faults, and let a full sweep repair the index. A corrupt row stays."""
    world.log("-- no more faults")
    world.is_faulty = False
    world.sweep_gap = (10, 30)
    for host in world.hosts:
        host.registry.missing.clear()
    if world.table.without_index:
        await _pass(world, 60)
        for _ in range(2):  # the first one continues at the cursors of an earlier one
            await world.sweep_table()
        world.table.without_index.clear()


async def _pass(world: World, seconds: float, *, gap: float = 8) -> None:
    await _until(world, seconds, lambda _: False, gap=gap)


async def _until(world: World, seconds: float, is_over: Callable[[World], bool], *, gap: float = 8) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        await asyncio.sleep(gap)
        _raise(world)
        if is_over(world):
            return
        if not world.is_faulty:
            for task, record in list(world.records.items()):
                if (
                    task not in world.table.damaged
                    and record.suspension is not None
                    and record.suspension.by_operator
                ):
                    await world.people.operate(task, is_final=True)


def _is_at_rest(world: World) -> bool:
    is_there, damaged = set(world.definitions.tasks) <= set(world.records), world.table.damaged
    has_ended = all(
        record.finished_at is not None for task, record in world.records.items() if task not in damaged
    )
    is_idle = not world.table.unsent and not any(world.services.in_flight.values())
    return is_there and has_ended and is_idle and not (world.people.recording and not damaged)


async def _order_alone(world: World) -> None:
    """Check the transactions and reads of an order of five steps that is alone on one host."""
    world.is_sweeping = False
    await _pass(world, 120)  # a sweep that is under way ends, and a host that crashed restarts
    hosts, world.hosts[1:] = world.hosts[1:], []
    world.table.requests.clear()
    record = await _submit(world, STEADY, "line", 100)
    requests = world.table.requests
    reads = [name for name in requests if name.startswith(f"read {STEADY}")]
    is_cheap = requests[f"write {STEADY}"] <= _MOST_TRANSACTIONS and not reads
    world.require(is_cheap, f"an order alone: {dict(requests)}")
    world.require(record.finished_at is not None, "an order alone has not ended")
    world.hosts += hosts
    world.is_sweeping = True


async def _late_request(world: World) -> None:
    """Check that a request that expires behind others in its queue counts no failure.

    The Supervisor examines it when younger requests are answered.
    """
    time, services = asyncio.get_running_loop().time(), world.services
    services.troubled.add(LATE)
    world.is_sweeping, services.slow[LATE] = False, (time, time + 120)
    for _ in range(15):
        world.spawn(services.serve_another(LATE))
    await _submit(world, f"{STEADY}-late", "late", 20)
    for _ in range(3):
        world.spawn(services.serve_another(LATE))
    await _pass(world, 110)
    world.is_sweeping = True
    await _until(world, 300, _is_at_rest)
    record = world.records[f"{STEADY}-late"]
    state = derive(record).state, record.failures
    world.require(state == (ProcessState.PROCESSED, 0), f"a late request: {state}")


async def _months(world: World) -> None:
    """Check that a reply after 29 days, an event after 50 and a timer of 31 days count.

    The queue of the request is sometimes missing until its run is lost, which may cost a recovery.
    """
    world.sweep_gap = (_DAY / 4, _DAY / 2)
    task = "months"
    missing = world.random.choice([0, 300])
    world.services.no_queue_until = asyncio.get_running_loop().time() + missing
    await _submit(world, task, "months", 60)
    await _pass(world, 10 * _DAY, gap=_DAY)
    world.crash(world.random.choice(world.hosts))
    await _pass(world, (REPLY_DAYS - 9) * _DAY, gap=_DAY)
    is_replied = world.records[task].do("reply").result is not None
    world.require(is_replied, f"{task}: a reply after {REPLY_DAYS} days does not count")
    await _pass(world, 20 * _DAY, gap=_DAY)
    await world.people.send_event(task, "event", 0)
    await _pass(world, 33 * _DAY, gap=_DAY)
    state, failures = derive(world.records[task]).state, world.records[task].failures
    is_right = state is ProcessState.PROCESSED and failures <= min(1, missing)
    world.require(is_right, f"{task}: {state}, {failures} recoveries")


async def _submit(world: World, task: str, workflow: str, seconds: float) -> TaskRecord:
    payload = DrawnPayload(task=task)
    drawn = DrawnTask(world.definitions.workflows[workflow], payload, frozenset(), reply_to=None)
    await world.intake.submit(task, drawn)
    await _pass(world, seconds)
    return world.records[task]


async def _retention(world: World) -> None:
    """Check that full sweeps with faults delete all finished tasks, and not an open one."""
    world.sweep_gap = (_DAY / 4, _DAY / 2)
    await _submit(world, "open", "months", 60)
    await _pass(world, RETENTION.total_seconds() + _DAY / 2, gap=_DAY / 2)
    world.log("-- retention")
    world.is_faulty = True
    for _ in range(6):
        await asyncio.sleep(60)
        await world.sweep_table()
    world.is_faulty = False
    for _ in range(4):
        await asyncio.sleep(timedelta(minutes=10).total_seconds())
        await world.sweep_table()
    world.intake.check_reservations()
    left = set(world.records) - world.table.deleted
    world.require(left == {"open"}, f"after the retention: {sorted(left)}")
    rows = [key for _, key in world.table.rows if not key.startswith("open|") and "|task" in key]
    world.require(not rows, f"after the retention: {rows[:3]}")
