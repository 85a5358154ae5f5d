"""The JSON text that an orchestrator function is given: history, input and the protocol's settings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from functions_local.durable.event_json import to_json
from functions_local.durable.instances import LiveInstance
from functions_local.durable.options import EngineOptions
from functions_local.durable.timestamps import to_timespan


class ContextWriter:
    """Writes contexts by joining texts that exist already; a history is never parsed and written again."""

    def __init__(self, options: EngineOptions) -> None:
        settings = {
            "parentInstanceId": None,
            "upperSchemaVersion": 1,
            # 2 is what SDK 1.7.0 calls V3; without it the SDK falls back to an older action list.
            "upperSchemaVersionNew": 2,
            "longRunningTimerIntervalDuration": _timespan(options.long_timer_interval),
            "maximumShortTimerDuration": _timespan(options.maximum_short_timer),
            # The misspelt name is the extension's.
            "defaultHttpAsyncRequestSleepTimeMillseconds": 30000,
        }
        self._settings = to_json(settings)[1:]

    def write(self, instance: LiveInstance, old: Sequence[str], new: str) -> str:
        """Write the context of an episode; `old` and `new` are events as JSON, joined by commas."""
        input_text = "null" if instance.input is None else instance.input
        return (
            f'{{"history":[{",".join([*old, new])}],"input":{input_text},"instanceId":{to_json(instance.id)},'
            f'"isReplaying":{"true" if old else "false"},{self._settings}'
        )


def _timespan(duration: timedelta | None) -> str | None:
    return None if duration is None else to_timespan(duration)
