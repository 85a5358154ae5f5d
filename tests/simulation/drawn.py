"""Workflows and tasks that a seed draws. Request functions are impure on purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from pydantic import BaseModel

from functions.core.definition.step_definition import (
    BaseStep,
    EventStep,
    QueueStep,
    Results,
    Step,
    TimerStep,
    WorkflowStep,
)
from functions.core.definition.workflow_definition import Workflow
from functions.core.record import StepType

#: Agents whose name begins with q are behind queues; those of `FENCING` belong to services that fence starts.
AGENTS = ("a0", "a1", "f0", "f1", "q0", "q1")
FENCING = frozenset({"f0", "f1", "q1"})
#: The Agent of the steps that never fail, and two behind queues: one replies after `REPLY_DAYS`, and one
#: falls behind.
STEADY, SLOW, LATE = "steady", "slow", "late"
REPLY_DAYS = 29
#: Characters of a text in payloads, requests and results, near the limit of 60,000 bytes in UTF-16.
_LARGE = 29_000


class DrawnPayload(BaseModel):
    """The payload of every drawn task."""

    task: str
    items: list[int] = []
    text: str = ""


class DrawnResult(BaseModel):
    """The result of a drawn step, and the body of its event."""

    n: str
    text: str = ""


class DrawnError(Exception):
    """An error that a drawn function raises."""


@dataclass(slots=True)
class DrawnTask:
    """A task: its workflow, its payload, and when its events are sent, in seconds."""

    workflow: Workflow[DrawnPayload]
    payload: DrawnPayload
    finders: frozenset[str]
    events: Mapping[str, float] = field(default_factory=dict)
    reply_to: str | None = "replies"


def gate_of(agent: str) -> str:
    """Return the name of the gate of an Agent."""
    return f"queue:{agent}" if agent.startswith("q") else agent


class Definitions:
    """Draws the workflows and tasks of a seed. `deployment` and `now` make request functions impure."""

    def __init__(self, random: Random, deployment: Callable[[], int], now: Callable[[], datetime]) -> None:
        self._random = random
        self._deployment = deployment
        self._now = now
        self.workflows: dict[str, Workflow[DrawnPayload]] = {}
        self.tasks: dict[str, DrawnTask] = {}

    def draw(self) -> None:
        """Draw child workflows, one to four workflows with a task each, and sometimes a crowded gate."""
        random = self._random
        few = [StepType.ACTIVITY, StepType.QUEUE]
        self.workflows["grandchild"] = self._workflow("grandchild", few)
        types = [*few, StepType.WORKFLOW] if random.random() < 0.3 else few
        self.workflows["child"] = self._workflow("child", types, child="grandchild")
        self._add_steady()
        text = "a" * _LARGE if random.random() < 0.04 else ""
        finders = frozenset(gate_of(agent) for agent in AGENTS if random.random() < 0.6)
        for number in range(random.randint(1, 4)):
            types = random.choice([few[:1], few, list(StepType), [*StepType, StepType.ACTIVITY]])
            workflow = self._workflow(f"w{number}", types)
            self.workflows[workflow.name] = workflow
            events = {
                spec.name: random.uniform(0, 200)
                for spec in workflow.specs
                if spec.type is StepType.EVENT and random.random() < 0.8
            }
            payload = DrawnPayload(task=f"t{number}", items=list(range(random.randint(0, 5))), text=text)
            self.tasks[f"t{number}"] = DrawnTask(workflow, payload, finders, events)
        for number in range(random.choice([0, 0, 0, 0, 6])):  # more tasks behind the same gates
            payload = DrawnPayload(task=f"m{number}", items=[1])
            self.tasks[f"m{number}"] = DrawnTask(self.tasks["t0"].workflow, payload, finders)
        if random.random() < 0.06:
            self._add_wide(finders, text)

    def _add_wide(self, finders: frozenset[str], text: str) -> None:
        """Add a task of 90 steps, or 89 with three Agents: items between two other steps."""
        steps: list[BaseStep[Any]] = []
        for name in ("s0", "s1", "s2"):
            is_each = name == "s1"
            steps.append(self._step(name, StepType.ACTIVITY, steps[-1:], is_each=is_each, child="child"))
        self.workflows["wide"] = Workflow(
            "wide", payload=DrawnPayload, steps=steps, on_failure="compensate", output=self._output()
        )
        agents = len({step.agent for step in self.workflows["wide"].specs})
        payload = DrawnPayload(task="wide", items=list(range(min(88, 90 - agents))), text=text)
        self.tasks["wide"] = DrawnTask(self.workflows["wide"], payload, finders)

    def _add_steady(self) -> None:
        """Add workflows whose steps never fail: five steps, one behind a queue, and some that take months.

        The last one has a payment behind a queue, and a chain of calls that is longer than a run.
        """
        line: list[BaseStep[Any]] = []
        for number in range(5):
            step = Step(
                f"s{number}", agent=STEADY, needs=line[-1:], request=self._request, complete_within=20
            )
            line.append(step)
        self.workflows["line"] = Workflow("line", payload=DrawnPayload, steps=line)
        late = QueueStep("late", agent=LATE, request=self._request, complete_within=40)
        self.workflows["late"] = Workflow("late", payload=DrawnPayload, steps=[late])
        month = 30 * 86400
        reply = QueueStep(
            "reply",
            agent=SLOW,
            request=self._request,
            result=DrawnResult,
            complete_within=month,
            idempotent=False,
        )
        event = EventStep("event", event=DrawnResult, complete_within=2 * month, on_timeout="keep")
        timer = TimerStep("timer", until=lambda *_: self._now() + timedelta(days=31), needs=[reply, event])
        last = Step("last", agent=STEADY, needs=[timer], request=self._request, complete_within=20)
        steps: list[BaseStep[Any]] = [reply, event, timer, last]
        for number in range(4):
            needs = steps[-1:] if number else []
            steps.append(
                Step(f"long{number}", agent=STEADY, needs=needs, request=self._request, complete_within=20)
            )
        self.workflows["months"] = Workflow("months", payload=DrawnPayload, steps=steps)

    def _workflow(self, name: str, types: list[StepType], *, child: str = "child") -> Workflow[DrawnPayload]:
        random = self._random
        steps: list[BaseStep[Any]] = []
        is_chain = random.random() < 0.4
        each = random.randint(0, 12)  # at most one step is for each item, so that a wide task fits
        for number in range(random.randint(1, 6)):
            needs = [step for step in steps if random.random() < 0.5]
            needs = steps[-1:] if is_chain else needs
            steps.append(
                self._step(f"s{number}", random.choice(types), needs, is_each=number == each, child=child)
            )
        policies = ["compensate", "compensate", "keep"]
        return Workflow(
            name,
            payload=DrawnPayload,
            steps=steps,
            on_failure=random.choice(policies),  # type: ignore[arg-type]
            on_exhausted=random.choice(policies),  # type: ignore[arg-type]
            cancel_within=300 if any(step.options.get("undo") for step in steps) else None,
            complete_within=random.choice([None, None, random.uniform(60, 400)]),
            output=self._output(),
        )

    def _output(self) -> Callable[[DrawnPayload, Results], dict[str, object]]:
        is_broken = self._random.random() < 0.05

        def output(payload: DrawnPayload, _results: Results) -> dict[str, object]:
            if is_broken:
                raise DrawnError("no output")
            return {"task": payload.task}

        return output

    def _step(
        self, name: str, step_type: StepType, needs: list[BaseStep[Any]], *, is_each: bool, child: str
    ) -> BaseStep[Any]:
        random = self._random
        seconds = random.choice([100, 600])
        policy = "continue" if random.random() < 0.15 else None
        when = (lambda *_: len(needs) != 1) if random.random() < 0.1 else None
        match step_type:
            case StepType.ACTIVITY | StepType.QUEUE:
                return self._agent_step(name, step_type, needs, policy=policy, when=when, is_each=is_each)
            case StepType.EVENT:
                timeouts: list[Any] = [policy, "compensate", "keep", {"n": "default"}]
                return EventStep(
                    name,
                    event=DrawnResult,
                    needs=needs,
                    when=when,
                    complete_within=seconds,
                    on_timeout=random.choice(timeouts) or "compensate",
                )
            case StepType.TIMER:
                wait = random.uniform(1, 100)
                return TimerStep(name, until=lambda *_: self._now() + timedelta(seconds=wait), needs=needs)
            case StepType.WORKFLOW:
                return WorkflowStep(
                    name,
                    workflow=child,
                    request=lambda payload, _: {"task": payload.task, "items": [1], "text": payload.text},
                    needs=needs,
                    when=when,
                    complete_within=seconds,
                    on_failure=policy,  # type: ignore[arg-type]
                )

    def _agent_step(
        self,
        name: str,
        step_type: StepType,
        needs: list[BaseStep[Any]],
        *,
        policy: str | None,
        when: Callable[..., bool] | None,
        is_each: bool,
    ) -> BaseStep[Any]:
        random = self._random
        is_queue = step_type is StepType.QUEUE
        undo = random.random() < 0.7
        own_undo = random.random() < 0.5
        options: dict[str, Any] = {
            "needs": needs,
            "when": when,
            "agent": f"{'q' if is_queue else random.choice('aaf')}{random.randint(0, 1)}",
            "complete_within": random.choice([30, 40] if is_queue else [10, 20]),
            "idempotent": random.random() >= 0.3,
            "undo": (self._undo if own_undo else True) if undo else False,
            "on_failure": policy,
            "request": self._request,
            "result": DrawnResult,
        }
        if is_each:
            options |= {"for_each": lambda payload: payload.items, "at_once": random.choice([2, 16])}
        return QueueStep(name, **options) if is_queue else Step(name, **options)

    def _request(
        self, payload: DrawnPayload, _results: Results, item: int | None = None
    ) -> dict[str, object]:
        """Return another request after each deployment: a recorded request must not depend on it."""
        made = self._deployment()
        text = "ü" * len(payload.text)  # larger in UTF-8 than a payload may be
        return {"task": payload.task, "item": item, "made": made, "text": text}

    def _undo(
        self, payload: DrawnPayload, _results: Results, own: DrawnResult | None, item: int | None = None
    ) -> dict[str, object]:
        own_number = None if own is None else own.n
        return {"task": payload.task, "item": item, "own": own_number, "made": self._deployment()}
