"""Steps that no Agent can carry out are refused at start, with the step's name and the fix."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from functions.agents.steps import check_agents
from functions.pattern.definition import Step
from functions.pattern.errors import DefinitionError
from functions.pattern.ports import Agent
from functions.pattern.states import Way
from tests.fakes.agent_requests import OneWayAgent
from tests.fakes.agents import ScriptedAgent
from tests.fakes.workflows import step, workflow


def _check(*steps: Step, agents: Mapping[str, Agent] | None = None) -> None:
    queues = {"submissions": 60.0, "agent-fly-requests": 15.0}
    check_agents([workflow(*steps, name="trips")], agents or {}, queues=queues, function_timeout=300)


def _refusal(*steps: Step, agents: Mapping[str, Agent] | None = None) -> str:
    with pytest.raises(DefinitionError) as refusal:
        _check(*steps, agents=agents)
    return str(refusal.value)


def test_undo_without_an_agent_that_can_is_named() -> None:
    """The definition promises what the Agent lacks."""
    text = _refusal(step("fly", undo=True), agents={"fly": OneWayAgent()})
    assert text == "workflow 'trips': step 'fly': it has undo, but its Agent 'fly' can't undo"


def test_step_without_an_agent_is_named() -> None:
    """Nobody could ever do it."""
    assert "step 'fly': no remote service is known for its Agent 'fly'" in _refusal(step("fly"))


def test_agent_behind_a_queue_may_be_served_elsewhere() -> None:
    """By another team's process, for one."""
    _check(step("fly", undo=True, via=Way.QUEUE))


def test_agents_that_can_are_taken() -> None:
    """With undo and without."""
    agents: dict[str, Agent] = {"fly": ScriptedAgent(), "sleep": OneWayAgent()}
    _check(step("fly", undo=True), step("sleep"), agents=agents)


def test_queue_that_does_not_exist_is_named_with_the_files_to_edit() -> None:
    """Every request to it would fail, for as long as the task has recoveries."""
    assert _refusal(step("fly", via=Way.QUEUE), step("sleep", via=Way.QUEUE)) == (
        "workflow 'trips': step 'sleep': there is no queue 'agent-sleep-requests' for its requests:"
        " add it to infra/queues.json, and to QUEUES in functions/messages/queues.py"
    )


def test_activity_ends_before_its_function_does() -> None:
    """The host would end it, and the process's other functions with it."""
    agents = {"fly": OneWayAgent()}
    _check(step("fly", complete_within=270), agents=agents)
    assert _refusal(step("fly", complete_within=270.5), agents=agents) == (
        "workflow 'trips': step 'fly': complete_within is 270.5 seconds, but an activity has 270"
        " (functionTimeout less 30): shorten it, or reach its Agent by Way.QUEUE"
    )


def test_step_behind_a_queue_may_take_days() -> None:
    """No function waits for it."""
    _check(step("fly", via=Way.QUEUE, complete_within=3 * 86_400))
