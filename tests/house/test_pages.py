"""README and the pages on settings, cost and load levelling agree with the code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from functions.http.destinations import http_session, once_session
from functions.messaging.queue_names import SUBMISSIONS_QUEUE, handling_seconds
from functions.settings import Settings
from local import settings_page
from local.cost import tables
from local.cost.tables import ACTIONS, EXECUTIONS, HUB_REQUESTS, METERS, CountedOrder, of_ours, of_plain
from tests.house.documents import ROOT, shell_commands

_README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_is_one_page_and_begins_with_a_command() -> None:
    """Details are on separate pages; a newcomer finds the first command without scrolling. Targets exist."""
    lines = _README.splitlines()
    assert len(lines) <= 150
    assert "make run" in lines[:20]
    targets = set(re.findall(r"`make ([a-z-]+)`", _README))
    assert targets, "the README names no target"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [target for target in sorted(targets) if f"\n{target}:" not in makefile] == []


def test_index_links_to_every_page() -> None:
    """For decisions, to their folder."""
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    index = re.findall(r"\]\(([\w/.-]+)", (ROOT / "docs/README.md").read_text(encoding="utf-8"))
    assert sorted(page for page in pages - {"README.md"} if not page.startswith(tuple(index))) == []


@pytest.mark.parametrize("document", ["README.md", "docs/deploy.md"])
def test_sample_order_is_valid_json(document: str) -> None:
    """The order in the curl command can be pasted."""
    bodies = [body for line in shell_commands(document) for body in re.findall(r"-d '(.*)'", line)]
    assert [json.loads(body)["customer"] for body in bodies] == ["C-1042"]


def test_settings_page_is_current() -> None:
    """`make settings-page` rewrites it. A description is also the fix in the error about a wrong setting."""
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page()
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


_COUNTED = tables.read_counted(tables.PAGE.read_text(encoding="utf-8"))
_ORDER = CountedOrder("orders", executions=8, transactions=3, messages=3, episodes=3, activities=1, cpu=0.02)


def test_page_is_what_the_command_prints() -> None:
    """`python -m local cost --page` counts again, and writes it."""
    assert tables.PAGE.read_text(encoding="utf-8") == tables.page(_COUNTED)
    assert [table for table in tables.tables(_COUNTED) if table not in tables.page(_COUNTED)] == []
    assert [each.name for each in _COUNTED] == ["orders", "five steps", "deliveries"]


def test_every_meter_has_a_price_or_says_to_look_it_up() -> None:
    """With its unit and its source."""
    prices = json.loads((Path(tables.__file__).parent / "prices.json").read_text(encoding="utf-8"))["prices"]
    assert prices.keys() == {meter.key for meter in METERS}
    assert [key for key, price in prices.items() if not (price["unit"] and price["source"])] == []
    assert [key for key, price in prices.items() if price["price"] is None] == [ACTIONS.key]


def test_actions_are_counted_as_microsoft_counts_them() -> None:
    """One for the start, and two for each activity; after each, the plain app runs its orchestrator again."""
    assert of_plain(3, _ORDER)[ACTIONS] == 7
    assert of_ours(_ORDER)[ACTIONS] == 3
    # A request, five activities, and six episodes.
    assert of_plain(5, _ORDER)[EXECUTIONS] == 12
    used = dict.fromkeys(METERS, 0.0) | {HUB_REQUESTS: 100.0, ACTIONS: 100.0}
    assert tables.dollars(used, instead_of=ACTIONS) == pytest.approx(4.0)  # of one back end


_LEVELLING = (ROOT / "docs/load-levelling.md").read_text(encoding="utf-8")
_HOST_JSON: dict[str, Any] = json.loads((ROOT / "host.json").read_text(encoding="utf-8"))
_QUEUES: list[dict[str, Any]] = json.loads((ROOT / "infra/queues.json").read_text(encoding="utf-8"))["queues"]


def test_page_explains_the_values_of_host_json() -> None:
    """The table has every value and no other; the text names existing values only."""
    rows = dict(re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \|", _LEVELLING, flags=re.MULTILINE))
    sections = {name: _HOST_JSON["extensions"][name] for name in ("serviceBus", "eventHubs", "durableTask")}
    assert rows == dict(_leaves(sections))
    existing = {path.rpartition(".")[2] for path, _ in _leaves(_HOST_JSON)}
    pattern = r"`((?:max|min|prefetch|partition|auto|hub|extended|function)[A-Z]\w+)`"
    assert set(re.findall(pattern, _LEVELLING)) - existing == set()


def test_documented_times_equal_the_times_in_the_code() -> None:
    """Messages are abandoned while they are still locked; a run ends before its function.

    An expired payment request is dropped: the Supervisor recovers its step, and a dead letter would only
    raise a false alert.
    """
    text = f"{handling_seconds(SUBMISSIONS_QUEUE):g} s (`functions/messaging/`)"
    assert text in " ".join(_LEVELLING.split())
    locks = {queue["name"]: queue["properties"]["lockDuration"] for queue in _QUEUES}
    of_agents = {name for name in locks if name.startswith("agent-") and name.endswith("-requests")}
    assert {locks[name] for name in of_agents} <= {"PT15S"}
    assert {locks[name] for name in locks.keys() - of_agents} == {"PT1M"}
    assert "locked for 15 s (requests to Agents) or a minute" in _LEVELLING
    renewal = _HOST_JSON["extensions"]["serviceBus"]["maxAutoLockRenewalDuration"]
    assert renewal == _HOST_JSON["functionTimeout"]
    assert f"**`RUN_SECONDS`** ({Settings.model_fields['run_seconds'].default:g})" in _LEVELLING
    kept = {each["name"] for each in _QUEUES if each["properties"]["deadLetteringOnMessageExpiration"]}
    assert kept & of_agents == set()


async def test_every_call_finds_a_connection() -> None:
    """No limit on calls is higher than the limit on connections."""
    for opened in (http_session, once_session):
        async with cast("Any", opened).__wrapped__() as session:
            limits = (session.connector.limit, session.connector.limit_per_host)
        connections = min(limit for limit in limits if limit > 0)  # 0: no limit
        assert f"{connections} connections" in _LEVELLING
        assert _HOST_JSON["extensions"]["serviceBus"]["maxConcurrentCalls"] <= connections
        assert _HOST_JSON["extensions"]["durableTask"]["maxConcurrentActivityFunctions"] <= connections


def _leaves(section: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in section.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value if isinstance(value, str) else json.dumps(value)
