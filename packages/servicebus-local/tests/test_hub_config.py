"""Hubs are read from a file or named in options, and each mistake is one line of text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servicebus_local.config import BrokerConfig, ConfigurationError, queues_named
from servicebus_local.hub_config import with_hubs_named, with_hubs_of
from servicebus_local.hubs.settings import HubSettings

_NO_QUEUES = BrokerConfig({})


def _read(tmp_path: Path, document: object, config: BrokerConfig = _NO_QUEUES) -> BrokerConfig:
    file = tmp_path / "hubs.json"
    file.write_text(json.dumps(document))
    return with_hubs_of(config, file)


def test_properties_are_read(tmp_path: Path) -> None:
    """Hours become milliseconds; the default group is there anyway; queues stay."""
    entry = {
        "name": "Orders",
        "partitionCount": 32,
        "retentionHours": 24,
        "consumerGroups": ["ingestion", "$Default"],
    }
    config = _read(tmp_path, {"hubs": [entry]}, queues_named(["work"]))
    assert config.hubs == {"Orders": HubSettings(32, 24 * 3_600_000, ("ingestion",))}
    assert list(config.queues) == ["work"]


def test_hubs_can_be_named_without_a_file() -> None:
    """They get the default properties."""
    assert with_hubs_named(_NO_QUEUES, ["a", "b"]).hubs == {"a": HubSettings(), "b": HubSettings()}


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"name": "a/b"}, r"hub 'a/b': name: \"a/b\" is not allowed; allowed is up to 50 letters"),
        ({"name": "a", "partitionCount": 33}, "hub 'a': partitionCount: 33 is not allowed; .* from 1 to 32"),
        ({"name": "a", "retentionHours": 0}, "hub 'a': retentionHours: 0 is not allowed; .* from 1 to 168"),
        ({"name": "a", "consumerGroups": [7]}, "hub 'a': consumerGroups: 7 is not allowed"),
        ({"name": "a", "capture": True}, "hub 'a': 'capture' is not known here"),
        ({}, "entry 1: name: is missing"),
        ({"name": "Work"}, "hub 'Work': a queue has this name"),
    ],
)
def test_mistakes(tmp_path: Path, entry: object, text: str) -> None:
    """The text names file, hub, property, and what is allowed."""
    with pytest.raises(ConfigurationError, match=f"hubs.json: {text}"):
        _read(tmp_path, {"hubs": [entry]}, queues_named(["work"]))


def test_two_hubs_of_one_name_are_refused(tmp_path: Path) -> None:
    """Whatever their case."""
    with pytest.raises(ConfigurationError, match="hub 'A': another hub has this name"):
        _read(tmp_path, {"hubs": [{"name": "a"}, {"name": "A"}]})


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """With the option that names another."""
    with pytest.raises(ConfigurationError, match=r"lost\.json: can't be read .*--hubs"):
        with_hubs_of(_NO_QUEUES, tmp_path / "lost.json")
