"""`docs/load-levelling.md` explains every value of `host.json` that levels the load, and is correct."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from functions.messaging.queue_names import SUBMISSIONS_QUEUE, handling_seconds
from functions.settings import Settings
from functions.web.destinations import http_session, once_session
from tests.house.documents import ROOT

_DOCUMENT = (ROOT / "docs/load-levelling.md").read_text(encoding="utf-8")
_HOST_JSON: dict[str, Any] = json.loads((ROOT / "host.json").read_text(encoding="utf-8"))
_SERVICE_BUS: dict[str, Any] = _HOST_JSON["extensions"]["serviceBus"]
_QUEUES: list[dict[str, Any]] = json.loads((ROOT / "infra/queues.json").read_text(encoding="utf-8"))["queues"]


def test_the_table_holds_every_value_and_no_other() -> None:
    """Both places have the same values."""
    rows = dict(re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \|", _DOCUMENT, flags=re.MULTILINE))
    sections = {name: _HOST_JSON["extensions"][name] for name in ("serviceBus", "eventHubs", "durableTask")}
    assert rows == dict(_leaves(sections))


def test_every_name_in_the_text_is_a_value_of_host_json() -> None:
    """Nothing is explained that no longer exists."""
    known = {path.rpartition(".")[2] for path, _ in _leaves(_HOST_JSON)}
    named = set(
        re.findall(r"`((?:max|min|prefetch|partition|auto|hub|extended|function)[A-Z]\w+)`", _DOCUMENT)
    )
    assert named - known == set()


def test_times_in_the_text_are_those_of_the_code() -> None:
    """Messages are abandoned while they are still locked."""
    text = f"{handling_seconds(SUBMISSIONS_QUEUE):g} s (`functions/messaging/`)"
    assert text in " ".join(_DOCUMENT.split())
    locks = {queue["name"]: queue["properties"]["lockDuration"] for queue in _QUEUES}
    of_agents = {name for name in locks if name.startswith("agent-") and name.endswith("-requests")}
    assert {locks[name] for name in of_agents} == {"PT15S"}
    assert {locks[name] for name in locks.keys() - of_agents} == {"PT1M"}
    assert "locked for 15 s (requests to Agents) or a minute" in _DOCUMENT
    assert _SERVICE_BUS["maxAutoLockRenewalDuration"] == _HOST_JSON["functionTimeout"]


@pytest.mark.parametrize("opened", [http_session, once_session])
async def test_every_call_finds_a_connection(opened: Any) -> None:
    """No limit on calls is higher than the limit on connections."""
    async with opened.__wrapped__() as session:
        limits = (session.connector.limit, session.connector.limit_per_host)
    connections = min(limit for limit in limits if limit > 0)  # 0: no limit
    assert f"{connections} connections" in _DOCUMENT
    assert _SERVICE_BUS["maxConcurrentCalls"] <= connections
    assert _HOST_JSON["extensions"]["durableTask"]["maxConcurrentActivityFunctions"] <= connections


def test_a_run_ends_before_its_function() -> None:
    """The outcomes of its calls are recorded in the rest of the time; the start checks it."""
    assert f"**`RUN_SECONDS`** ({Settings.model_fields['run_seconds'].default:g})" in _DOCUMENT


def test_an_expired_payment_request_is_dropped() -> None:
    """The Supervisor recovers its step; a dead letter would only raise a false alert."""
    [requests] = [queue for queue in _QUEUES if queue["name"] == "agent-payment-requests"]
    assert requests["properties"]["deadLetteringOnMessageExpiration"] is False


def _leaves(section: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in section.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value if isinstance(value, str) else json.dumps(value)
