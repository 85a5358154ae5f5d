"""The input of an orchestrator function, its context, and its return value, its state.

The extension calls this the out-of-process protocol; SDK 1.7.0 uses its schema version 2. The state lists
all actions since the start of the generation, so the list only grows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from typing import Any

from functions_local.durable.contract import EngineOptions, Raised, Returned
from functions_local.durable.event_json import to_json
from functions_local.times import to_timespan

#: Maximum number of characters of a malformed state in an error text.
_SHOWN = 200
_FAILURE_MARK = "\n\n$OutOfProcData$:"


class ActionType(IntEnum):
    """The actions of an orchestrator, numbered as in the SDK."""

    CALL_ACTIVITY = 0
    CALL_ACTIVITY_WITH_RETRY = 1
    CALL_SUB_ORCHESTRATOR = 2
    CALL_SUB_ORCHESTRATOR_WITH_RETRY = 3
    #: Restart with a new input and an empty history.
    CONTINUE_AS_NEW = 4
    CREATE_TIMER = 5
    WAIT_FOR_EXTERNAL_EVENT = 6
    CALL_ENTITY = 7
    CALL_HTTP = 8
    SIGNAL_ENTITY = 9
    SCHEDULED_SIGNAL_ENTITY = 10
    WHEN_ANY = 11
    WHEN_ALL = 12


type Action = dict[str, Any]


class InvalidStateError(Exception):
    """An orchestrator function returned no valid state; another replay would return the same."""


@dataclass(frozen=True, slots=True)
class OrchestratorState:
    """The return value of one replay of an orchestrator function."""

    actions: list[Action]
    is_done: bool = False
    output: Any = None
    error: str | None = None
    custom_status: Any = None

    @classmethod
    def from_outcome(cls, outcome: Returned | Raised) -> OrchestratorState:
        """Read the worker's result; after an exception, the state follows a mark in the message.

        Raises InvalidStateError.
        """
        if isinstance(outcome, Returned):
            return cls._from_json(outcome.json or "")
        _, mark, text = outcome.message.partition(_FAILURE_MARK)
        if not mark:
            return cls(actions=[], error=outcome.message)
        return cls._from_json(text)

    @classmethod
    def _from_json(cls, text: str) -> OrchestratorState:
        try:
            body = json.loads(text)
            return cls(
                actions=list(body["actions"][0]) if body["actions"] else [],
                is_done=body.get("isDone", False),
                output=body.get("output"),
                error=body.get("error"),
                custom_status=body.get("customStatus"),
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InvalidStateError(
                "it did not return the state that an orchestrator of azure-functions-durable 1.x returns "
                f"({error!r}): {text[:_SHOWN]!r}"
            ) from error


class ContextWriter:
    """Writes contexts as JSON text by joining existing texts, without parsing a history."""

    def __init__(self, options: EngineOptions) -> None:
        settings = {
            "parentInstanceId": None,
            "upperSchemaVersion": 1,
            # 2 is V3 in SDK 1.7.0; without it the SDK returns an older form of action list.
            "upperSchemaVersionNew": 2,
            "longRunningTimerIntervalDuration": _timespan(options.long_timer_interval),
            "maximumShortTimerDuration": _timespan(options.maximum_short_timer),
            # The extension misspells the name.
            "defaultHttpAsyncRequestSleepTimeMillseconds": 30000,
        }
        self._settings = to_json(settings)[1:]

    def write(self, instance: str, input_text: str | None, old: Sequence[str], new: str) -> str:
        """Write the context of an episode; `old` and `new` are events as JSON, joined by commas."""
        input_text = "null" if input_text is None else input_text
        return (
            f'{{"history":[{",".join([*old, new])}],"input":{input_text},"instanceId":{to_json(instance)},'
            f'"isReplaying":{"true" if old else "false"},{self._settings}'
        )


def _timespan(duration: timedelta | None) -> str | None:
    return None if duration is None else to_timespan(duration)
