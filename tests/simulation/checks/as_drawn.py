"""I6, order, and I16, unharmed: what steps were sent, gave and came to, against what was drawn for them."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from functions.pattern.definition import Workflow
from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.violations import Invariant, Violation
from tests.simulation.drawn.load import DrawnOrder, expected_steps


def with_children(orders: Sequence[DrawnOrder], evidence: Evidence, child: Workflow) -> dict[str, DrawnOrder]:
    """Give all orders by their tasks, also those of tasks that are steps: these have the same payload."""
    drawn = {order.id: order for order in orders}
    for effect, task in evidence.children.items():
        drawn[task] = replace(drawn[effect.partition(".")[0]], id=task, workflow=child)
    return drawn


def requests(drawn: Mapping[str, DrawnOrder], evidence: Evidence) -> Iterator[Violation]:
    """Find requests that are not of their order, their item, and all steps that come before."""
    for call in evidence.ledger.calls:
        if call.is_undo or call.task not in drawn:
            continue
        item = call.step.rpartition("/")[2].partition(".")[2]
        expected = {
            "items": drawn[call.task].payload["items"],
            "after": sorted(evidence.steps.before(call.step_name)),
            **({"item": int(item)} if item else {}),
        }
        if (sent := json.loads(call.body)) != expected:
            what = f"{call.key} was sent {sent}, and was to be sent {expected}"
            yield Violation(Invariant.ORDER, call.task, what)


def results(evidence: Evidence) -> Iterator[Violation]:
    """Find results on record that are not what their services answered; an operator's opens an epoch."""
    for task, birth in evidence.births.items():
        for change in evidence.step_changes.get(task, ()):
            name = change.after["Name"]
            is_new = change.after.get("State") == "Completed" != change.before.get("State")
            is_given = (task, name) in evidence.given or change.opens_epoch
            if not is_new or is_given or evidence.steps.step(name).via.waits:
                continue
            result = b64decode(change.after.get("Result", ""))
            if result not in evidence.ledger.answers[f"{task}.{birth}/{name}"]:
                yield Violation(Invariant.ORDER, task, f"{name} has the result {result!r}")


def steps(drawn: Mapping[str, DrawnOrder], evidence: Evidence) -> Iterator[Violation]:
    """Find steps of processed tasks that did not end as was drawn, where nothing else befell them."""
    for task, order in drawn.items():
        rows = evidence.tasks.get(task)
        if rows is None or rows.task is None or rows.task.state != "Processed":
            continue
        if evidence.versions[task] != order.workflow.version:
            continue
        expected, found = expected_steps(order), {step.name: step.state for step in rows.steps}
        for name in sorted(expected.keys() | found.keys()):
            if found.get(name) != expected.get(name):
                what = f"{name} is {found.get(name)}, and was to be {expected.get(name)}"
                yield Violation(Invariant.UNHARMED, task, what)
