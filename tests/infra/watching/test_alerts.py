"""Alerts, queries, metrics and roles: complete, and as the runbook and the pages have them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from functions.operators.request_origin import OWN_HEADER
from functions.settings import Settings
from functions.telemetry.fields import Field
from tests.infra.bicep.deployment import Deployment, Planned
from tests.infra.bicep.values import Unresolved, properties_of
from tests.infra.infrastructure import REPOSITORY, Infrastructure
from tests.infra.policies.access import role_of
from tests.infra.watching.conftest import PARAMETERS, ROOT, TEMPLATE
from tests.infra.watching.kql import query_names, read_query
from tests.infra.watching.resources import (
    ACTION_GROUP,
    LOG_ALERT,
    METRIC_ALERT,
    alerts,
    criterion,
    dimensions,
    of_type,
)

#: Each condition that an operator must know of, and the metric or the query column that shows it.
_MEASURED = {
    "dead-letters": ("DeadletteredMessages", "Minimum", "GreaterThan", 0),
    "backlog": ("ActiveMessages", "Minimum", "GreaterThan", 100),
    "burst": ("ActiveMessages", "Average", "GreaterThan", 1000),
    "old-messages": ("OldestSeconds", "Maximum", "GreaterThan", 900),
    "message-lost": (None, "Count", "GreaterThan", 0),
    "gate-closed": (None, "Count", "GreaterThan", 0),
    "orders-refused": (None, "Count", "GreaterThan", 0),
    "reply-rejected": (None, "Count", "GreaterThan", 0),
    "corrupt-rows": (None, "Count", "GreaterThan", 0),
    "tasks-in-error": (None, "Count", "GreaterThan", 0),
    "failed-compensation": (None, "Count", "GreaterThan", 0),
    "supervisor-silent": (None, "Count", "GreaterThan", 0),
    "overdue-tasks": ("LateSeconds", "Maximum", "GreaterThan", 90),
    "log-cap": (None, "Count", "GreaterThan", 0),
    "failure-rate": ("FailedPercent", "Average", "GreaterThan", 5),
    "hub-late": ("AgeSeconds", "Maximum", "GreaterThan", 600),
    "hub-throttled": ("ThrottledRequests", "Total", "GreaterThan", 0),
}


def test_everything_that_matters_has_an_alert(plan: list[Planned]) -> None:
    """Exactly these, each with the condition under which it fires."""
    planned = {}
    for name, alert in alerts(plan).items():
        if name == "hub-stalled":  # has two conditions
            continue
        each = criterion(alert)
        measure = each.get("metricName") or each.get("metricMeasureColumn")
        planned[name] = (measure, each["timeAggregation"], each["operator"], each["threshold"])
    assert planned == _MEASURED


#: The alerts on log lines that the application writes as it posts the same event.
_POSTED = {
    "corrupt-rows",
    "failed-compensation",
    "gate-closed",
    "message-lost",
    "reply-rejected",
    "tasks-in-error",
}


def test_every_alert_is_mailed_and_each_event_is_posted_once(plan: list[Planned]) -> None:
    """An alert on an event that the application posts itself is only mailed."""
    posting, mailing = of_type(plan, ACTION_GROUP)
    ids = [Unresolved(f"{group.symbol}.id", ACTION_GROUP) for group in (posting, mailing)]
    assert [alert.at("properties", "actions") for alert in of_type(plan, METRIC_ALERT)] == [
        [{"actionGroupId": ids[0]}]
    ] * 5
    planned = alerts(plan)
    log_alerts = {name: each for name, each in planned.items() if each in of_type(plan, LOG_ALERT)}
    for name, alert in log_alerts.items():
        assert alert.at("properties", "actions", "actionGroups") == [ids[name in _POSTED]], name
    assert log_alerts.keys() >= _POSTED


def test_action_groups_mail_and_one_posts(plan: list[Planned]) -> None:
    """To every receiver in the parameters, in Azure's common alert schema."""
    posting, mailing = of_type(plan, ACTION_GROUP)
    for group in (posting, mailing):
        assert group.at("properties", "emailReceivers") == [
            {"name": "email-0", "emailAddress": "olga@example.com", "useCommonAlertSchema": True},
            {"name": "email-1", "emailAddress": "otto@example.com", "useCommonAlertSchema": True},
        ]
    assert mailing.at("properties", "webhookReceivers") == []
    assert posting.at("properties", "webhookReceivers") == [
        {"name": "webhook", "serviceUri": "https://example.com/alerts", "useCommonAlertSchema": True}
    ]


