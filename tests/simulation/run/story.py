"""Tells what happened in a run, and how to repeat it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from functions.pattern.step_definition import Step
from tests.simulation.faults.kinds import FaultPlan, SimulatedFault
from tests.simulation.run.verdict import Verdict

_MOST_LINES, _WIDTH = 400, 260


@dataclass(frozen=True, slots=True)
class Telling:
    """What is told: `always` the story, also when all is well; of one `task` only; all of it, `uncut`."""

    always: bool = False
    task: str | None = None
    uncut: bool = False

    def story(self, verdict: Verdict) -> Iterator[str]:
        """Give its lines: about the tasks in question, or about everything when nothing is violated."""
        violated = {each.order for each in verdict.violations if each.order is not None}
        tasks = violated if self.task is None else {self.task}
        lines = [*map(str, verdict.timeline.about(tasks) if tasks else verdict.timeline.moments)]
        if self.task is not None and not any(verdict.timeline.naming(tasks)):
            yield f"nothing names {self.task}: --task takes one of the tasks above"
            return
        if self.uncut:
            yield from lines
            return
        for line in lines[:_MOST_LINES]:
            yield line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
        if len(lines) > _MOST_LINES:
            yield f"… and {len(lines) - _MOST_LINES:,} more lines: --all tells them, --task those of one task"


def told(verdict: Verdict, without: Sequence[SimulatedFault], telling: Telling, *, calm: bool) -> str:
    """Tell what is wrong in a run, how to repeat it, and what befell the tasks in question."""
    repeat = f"make simulate SEED={verdict.seed}" + (" CALM=1" if calm else "")
    lines = [f"seed {verdict.seed} ({verdict.timeline.digest}): {repeat}"]
    lines += [f"  {each.invariant.number} {each.order}: {each.what}" for each in verdict.violations]
    if without:
        kinds = len(FaultPlan.drawn(verdict.seed).kinds)
        options = "".join(f" --without '{kind}'" for kind in without)
        lines.append(f"  so it is also without {len(without)} of its {kinds} kinds of faults:")
        lines.append(f"  python -m tests.simulation --seed {verdict.seed} --story{options}")
    if telling.always:
        lines += [*_drawn(verdict), *telling.story(verdict)]
    return "\n".join(lines)


def _drawn(verdict: Verdict) -> Iterator[str]:
    """Tell how the tasks have ended, and which steps the workflows have, by the numbers of their rows."""
    yield f"  tasks: {', '.join(f'{task} {state}' for task, state in sorted(verdict.states.items()))}"
    for workflow in verdict.workflows:
        steps = (_step(number, step) for number, step in enumerate(workflow.steps))
        yield f"  {workflow.name} {workflow.version}: {', '.join(steps)}"


def _step(number: int, step: Step) -> str:
    return f"{number:02} {step.name}" + (f" after {' '.join(step.needs)}" if step.needs else "")
