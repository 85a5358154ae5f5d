"""What this host replaces in the Durable SDK, in its own process: costly parts of a replay that never differ.

Each replacement gives the same value as the original, without making it again in every episode.
"""

from __future__ import annotations

import functools
import importlib
import sys
from datetime import datetime

_MODELS = "azure.durable_functions.models"


def speed_up_replays() -> None:
    """Make the SDK's replay cheaper, if the app uses the SDK.

    - It parses every timestamp of the history in every episode with dateutil: half of an orchestrator's
      running time. This host writes those timestamps itself, always as ISO 8601 with a `Z`, for which
      `datetime.fromisoformat` returns an equal, aware datetime.
    - In every episode it makes the class of the same named tuple, and parses the same two durations.
    """
    if "azure.durable_functions" not in sys.modules:
        return
    history = importlib.import_module(f"{_MODELS}.history.HistoryEvent")
    history.dt_parse = datetime.fromisoformat  # type: ignore[attr-defined]  # a name the SDK imported
    for module, name in (
        ("TaskOrchestrationExecutor", "namedtuple"),
        ("DurableOrchestrationContext", "parse_timespan_attrib"),
    ):
        used = importlib.import_module(f"{_MODELS}.{module}")
        setattr(used, name, functools.cache(getattr(used, name)))
