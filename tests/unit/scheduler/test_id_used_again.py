"""An id that is used again after retention is another task, though this process remembers the first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from functions.pattern.definition import Registry
from functions.pattern.states import ProcessState
from functions.scheduler.progress import RunInput
from functions.scheduler.run_steps import RunSteps
from functions.store.state_store import TableStateStore
from tests.fakes.agents import ScriptedAgent
from tests.fakes.announcer import RecordingAnnouncer
from tests.fakes.ports import fake_ports
from tests.fakes.runners import limits
from tests.fakes.tasks import pending
from tests.fakes.workflows import LINE, TASK, step, workflow
from tests.unit.scheduler.written import Process
from tests.unit.store.rows import MemoryRows

OTHER = replace(workflow(step("pick"), step("fly", "pick"), name="other"), resource="others")


async def test_task_of_another_workflow_under_a_known_id_runs_its_own_steps() -> None:
    """What is remembered says which workflow it is; what is read says something else."""
    process = Process(LINE)
    store = TableStateStore(cast("Any", process.rows), process.writer, RecordingAnnouncer())
    agents = ScriptedAgent()
    names = {each.agent: agents for of in (LINE, OTHER) for each in of.steps}
    ports = fake_ports(store=store, clock=process.clock)
    runs = RunSteps(ports, names, Registry((LINE, OTHER), {}), limits())
    given = RunInput(task=TASK, epoch=1, number=1, share=False)
    await runs.run(given)
    assert agents.steps == ["pick", "send"]
    # Retention deletes it; another process admits another order under its id.
    process.rows.entities.clear()
    process.rows.entities.update(MemoryRows(pending(OTHER)).entities)
    process.rows._versions = {key: f"new-{key}" for key in process.rows.entities}
    await runs.run(given)
    assert process.record.task.process_state is ProcessState.PROCESSED
    assert agents.steps == ["pick", "send", "pick", "fly"]
