"""The configuration for Microsoft's emulator follows `infra/queues.json`."""

from __future__ import annotations

import json
from pathlib import Path

from local.emulator.config import emulator_config

ROOT = Path(__file__).parents[3]


def test_committed_configuration_is_current() -> None:
    """Whoever changes the queues is told to write the emulator's file anew."""
    committed = (ROOT / "local/emulator/config.json").read_text(encoding="utf-8")
    assert committed == emulator_config(ROOT / "infra/queues.json"), "run: python -m local.emulator"


def test_durations_stay_within_the_emulators_limits(tmp_path: Path) -> None:
    """What Azure takes and the emulator does not is shortened; the rest is as declared."""
    queues = tmp_path / "queues.json"
    properties = {
        "lockDuration": "PT1M",
        "defaultMessageTimeToLive": "P14D",
        "duplicateDetectionHistoryTimeWindow": "PT10M",
    }
    queues.write_text(json.dumps({"queues": [{"name": "q", "properties": properties}]}), encoding="utf-8")

    namespace = json.loads(emulator_config(queues))["UserConfig"]["Namespaces"][0]

    assert namespace["Queues"] == [
        {
            "Name": "q",
            "Properties": {
                "LockDuration": "PT1M",
                "DefaultMessageTimeToLive": "PT1H",
                "DuplicateDetectionHistoryTimeWindow": "PT5M",
            },
        }
    ]
