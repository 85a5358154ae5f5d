"""Plays the Durable host: replays an orchestrator on a history, through the real SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import azure.durable_functions as df

from functions.scheduler.orchestrator import run_task
from tests.fakes.workflows import TASK

_TIME = "2026-11-21T10:00:00.1234567Z"
#: Kinds of actions of the SDK.
_TIMER, _WAIT = 5, 6
_ATTEMPT = {"task": TASK, "epoch": 1}


def _event(kind: int, number: int = -1, **fields: Any) -> dict[str, Any]:
    return {"EventType": kind, "EventId": number, "IsPlayed": False, "Timestamp": _TIME, **fields}


@dataclass(slots=True)
class Instance:
    """One instance of the orchestrator `scheduler`.

    `scheduled` names the activities, a step's by the step, and the timers, in the order in which they were
    asked for; `awaited` names the events that are waited for.
    """

    scheduled: list[str] = field(default_factory=list)
    awaited: list[str] = field(default_factory=list)
    timers: list[dict[str, Any]] = field(default_factory=list)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    output: str | None = None
    _history: list[dict[str, Any]] = field(default_factory=list)

    def begin(self) -> list[str]:
        """Run the first episode, and name the activities that it asks for."""
        started = _event(0, Name="scheduler", Version="", Input=json.dumps(_ATTEMPT))
        started["OrchestrationInstance"] = {"InstanceId": f"{TASK}.1", "ExecutionId": "x"}
        return self._episode(started)

    def answer(self, activity: str, **result: Any) -> list[str]:
        """Let an activity end, and name those that are asked for next."""
        return self.answer_together({activity: result})

    def answer_together(self, results: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Let several activities end in one episode."""
        return self._episode(
            *(
                _event(5, TaskScheduledId=self.scheduled.index(activity), Result=json.dumps(result))
                for activity, result in results.items()
            )
        )

    def reply(self, event: str, **result: Any) -> list[str]:
        """Let an event be raised, as the client of the SDK raises it: with JSON text as its content."""
        return self._episode(_event(15, Name=event, Input=json.dumps(json.dumps(result))))

    def fire_timer(self) -> list[str]:
        """Let the timer's time come."""
        return self._episode(_event(11, TimerId=self.scheduled.index("timer"), FireAt=_TIME))

    def _episode(self, *news: dict[str, Any]) -> list[str]:
        self._history += [_event(12), *news]
        state = self._replay()
        actions = [action for batch in state["actions"] for action in _single(batch)]
        self.awaited = [each["externalEventName"] for each in actions if each["actionType"] == _WAIT]
        self.timers = [each for each in actions if each["actionType"] == _TIMER]
        actions = [each for each in actions if each["actionType"] != _WAIT]
        new = actions[len(self.scheduled) :]
        for number, action in enumerate(new, start=len(self.scheduled)):
            self._schedule(number, action)
        self._history.append(_event(13))
        self.output = state["output"] if state["isDone"] else None
        return self.scheduled[len(self.scheduled) - len(new) :]

    def _schedule(self, number: int, action: dict[str, Any]) -> None:
        if action["actionType"] == _TIMER:
            self._history.append(_event(10, number, FireAt=action["fireAt"]))
            self.scheduled.append("timer")
            return
        self._history.append(_event(4, number, Name=action["functionName"], Version="", Input=None))
        self.inputs.append(json.loads(action["input"]))
        self.scheduled.append(self.inputs[-1].get("step", action["functionName"]))

    def _replay(self) -> dict[str, Any]:
        context = {
            "history": self._history,
            "input": _ATTEMPT,
            "instanceId": f"{TASK}.1",
            "isReplaying": False,
            "parentInstanceId": None,
            "upperSchemaVersion": 1,
            "upperSchemaVersionNew": 2,
        }
        state: dict[str, Any] = json.loads(df.Orchestrator.create(run_task)(json.dumps(context)))
        return state


def _single(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take the single actions out of a list, in which `task_any` nests them."""
    found = []
    for action in actions:
        nested = action.get("compoundActions")
        found += [action] if nested is None else _single(nested)
    return found
