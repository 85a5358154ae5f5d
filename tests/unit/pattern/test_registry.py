"""The registry finds workflows, and lets settings change their limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.definition import Registry, Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.identity import StepName
from functions.pattern.states import Way
from tests.fakes.workflows import DIAMOND, LINE, step, timer, workflow


def test_workflows_are_found_by_name() -> None:
    """Each under its own, in their order; others are not there."""
    registry = Registry((DIAMOND, LINE), {})
    assert [each.name for each in registry] == ["diamond", "line"]
    assert registry.find("line") == LINE
    assert registry.find("circle") is None


def test_versions_of_a_workflow_are_told_apart() -> None:
    """New submissions take the newest, whatever the order in which they are registered."""
    newest = replace(LINE, version=3)
    registry = Registry((LINE, newest, DIAMOND, replace(LINE, version=2)), {})
    assert [(each.name, each.version) for each in registry.newest] == [("line", 3), ("diamond", 1)]
    assert registry.find("line") == newest
    assert registry.find("line", 1) == LINE
    assert registry.find("line", 4) is None
    assert len(list(registry)) == 4


def test_version_is_registered_once() -> None:
    """Two would be told apart by nothing."""
    with pytest.raises(DefinitionError, match="version 1 of workflow 'line' is there twice"):
        Registry((LINE, replace(LINE, steps=LINE.steps[:1])), {})


@pytest.mark.parametrize("version", [0, "2", 1.5, True])
def test_version_that_is_no_number_is_refused(version: Any) -> None:
    """It becomes a part of keys."""
    with pytest.raises(DefinitionError, match="version must be a whole number from 1 on"):
        replace(LINE, version=version)


def test_limit_of_one_step_can_be_set() -> None:
    """The others keep theirs."""
    line = Registry((DIAMOND, LINE), {"line.send": 1.5}).find("line")
    assert line is not None
    assert line.step(StepName("send")).complete_within == 1.5
    assert line.step(StepName("pick")).complete_within == 10


def test_limit_of_an_unknown_step_is_refused() -> None:
    """A misspelt setting would change nothing, unseen."""
    with pytest.raises(DefinitionError) as refusal:
        Registry((LINE,), {"line.sent": 1})
    assert str(refusal.value) == (
        "STEP_SECONDS names 'line.sent', which is no step with a complete_within;"
        " those are line.pick, line.send"
    )


def test_timer_has_no_limit_to_set() -> None:
    """The setting is named, and no other timer."""
    napping = workflow(step("pick"), timer("nap"), timer("rest"), name="nap")
    with pytest.raises(DefinitionError, match=r"^STEP_SECONDS names 'nap.rest', .* those are nap.pick$"):
        Registry((napping,), {"nap.rest": 1})


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (replace(LINE, name="diamond"), "two workflows have the name 'diamond' (resources parcels, lines)"),
        (replace(LINE, resource="parcels"), "workflows 'diamond' and 'line' have the resource 'parcels'"),
    ],
    ids=["name", "resource"],
)
def test_names_and_resources_belong_to_one_workflow(other: Workflow, text: str) -> None:
    """The developer sees which two share which."""
    with pytest.raises(DefinitionError) as refusal:
        Registry((DIAMOND, other), {})
    assert str(refusal.value) == f"{text}: rename one of them"


def test_agents_behind_queues_are_named() -> None:
    """Of all workflows, each once; those that are called by activities are not among them."""
    fly, pay = step("fly"), step("pay", via=Way.QUEUE)
    registry = Registry((workflow(fly, pay), workflow(pay, name="bills", resource="bills")), {})
    assert registry.queued_agents == {"pay"}
