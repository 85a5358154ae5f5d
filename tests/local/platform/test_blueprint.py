"""The real platform's parts: what starts first, and what each is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from functions_local.host import STOP_GRACE
from local.platform import Addresses, PartName, PlatformOptions, Ports, RefusedError, blueprint
from local.platform.blueprint import whole_platform
from local.platform.parts import Part

ADDRESSES = Addresses(Ports(host=1, service_bus=2, admin=3, blob=4, queue=5, table=6))


@pytest.fixture(autouse=True)
def _azurite_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(blueprint, "_AZURITE", tmp_path)


def _part(name: PartName, options: PlatformOptions | None = None) -> Part:
    stages = whole_platform(options or PlatformOptions(), ADDRESSES)
    return next(part for stage in stages for part in stage if part.name is name)


def test_the_host_starts_when_azurite_and_the_broker_answer() -> None:
    """Those two start side by side, and stop after it."""
    stages = whole_platform(PlatformOptions(), ADDRESSES)
    assert [[part.name for part in stage] for stage in stages] == [
        [PartName.AZURITE, PartName.BROKER],
        [PartName.HOST],
    ]


def test_each_part_keeps_its_state_in_its_own_folder(tmp_path: Path) -> None:
    """They are the folders that `reset` deletes."""
    options = PlatformOptions(data=tmp_path)
    for name, folder in [
        (PartName.AZURITE, "azurite"),
        (PartName.BROKER, "servicebus"),
        (PartName.HOST, "host"),
    ]:
        assert str(tmp_path / folder) in _part(name, options).command


def test_only_azurite_is_not_to_be_killed() -> None:
    """Broker and host lose nothing by it; nor does an Azurite that keeps nothing."""
    assert not _part(PartName.AZURITE).crash_safe
    assert _part(PartName.BROKER).crash_safe
    assert _part(PartName.HOST).crash_safe
    assert _part(PartName.AZURITE, PlatformOptions(in_memory_storage=True)).crash_safe


def test_everything_stops_within_five_seconds_even_if_all_hang() -> None:
    """Ctrl-C promises it: the stages stop one after the other, and each takes as long as its slowest part."""
    stages = whole_platform(PlatformOptions(), ADDRESSES)
    assert sum(max(part.stop_within for part in stage) for stage in stages) < 5


def test_the_host_is_not_killed_while_it_lets_functions_finish() -> None:
    """After their grace it needs a moment to give messages back and to leave."""
    assert _part(PartName.HOST).stop_within >= STOP_GRACE + 0.5


def test_azurite_in_memory_has_no_folder() -> None:
    """Azurite refuses both at once."""
    command = _part(PartName.AZURITE, PlatformOptions(in_memory_storage=True)).command
    assert "--inMemoryPersistence" in command
    assert "--location" not in command


def test_a_missing_azurite_is_refused_with_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It comes with `make setup`."""
    monkeypatch.setattr(blueprint, "_AZURITE", tmp_path / "missing")
    with pytest.raises(RefusedError, match="make setup"):
        whole_platform(PlatformOptions(), ADDRESSES)
