"""Writes the queues for Bicep and for Microsoft's Service Bus emulator: `python -m local.queue_list`.

They follow from the workflows' definitions and `functions/messaging/queue_names.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from isodate import duration_isoformat

from functions.core.record import StepType
from functions.messaging.queue_names import QueueProperties, all_queues, properties_of
from functions.workflows.registry import load_registrations
from local.platform import ROOT

_QUEUES, _ROLES = ROOT / "infra/queues.json", ROOT / "infra/roles.json"
_EMULATOR = ROOT / "local/emulator/config.json"
_AGENTS_OF_BOTH_WAYS = re.compile(r'(?<="agentsOfBothWays": )\[.*\]')
#: The longest durations that the emulator allows where Azure allows more (emulator 1.1, its quota page).
_EMULATOR_MOST = {
    "defaultMessageTimeToLive": timedelta(hours=1),
    "duplicateDetectionHistoryTimeWindow": timedelta(minutes=5),
}


def files() -> dict[Path, str]:
    """Return the generated files with their texts. Raises `DefinitionError`."""
    versions = [version for each in load_registrations() for version in each.versions]
    ways = {(spec.type, spec.agent) for version in versions for spec in version.specs}
    queued = {agent for way, agent in ways if way is StepType.QUEUE}
    both = sorted(agent for agent in queued if (StepType.ACTIVITY, agent) in ways)
    queues = {name: _properties(properties_of(name)) for name in all_queues(queued)}
    listed = [{"name": name, "properties": _texts(each)} for name, each in queues.items()]
    return {
        _QUEUES: json.dumps({"queues": listed}, indent=2) + "\n",
        _ROLES: _AGENTS_OF_BOTH_WAYS.sub(json.dumps(both), _ROLES.read_text(encoding="utf-8")),
        _EMULATOR: emulator_config(queues),
    }


def emulator_config(queues: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the emulator's configuration; `queues` have the properties of Azure by their names."""
    listed = [{"Name": name, "Properties": _emulated(each)} for name, each in queues.items()]
    config = {
        "UserConfig": {
            "Namespaces": [{"Name": "sbemulatorns", "Queues": listed, "Topics": []}],
            "Logging": {"Type": "Console"},
        }
    }
    return json.dumps(config, indent=2) + "\n"


def _properties(queue: QueueProperties) -> dict[str, Any]:
    window = {"duplicateDetectionHistoryTimeWindow": timedelta(minutes=10)} if queue.drops_copies else {}
    return {
        "lockDuration": timedelta(seconds=queue.lock),
        "maxDeliveryCount": 10,
        "defaultMessageTimeToLive": timedelta(seconds=queue.time_to_live),
        "deadLetteringOnMessageExpiration": queue.keeps_expired,
        "requiresDuplicateDetection": queue.drops_copies,
        **window,
    }


def _emulated(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties under the emulator's names, within its limits."""
    within = {name: min(value, _EMULATOR_MOST.get(name, value)) for name, value in properties.items()}
    return {f"{name[0].upper()}{name[1:]}": value for name, value in _texts(within).items()}


def _texts(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: duration_isoformat(value) if isinstance(value, timedelta) else value
        for name, value in properties.items()
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