@pytest.mark.parametrize("name", ["dead-letters", "backlog", "burst"])
def test_every_queue_is_monitored(plan: list[Planned], name: str) -> None:
    """Every queue in `infra/queues.json`, separately."""
    queues = json.loads((ROOT / "infra/queues.json").read_text(encoding="utf-8"))["queues"]
    assert dimensions(alerts(plan)[name]) == {"EntityName": [queue["name"] for queue in queues]}


def test_hub_is_watched_only_where_there_is_one() -> None:
    """Each alert costs something."""
    without = Deployment(TEMPLATE, {**PARAMETERS, "eventHubsId": ""})
    hubs = json.loads((ROOT / "infra/hubs.json").read_text(encoding="utf-8"))["hubs"]
    with_hub = alerts(Deployment(TEMPLATE, PARAMETERS).planned())
    assert with_hub.keys() - alerts(without.planned()).keys() == {
        "hub-stalled",
        "hub-late",
        "hub-throttled",
    }
    assert dimensions(with_hub["hub-throttled"]) == {"EntityName": [each["name"] for each in hubs]}


def test_hub_of_which_nothing_is_read_is_alerted(plan: list[Planned]) -> None:
    """Events come in, and none goes out, of the hub that the application reads."""
    conditions: Any = alerts(plan)["hub-stalled"].at("properties", "criteria", "allOf")
    named = ("metricName", "timeAggregation", "operator", "threshold")
    assert [tuple(each[name] for name in named) for each in conditions] == [
        ("IncomingMessages", "Total", "GreaterThan", 0),
        ("OutgoingMessages", "Total", "LessThanOrEqual", 0),
    ]
    hub = Settings.model_fields["event_hub_name"].default
    assert [each["dimensions"][0]["values"] for each in conditions] == [[hub]] * 2


def test_overdue_means_three_sweeps() -> None:
    """The threshold is derived from the default schedule."""
    schedule = Settings.model_fields["supervisor_schedule"].default
    seconds = int(schedule.removeprefix("*/").split()[0])
    assert _MEASURED["overdue-tasks"][3] == 3 * seconds


def test_each_gate_queue_and_step_has_its_own_alert(plan: list[Planned]) -> None:
    """While one alert is active, another still raises its own; an error is of the do or of the undo."""
    found = alerts(plan)
    for name, direction in (("tasks-in-error", "do"), ("failed-compensation", "undo")):
        assert dimensions(found[name]) == {"Cause": ["error"], "Workflow": ["*"], "Direction": [direction]}
    assert dimensions(found["gate-closed"]) == {"Cause": ["gate closed"], "Gate": ["*"]}
    assert dimensions(found["reply-rejected"]) == {"Step": ["*"]}
    assert dimensions(found["message-lost"]) == {"Queue": ["*"]}
    assert dimensions(found["old-messages"]) == {"Queue": ["*"]}


def test_windows_include_late_rows_and_alerts_resolve(plan: list[Planned]) -> None:
    """Telemetry arrives minutes late, so a log alert's window is longer than its interval."""
    for name, alert in alerts(plan).items():
        assert alert.at("properties", "autoMitigate") is True, name
        if alert.type == LOG_ALERT:
            assert alert.at("properties", "evaluationFrequency") == "PT5M", name
            assert alert.at("properties", "windowSize") in {"PT10M", "PT15M"}, name


_OF_METRICS = [name for name in query_names() if "AppMetrics" in read_query(name).text]


