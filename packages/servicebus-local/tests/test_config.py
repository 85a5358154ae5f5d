"""Configurations of queues and hubs are read, and each mistake is one line of text."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from servicebus_local.broker.settings import MEGABYTE, QueueSettings
from servicebus_local.config import (
    BrokerConfig,
    ConfigurationError,
    queues_named,
    read_config,
    with_hubs_named,
    with_hubs_of,
)
from servicebus_local.hubs.settings import HubSettings


def _write(tmp_path: Path, document: object) -> Path:
    file = tmp_path / "queues.json"
    file.write_text(json.dumps(document))
    return file


def test_properties_are_those_of_azure_resource_manager(tmp_path: Path) -> None:
    """Durations are read as milliseconds, sizes as bytes."""
    properties = {
        "lockDuration": "PT30S",
        "maxDeliveryCount": 5,
        "defaultMessageTimeToLive": "P14D",
        "deadLetteringOnMessageExpiration": True,
        "requiresDuplicateDetection": True,
        "duplicateDetectionHistoryTimeWindow": "PT20M",
        "maxSizeInMegabytes": 2,
    }
    config = read_config(_write(tmp_path, {"queues": [{"name": "work", "properties": properties}]}))
    assert config.queues["work"] == QueueSettings(
        lock_ms=30_000,
        max_delivery_count=5,
        time_to_live_ms=14 * 24 * 3600 * 1000,
        dead_letters_expired=True,
        duplicate_window_ms=1_200_000,
        max_bytes=2 * MEGABYTE,
    )


def test_standard_input_is_read_like_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` selects standard input, and errors name it."""
    monkeypatch.setattr("sys.stdin", io.StringIO('{"queues": [{"name": "work"}]}'))
    assert read_config(Path("-")).queues == {"work": QueueSettings()}
    with pytest.raises(ConfigurationError, match=r"^standard input: is not JSON: "):
        read_config(Path("-"))


def test_queues_can_be_named_without_a_file() -> None:
    """They get the default properties, and their names are checked as in a file."""
    assert queues_named(["a", "b"]).queues == {"a": QueueSettings(), "b": QueueSettings()}
    with pytest.raises(ConfigurationError, match=r"^--queue: entry 1: name: .* letter or digit first"):
        queues_named([""])
    with pytest.raises(ConfigurationError, match=r"^--queue: queue 'a': is there twice"):
        queues_named(["a", "A"])


def test_absent_properties_have_the_defaults_of_service_bus(tmp_path: Path) -> None:
    """A queue with a name only gets one minute of lock, ten deliveries and no expiry."""
    config = read_config(_write(tmp_path, {"queues": [{"name": "plain"}]}))
    assert config.queues == {"plain": QueueSettings()}


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        (
            {"lockDuration": "PT1S"},
            'lockDuration: "PT1S" is not allowed; allowed is an ISO 8601 duration from PT5S',
        ),
        (
            {"lockDuration": "PT99999999999999999999S"},
            'lockDuration: "PT99999999999999999999S" is not allowed; allowed is an ISO',
        ),
        ({"lockDuration": 60}, "lockDuration: 60 is not allowed; allowed is an ISO"),
        ({"defaultMessageTimeToLive": "P1M"}, "without months and years"),
        ({"defaultMessageTimeToLive": "soon"}, '"soon" is not allowed'),
        (
            {"maxDeliveryCount": 0},
            "maxDeliveryCount: 0 is not allowed; allowed is a whole number",
        ),
        ({"requiresDuplicateDetection": "yes"}, 'requiresDuplicateDetection: "yes" is not allowed'),
        ({"requiresSession": True}, "the local broker has no sessions"),
        (
            {"lokDuration": "PT1M"},
            "'lokDuration' is not known here; allowed are lockDuration, max",
        ),
    ],
)
def test_wrong_property_is_named_with_the_allowed_values(
    tmp_path: Path, properties: dict[str, object], line: str
) -> None:
    """The line names file, queue and property, the value found and what is allowed."""
    file = _write(tmp_path, {"queues": [{"name": "good"}, {"name": "bad", "properties": properties}]})
    with pytest.raises(ConfigurationError) as refusal:
        read_config(file)
    assert str(refusal.value).startswith(f"{file}: queue 'bad': ")
    assert line in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ([], "[] is not allowed; allowed is an object"),
        ({}, "queues: is missing; allowed is a list of queues"),
        ({"queues": [{}]}, "entry 1: name: is missing"),
        ({"queues": [7]}, "entry 1: 7 is not allowed; allowed is an object"),
        ({"queues": [{"name": "a//"}]}, "letter or digit first and last"),
        ({"queues": [{"name": "a"}, {"name": "A"}]}, "queue 'a': is there twice"),
        ({"queues": [], "topics": []}, "'topics' is not known here"),
    ],
)
def test_wrong_document_is_explained(tmp_path: Path, document: object, line: str) -> None:
    """A document that is not a list of queues is explained, without a traceback."""
    with pytest.raises(ConfigurationError) as refusal:
        read_config(_write(tmp_path, document))
    assert line in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [("{", "is not JSON: .*line 1"), ("[" * 100_000, "is nested too deeply$")],
    ids=["syntax", "depth"],
)
def test_text_that_is_not_json_is_explained(tmp_path: Path, text: str, line: str) -> None:
    """A syntax error is reported with its place; in one line, as for every other wrong document."""
    file = tmp_path / "queues.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=rf"queues\.json: {line}"):
        read_config(file)


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


def test_two_hubs_of_one_name_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    """Whatever their case; and with the option that names another file."""
    with pytest.raises(ConfigurationError, match="hub 'A': another hub has this name"):
        _read(tmp_path, {"hubs": [{"name": "a"}, {"name": "A"}]})
    with pytest.raises(ConfigurationError, match=r"lost\.json: can't be read .*--hubs"):
        with_hubs_of(_NO_QUEUES, tmp_path / "lost.json")
