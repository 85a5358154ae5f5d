"""Plays the Durable host: replays an orchestrator on a history, through the real SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import azure.durable_functions as df

from functions.scheduler.orchestrator import run_task
from tests.fakes.workflows import TASK

_TIME = "2026-11-21T10:00:00.1234567Z"
#: Kinds of actions of the SDK.
_TIMER, _WAIT = 5, 6


def _event(kind: int, number: int = -1, **fields: Any) -> dict[str, Any]:
    return {"EventType": kind, "EventId": number, "IsPlayed": False, "Timestamp": _TIME, **fields}


@dataclass(slots=True)
class Instance:
    """One instance of the orchestrator `scheduler`, for a task whose steps `queued` are behind queues.

    `inputs` are those of the runs in the order in which they were asked for; `awaited` names the events that
    are waited for.
    """

    queued: tuple[str, ...] = ()
    awaited: list[str] = field(default_factory=list)
    timers: list[dict[str, Any]] = field(default_factory=list)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    output: str | None = None
    _history: list[dict[str, Any]] = field(default_factory=list)
    _scheduled: list[str] = field(default_factory=list)

    @property
    def events(self) -> int:
        """Count the events of the history, with the one that ends the instance."""
        return len(self._history) + (self.output is not None)

    def begin(self) -> list[int]:
        """Run the first episode, and give the numbers of the runs that it asks for."""
        started = _event(0, Name="scheduler", Version="", Input=json.dumps(self._input))
        started["OrchestrationInstance"] = {"InstanceId": f"{TASK}.1", "ExecutionId": "x"}
        return self._episode(started)

    def end(self, number: int, **progress: Any) -> list[int]:
        """Let a run end, and give the numbers of those that are asked for next."""
        return self.end_together({number: progress})

    def end_together(self, ended: Mapping[int, Mapping[str, Any]]) -> list[int]:
        """Let several runs end in one episode."""
        return self._episode(
            *(_event(5, TaskScheduledId=self._id_of(each), Result=_told(ended[each])) for each in ended)
        )

    def fail(self, number: int) -> list[int]:
        """Let the host end a run, as it does at its time limit."""
        failed = _event(6, TaskScheduledId=self._id_of(number), Reason="Timeout", Details="5 minutes")
        return self._episode(failed)

    def reply(self, event: str, **progress: Any) -> list[int]:
        """Let an event be raised, as the client of the SDK raises it: with JSON text as its content."""
        return self._episode(_event(15, Name=event, Input=json.dumps(_told(progress))))

    def fire_timer(self) -> list[int]:
        """Let the latest timer's time come."""
        latest = max(number for number, name in enumerate(self._scheduled) if name == "timer")
        return self._episode(_event(11, TimerId=latest, FireAt=_TIME))

    @property
    def _input(self) -> dict[str, Any]:
        return {"task": TASK, "epoch": 1, "queued": list(self.queued)}

    def _id_of(self, number: int) -> int:
        return self._scheduled.index(f"run {number}")

    def _episode(self, *news: dict[str, Any]) -> list[int]:
        self._history += [_event(12), *news]
        state = self._replay()
        actions = self._heard(state["actions"])
        self.awaited = [each["externalEventName"] for each in actions if each["actionType"] == _WAIT]
        self.timers = [each for each in actions if each["actionType"] == _TIMER]
        actions = [each for each in actions if each["actionType"] != _WAIT]
        known, begun = len(self._scheduled), len(self.inputs)
        for number, action in enumerate(actions[known:], start=known):
            self._schedule(number, action)
        self._history.append(_event(13))
        self.output = state["output"] if state["isDone"] else None
        return [each["number"] for each in self.inputs[begun:]]

    def _heard(self, batches: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Take what the host acts on: it awaits each action, and hears of the next when that has ended."""
        heard: list[dict[str, Any]] = []
        for action in (action for batch in batches for action in batch):
            numbers = len([each for each in heard if each["actionType"] != _WAIT])
            singles = _single([action])
            heard += singles
            if not any(self._has_ended(each, number) for each, number in _numbered(singles, numbers)):
                break
        return heard

    def _has_ended(self, action: dict[str, Any], number: int) -> bool:
        if action["actionType"] == _WAIT:
            return any(each.get("Name") == action["externalEventName"] for each in self._history)
        ended = (each.get("TaskScheduledId", each.get("TimerId")) for each in self._history)
        return action.get("isCanceled", False) or number in ended

    def _schedule(self, number: int, action: dict[str, Any]) -> None:
        if action["actionType"] == _TIMER:
            self._history.append(_event(10, number, FireAt=action["fireAt"]))
            self._scheduled.append("timer")
            return
        assert action["functionName"] == "run_steps"
        self._history.append(_event(4, number, Name="run_steps", Version="", Input=None))
        self.inputs.append(json.loads(action["input"]))
        self._scheduled.append(f"run {self.inputs[-1]['number']}")

    def _replay(self) -> dict[str, Any]:
        context = {
            "history": self._history,
            "input": self._input,
            "instanceId": f"{TASK}.1",
            "isReplaying": False,
            "parentInstanceId": None,
            "upperSchemaVersion": 1,
            "upperSchemaVersionNew": 2,
        }
        state: dict[str, Any] = json.loads(df.Orchestrator.create(run_task)(json.dumps(context)))
        return state


def _told(progress: Mapping[str, Any]) -> str:
    """Write how the task stands; what is not given is usual."""
    return json.dumps({"state": "Processing", "over": False, "runs": 0, "awaited": {}} | dict(progress))


def _numbered(singles: list[dict[str, Any]], first: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Give actions their numbers: the host counts runs and timers, in their order."""
    for each in singles:
        yield each, first
        first += each["actionType"] != _WAIT


def _single(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take the single actions out of a list, in which `task_any` nests them."""
    found = []
    for action in actions:
        nested = action.get("compoundActions")
        found += [action] if nested is None else _single(nested)
    return found