def _instruments() -> set[str]:
    """Return the names of the instruments in `instruments.py`: the first argument of each `create_…`."""
    source = (ROOT / "functions/telemetry/instruments.py").read_bytes()
    return {
        node.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.startswith("create_")
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


@pytest.mark.parametrize("name", _OF_METRICS)
def test_metrics_and_their_attributes_exist(name: str) -> None:
    """With the names under which they are exported."""
    text = read_query(name).text
    filtered = next(line for line in text.splitlines() if line.startswith("| where Name "))
    named = set(re.findall(r'"([^"]+)"', filtered))
    assert named
    assert named <= _instruments()
    assert set(re.findall(r'Properties\["([^"]+)"\]', text)) <= set(Field)


def test_states_and_durations_are_metrics() -> None:
    """For the workbook's first two parts, and the alert on late events."""
    assert _OF_METRICS == ["late-events", "task-counts", "task-durations"]


_WATCHING = ROOT / "infra/modules/watching"
_WORKBOOK = (ROOT / "infra/workbook/workbook.json").read_text(encoding="utf-8")
#: What operators must see of an environment, and where the workbook shows it.
_SHOWN = {
    "states": "task-counts",
    "durations": "task-durations",
    "alerts": "operator-alerts",
    "recoveries": "task-counts",
    "overdue": "sweeps",
    "queue-depths": None,
    "waiting": "waiting-messages",
    "dead-letters": None,
    "lost-messages": "lost-messages",
    "rejected-replies": "rejected-replies",
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


_TABLE = (REPOSITORY / "docs/operations.md").read_text(encoding="utf-8").partition("## Who may do what")[2]
_APPLICATION = "the application's identity"

#: The table's names for the resources that roles are assigned on.
_PLACES = {
    "Microsoft.ServiceBus/namespaces/queues": "each queue",
    "Microsoft.EventHub/namespaces/eventhubs": "each hub",
    "Microsoft.Insights/components": "Application Insights component",
    "Microsoft.DurableTask/schedulers/taskHubs": "task hub",
    "Microsoft.KeyVault/vaults": "vault",
}


def test_table_names_exactly_the_roles_that_are_assigned() -> None:
    """Each with its scope."""
    [everything] = [
        each for each in Infrastructure(REPOSITORY).environments if each.name == "with everything"
    ]
    given = {pair for each in everything.deployment.deployments() for pair in _given(each)}
    assert set(_listed()) == given


def test_every_row_gives_the_reason() -> None:
    """A role without a reason should not be assigned."""
    assert [row for row in _rows() if not all(row[1:])] == []


def _rows() -> list[list[str]]:
    """Read the table's rows, below its header."""
    lines = [line for line in _TABLE.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _listed() -> Iterator[tuple[str, str]]:
    """Return the application's roles and their scopes; a row without a name continues the one above."""
    who = ""
    for name, roles, place, _ in _rows():
        who = name or who
        if who == _APPLICATION:
            yield from ((role.lower(), re.split(r",| \(", place)[0]) for role in roles.split(", "))


def _given(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """Return the roles that one template assigns, and their scopes."""
    names = _role_names()
    for each in deployment.planned():
        if (
            each.type == "Microsoft.Authorization/roleAssignments"
            and each.template == deployment.template.path
        ):
            scope = each.at("scope")
            assert isinstance(scope, Unresolved)
            yield names[role_of(each)], _place(str(scope.resource_type), deployment)


def _place(resource_type: str, deployment: Deployment) -> str:
    """Return the name of a role's scope; the host's storage account is the one with a container."""
    if resource_type != "Microsoft.Storage/storageAccounts":
        return _PLACES[resource_type]
    is_host = deployment.template.path.stem == "storage-account"
    return "host's storage account" if is_host else "state store's account"


def _role_names() -> dict[str, str]:
    """Return the name of each role, by id."""
    roles = Deployment(REPOSITORY / "infra/modules/roles.bicep", {}).value_of("roles")
    return {
        str(role): re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
        for name, role in properties_of(roles).items()
    }


_RUNBOOK = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
_SECTION = re.compile(r"^## `([a-z-]+)`: .+?$(.+?)(?=^## )", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| \[`([a-z-]+)`\]\(#.+\) \| (\d) \|", re.MULTILINE)


def test_every_alert_has_its_section_and_every_section_its_alert(plan: list[Planned]) -> None:
    """An operator who gets an alert at three in the morning finds the section under the alert's name."""
    assert sorted(section[1] for section in _SECTION.finditer(_RUNBOOK)) == sorted(alerts(plan))


def test_every_section_begins_with_what_to_do() -> None:
    """Each also names the places to look at."""
    for name, text in _SECTION.findall(_RUNBOOK):
        assert text.lstrip().startswith("**Do.** "), name
        assert "**Look at**" in text, name


def test_the_list_names_every_alert_with_its_severity(plan: list[Planned]) -> None:
    """As in the templates."""
    listed = {name: int(severity) for name, severity in _ROW.findall(_RUNBOOK)}
    assert listed == {name: alert.at("properties", "severity") for name, alert in alerts(plan).items()}


def test_every_command_that_acts_sends_the_required_header() -> None:
    """So the command works when it is copied."""
    commands = re.findall(r"^ *curl -X POST .+(?:\\\n.+)*", _RUNBOOK, re.MULTILINE)
    assert commands
    assert [command for command in commands if f"-H '{OWN_HEADER}: " not in command] == []
