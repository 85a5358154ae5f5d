"""One copy of each query: alerts and workbook load its file, and use columns that it returns."""

from __future__ import annotations

import json
import re

from tests.infra.bicep.deployment import Deployment, Planned
from tests.infra.bicep.values import properties_of
from tests.infra.watching.conftest import ROOT
from tests.infra.watching.kql import query_names, read_query
from tests.infra.watching.resources import LOG_ALERT, alerts, criterion, dimensions

_WATCHING = ROOT / "infra/modules/watching"
_WORKBOOK = (ROOT / "infra/workbook/workbook.json").read_text(encoding="utf-8")
#: What operators must see of an environment, and where the workbook shows it.
_SHOWN = {
    "states": "task-counts",
    "durations": "task-durations",
    "errors": "tasks-in-error",
    "recoveries": "task-counts",
    "overdue": "sweeps",
    "breakers": "breakers",
    "queue-depths": None,
    "waiting": "waiting-messages",
    "dead-letters": None,
    "lost-messages": "lost-messages",
    "unreadable-rows": "unreadable-rows",
    "refused-replies": "refused-replies",
    "silent-agents": "silent-agents",
    "crowds": "crowds",
    "refused-orders": "refused-orders",
    "failure-rate": "failed-requests",
}


def test_log_alerts_run_the_files(plan: list[Planned]) -> None:
    """Each runs the file that `alerts.json` names, unchanged."""
    declared = json.loads((_WATCHING / "alerts.json").read_text(encoding="utf-8"))
    logged = {name: each for name, each in alerts(plan).items() if each.type == LOG_ALERT}
    assert {name: criterion(each)["query"] for name, each in logged.items()} == {
        each["name"]: read_query(each["query"]).text for each in (*declared["log"], *declared["hub"])
    }


def test_log_alerts_measure_existing_columns(plan: list[Planned]) -> None:
    """Dimensions too: Azure would treat an unknown name as empty, and never fire."""
    queries = {query.text: query for query in map(read_query, query_names())}
    for name, alert in alerts(plan).items():
        if alert.type != LOG_ALERT:
            continue
        query = queries[criterion(alert)["query"]]
        asked = {*dimensions(alert), criterion(alert)["metricMeasureColumn"] or "TimeGenerated"}
        assert [column for column in asked if not query.gives(column)] == [], name


def test_workbook_shows_what_matters() -> None:
    """Each in a separate part, from its query or from Service Bus metrics."""
    shown = {}
    for item in json.loads(_WORKBOOK)["items"]:
        if item["type"] in {3, 10}:
            placed = re.match(r"<([\w-]+)>", item["content"].get("query", ""))
            shown[item["name"]] = placed[1] if placed else None
    assert shown == _SHOWN


def test_workbook_holds_no_query_of_its_own() -> None:
    """It names the files; what it adds only summarises or sorts."""
    assert not re.search(r"App(Traces|Requests|Metrics)|Message", _WORKBOOK.replace("Messages", ""))


def test_every_name_in_the_workbook_is_filled(watching: Deployment) -> None:
    """The template has a value for each, and every query is used, here or by an alert."""
    [workbook] = [each for each in watching.deployments() if each.template.path.stem == "workbook"]
    fillings = properties_of(workbook.value_of("fillings"))
    named = frozenset(re.findall(r"<([\w-]+)>", _WORKBOOK))
    lists = json.loads((_WATCHING / "alerts.json").read_text(encoding="utf-8"))
    declared = [*lists["log"], *lists["hub"]]
    assert fillings.keys() == {*query_names(), "workspaceId", "componentId", "namespaceId"}
    assert named <= fillings.keys() <= named | {each["query"] for each in declared}
    assert {name: fillings[name] for name in query_names()} == {
        name: read_query(name).text for name in query_names()
    }
