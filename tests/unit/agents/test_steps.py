"""Steps that no Agent can carry out are refused at start, with the step's name and the reason."""

from __future__ import annotations

import pytest

from functions.agents.steps import check_agents
from functions.pattern.errors import DefinitionError
from functions.pattern.states import Way
from tests.fakes.agent_requests import OneWayAgent
from tests.fakes.agents import ScriptedAgent
from tests.fakes.workflows import step, workflow


def test_undo_without_an_agent_that_can_is_named() -> None:
    """The definition promises what the Agent lacks."""
    with pytest.raises(DefinitionError) as refusal:
        check_agents([workflow(step("fly", undo=True), name="trips")], {"fly": OneWayAgent()})
    assert str(refusal.value) == "workflow 'trips': step 'fly': it has undo, but its Agent 'fly' can't undo"


def test_step_without_an_agent_is_named() -> None:
    """Nobody could ever do it."""
    with pytest.raises(DefinitionError, match=r"step 'fly': no remote service is known for its Agent 'fly'"):
        check_agents([workflow(step("fly"), name="trips")], {})


def test_agent_behind_a_queue_may_be_served_elsewhere() -> None:
    """By another team's process, for one."""
    check_agents([workflow(step("fly", undo=True, via=Way.QUEUE))], {})


def test_agents_that_can_are_taken() -> None:
    """With undo and without."""
    of = workflow(step("fly", undo=True), step("sleep"))
    check_agents([of], {"fly": ScriptedAgent(), "sleep": OneWayAgent()})
