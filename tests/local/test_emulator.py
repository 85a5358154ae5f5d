"""The configuration for Microsoft's emulator follows `infra/queues.json`."""

from __future__ import annotations

import json
from pathlib import Path

from local.emulator.__main__ import CONFIG, QUEUES, emulator_config


def test_committed_configuration_is_current() -> None:
    """A change of the queues needs a new file."""
    committed = CONFIG.read_text(encoding="utf-8")
    assert committed == emulator_config(QUEUES), "run: python -m local.emulator"


def test_durations_stay_within_the_emulators_limits(tmp_path: Path) -> None:
    """What Azure allows and the emulator does not is shortened; the rest is as declared."""
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
