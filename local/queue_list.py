"""Writes the queues for Bicep and for Microsoft's Service Bus emulator: `python -m local.queue_list`.

They follow from the workflows' definitions and `functions/messaging/queue_names.py`.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import timedelta
from pathlib import Path

from isodate import duration_isoformat

from functions.core.record import StepType
from functions.messaging.queue_names import all_queues, properties_of
from functions.workflow import DefinitionError, Json
from functions.workflows.registry import load_registrations
from local.platform import ROOT

_QUEUES, _ROLES = ROOT / "infra/queues.json", ROOT / "infra/roles.json"
_EMULATOR = ROOT / "local/emulator/config.json"
_AGENTS_OF_BOTH_WAYS = re.compile(r'(?<="agentsOfBothWays": )\[.*\]')


def files() -> dict[Path, str]:
    """Return the generated files with their texts. Raises `DefinitionError`."""
    versions = [version for each in load_registrations() for version in each.versions]
    ways = {(spec.type, spec.agent) for version in versions for spec in version.specs}
    queued = {agent for way, agent in ways if way is StepType.QUEUE}
    both = sorted(agent for agent in queued if (StepType.ACTIVITY, agent) in ways)
    queues = all_queues(queued)
    listed = {"queues": [{"name": name, "properties": _properties(name)} for name in queues]}
    emulated = [{"Name": name, "Properties": _emulated(name)} for name in queues]
    namespace = {"Name": "sbemulatorns", "Queues": emulated, "Topics": []}
    emulator = {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "Console"}}}
    return {
        _QUEUES: json.dumps(listed, indent=2) + "\n",
        _ROLES: _AGENTS_OF_BOTH_WAYS.sub(json.dumps(both), _ROLES.read_text(encoding="utf-8")),
        _EMULATOR: json.dumps(emulator, indent=2) + "\n",
    }


def _properties(name: str, *, most_days: float = 365, window_minutes: float = 10) -> Json:
    queue = properties_of(name)
    window = duration_isoformat(timedelta(minutes=window_minutes))
    time_to_live = min(timedelta(seconds=queue.time_to_live), timedelta(days=most_days))
    return {
        "lockDuration": duration_isoformat(timedelta(seconds=queue.lock)),
        "maxDeliveryCount": 10,
        "defaultMessageTimeToLive": duration_isoformat(time_to_live),
        "deadLetteringOnMessageExpiration": queue.keeps_expired,
        "requiresDuplicateDetection": queue.drops_copies,
        **({"duplicateDetectionHistoryTimeWindow": window} if queue.drops_copies else {}),
    }


def _emulated(name: str) -> Json:
    """Return the properties with the emulator's names, within the limits of its quota page (emulator 1.1)."""
    properties = _properties(name, most_days=1 / 24, window_minutes=5)
    return {f"{name[0].upper()}{name[1:]}": value for name, value in properties.items()}


if __name__ == "__main__":
    try:
        texts = files()
    except DefinitionError as fault:
        sys.exit(str(fault))
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
