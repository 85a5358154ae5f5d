"""`python -m local.emulator`: writes `config.json` for Microsoft's emulator out of `infra/queues.json`."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import isodate

_HERE = Path(__file__).parent
QUEUES = _HERE.parent.parent / "infra" / "queues.json"
CONFIG = _HERE / "config.json"
#: The longest durations that the emulator allows where Azure allows more (emulator 1.1, its quota page).
_EMULATOR_MOST = {
    "DefaultMessageTimeToLive": timedelta(hours=1),
    "DuplicateDetectionHistoryTimeWindow": timedelta(minutes=5),
}


def emulator_config(queues_file: Path) -> str:
    """Return the text of the emulator's `Config.json`: the same queues, within the emulator's limits."""
    declared = json.loads(queues_file.read_text(encoding="utf-8"))["queues"]
    queues = [{"Name": each["name"], "Properties": _properties(each["properties"])} for each in declared]
    config = {
        "UserConfig": {
            "Namespaces": [{"Name": "sbemulatorns", "Queues": queues, "Topics": []}],
            "Logging": {"Type": "Console"},
        }
    }
    return json.dumps(config, indent=2) + "\n"


def _properties(declared: dict[str, Any]) -> dict[str, Any]:
    pascal = {name[0].upper() + name[1:]: value for name, value in declared.items()}
    return {name: _within(name, value) for name, value in pascal.items()}


def _within(name: str, value: Any) -> Any:
    most = _EMULATOR_MOST.get(name)
    if most is None or isodate.parse_duration(value) <= most:
        return value
    return isodate.duration_isoformat(most)


if __name__ == "__main__":
    CONFIG.write_text(emulator_config(QUEUES), encoding="utf-8")
    print(f"wrote {CONFIG}")
