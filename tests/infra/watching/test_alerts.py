"""Alerts, queries, metrics and roles: complete, and as the runbook and the pages have them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

from functions.http.access import OWN_HEADER
from functions.settings import Settings
from functions.telemetry.instruments import Field
from tests.infra.bicep.deployment import Deployment
from tests.infra.bicep.values import Unresolved, properties_of, type_of
from tests.infra.infrastructure import REPOSITORY, Infrastructure
from tests.infra.policies.access import role_of
from tests.infra.watching.resources import (
    ACTION_GROUP,
    DECLARED,
    LOG_ALERT,
    METRIC_ALERT,
    PARAMETERS,
    TEMPLATE,
    WATCHING,
    alerts,
    criteria,
    of_type,
    queries,
)

_ALERTS, _QUERIES = alerts(), queries()
_INFRASTRUCTURE = Infrastructure(REPOSITORY)
_QUEUES = [each["name"] for each in _INFRASTRUCTURE.json("infra/queues.json")["queues"]]
_HUBS = [each["name"] for each in _INFRASTRUCTURE.json("infra/hubs.json")["hubs"]]
_HUB = [Settings.model_fields["event_hub_name"].default]
_ANY = ["*"]

#: Each alert with its conditions: metric or column, aggregation, operator, threshold and dimensions.
_CONDITIONS: dict[str, list[tuple[str | None, str, str, int, dict[str, list[str]]]]] = {
    "dead-letters": [("DeadletteredMessages", "Minimum", "GreaterThan", 0, {"EntityName": _QUEUES})],
    "backlog": [("ActiveMessages", "Minimum", "GreaterThan", 100, {"EntityName": _QUEUES})],
    "burst": [("ActiveMessages", "Average", "GreaterThan", 1000, {"EntityName": _QUEUES})],
    "old-messages": [("OldestSeconds", "Maximum", "GreaterThan", 900, {"Queue": _ANY})],
    "message-lost": [(None, "Count", "GreaterThan", 0, {"Queue": _ANY})],
    "gate-closed": [(None, "Count", "GreaterThan", 0, {"Cause": ["gate closed"], "Gate": _ANY})],
    "orders-refused": [(None, "Count", "GreaterThan", 0, {})],
    "reply-rejected": [(None, "Count", "GreaterThan", 0, {"Step": _ANY})],
    "corrupt-rows": [(None, "Count", "GreaterThan", 0, {"Cause": ["corrupt rows"]})],
    "tasks-in-error": [
        (None, "Count", "GreaterThan", 0, {"Cause": ["error"], "Workflow": _ANY, "Direction": ["do"]})
    ],
    "failed-compensation": [
        (None, "Count", "GreaterThan", 0, {"Cause": ["error"], "Workflow": _ANY, "Direction": ["undo"]})
    ],
    "supervisor-silent": [(None, "Count", "GreaterThan", 0, {})],
    "overdue-tasks": [("LateSeconds", "Maximum", "GreaterThan", 90, {})],
    "log-cap": [(None, "Count", "GreaterThan", 0, {})],
    "failure-rate": [("FailedPercent", "Average", "GreaterThan", 5, {})],
    "hub-late": [("AgeSeconds", "Maximum", "GreaterThan", 600, {"Hub": _ANY})],
    "hub-throttled": [("ThrottledRequests", "Total", "GreaterThan", 0, {"EntityName": _HUBS})],
    "hub-stalled": [
        ("IncomingMessages", "Total", "GreaterThan", 0, {"EntityName": _HUB}),
        ("OutgoingMessages", "Total", "LessThanOrEqual", 0, {"EntityName": _HUB}),
    ],
}

#: The alerts on log lines that the application writes as it posts the same event.
_POSTED = {
    "corrupt-rows",
    "failed-compensation",
    "gate-closed",
    "message-lost",
    "reply-rejected",
    "tasks-in-error",
}


def test_every_failure_condition_has_an_alert() -> None:
    """Exactly these. While one alert is active, another gate, queue or step still raises its own.

    A task is overdue after three sweeps by the default schedule.
    """
    planned = {
        name: [
            (
                each.get("metricName") or each.get("metricMeasureColumn") or None,
                *(each["timeAggregation"], each["operator"], each["threshold"]),
                {dimension["name"]: dimension["values"] for dimension in each["dimensions"]},
            )
            for each in criteria(alert)
        ]
        for name, alert in _ALERTS.items()
    }
    assert planned == _CONDITIONS
    schedule = Settings.model_fields["supervisor_schedule"].default
    assert _CONDITIONS["overdue-tasks"][0][3] == 3 * int(schedule.removeprefix("*/").split()[0])


def test_every_alert_is_mailed_and_each_event_is_posted_once() -> None:
    """In Azure's common schema. An alert on an event that the application posts itself is only mailed.

    A hub is watched only where there is one.
    """
    posting, mailing = of_type(WATCHING.resources, ACTION_GROUP)
    receivers = [
        {"name": f"email-{index}", "emailAddress": f"{name}@example.com", "useCommonAlertSchema": True}
        for index, name in enumerate(("olga", "otto"))
    ]
    for group in (posting, mailing):
        assert group.at("properties", "emailReceivers") == receivers
    assert mailing.at("properties", "webhookReceivers") == []
    assert posting.at("properties", "webhookReceivers") == [
        {"name": "webhook", "serviceUri": "https://example.com/alerts", "useCommonAlertSchema": True}
    ]
    ids = [Unresolved(f"{group.symbol}.id", ACTION_GROUP) for group in (posting, mailing)]
    for name, alert in _ALERTS.items():
        actions = alert.at("properties", "actions")
        is_of_metrics = alert.type == METRIC_ALERT
        receiver = [{"actionGroupId": ids[0]}] if is_of_metrics else [ids[name in _POSTED]]
        assert (actions if is_of_metrics else properties_of(actions)["actionGroups"]) == receiver, name
    assert {each["name"] for each in DECLARED["log"]} >= _POSTED
    without = Deployment(TEMPLATE, {**PARAMETERS, "eventHubsId": ""})  # each alert costs something
    of_hubs = {"hub-stalled", "hub-late", "hub-throttled"}
    assert _ALERTS.keys() - alerts(without.resources).keys() == of_hubs


def test_windows_include_late_rows_and_alerts_resolve() -> None:
    """Telemetry arrives minutes late, so a log alert's window is longer than its interval."""
    for name, alert in _ALERTS.items():
        assert alert.at("properties", "autoMitigate") is True, name
        if alert.type == LOG_ALERT:
            assert alert.at("properties", "evaluationFrequency") == "PT5M", name
            assert alert.at("properties", "windowSize") in {"PT10M", "PT15M"}, name


def test_log_alerts_run_the_files() -> None:
    """Each runs the file that `alerts.json` names, unchanged."""
    logged = {name: each for name, each in _ALERTS.items() if each.type == LOG_ALERT}
    assert {name: criteria(each)[0]["query"] for name, each in logged.items()} == {
        each["name"]: _QUERIES[each["query"]].text for each in (*DECLARED["log"], *DECLARED["hub"])
    }


def _instruments() -> Iterator[str]:
    """Yield the names of the instruments in `instruments.py`: the first argument of each `create_…`."""
    source = (REPOSITORY / "functions/telemetry/instruments.py").read_bytes()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Constant(value=str(name)), *_]):
                yield from [name] if attr.startswith("create_") else []


def test_metrics_and_their_attributes_exist() -> None:
    """With the names under which they are exported: states and durations, and the age of late events."""
    texts = {name: query.text for name, query in _QUERIES.items() if "AppMetrics" in query.text}
    assert sorted(texts) == ["late-events", "task-counts", "task-durations"]
    for text in texts.values():
        filtered = next(line for line in text.splitlines() if line.startswith("| where Name "))
        named = set(re.findall(r'"([^"]+)"', filtered))
        assert named
        assert named <= {*_instruments()}
        assert set(re.findall(r'Properties\["([^"]+)"\]', text)) <= set(Field)


_WORKBOOK = (REPOSITORY / "infra/workbook/workbook.json").read_text(encoding="utf-8")
#: The parts of the workbook, and the query of each; the others show metrics of Service Bus.
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


def test_workbook_shows_each_part_from_its_query() -> None:
    """It contains no query of its own: it names the files, and only summarises or sorts."""
    shown = {}
    for item in json.loads(_WORKBOOK)["items"]:
        if item["type"] in {3, 10}:
            placed = re.match(r"<([\w-]+)>", item["content"].get("query", ""))
            shown[item["name"]] = placed[1] if placed else None
    assert shown == _SHOWN
    assert not re.search(r"App(Traces|Requests|Metrics)|Message", _WORKBOOK.replace("Messages", ""))


def test_every_name_in_the_workbook_is_filled() -> None:
    """The template has a value for each, and every query is used, here or by an alert."""
    [workbook] = [each for each in WATCHING.deployments() if each.template.path.stem == "workbook"]
    fillings = properties_of(workbook.value_of("fillings"))
    named = frozenset(re.findall(r"<([\w-]+)>", _WORKBOOK))
    alerted = {each["query"] for each in (*DECLARED["log"], *DECLARED["hub"])}
    assert fillings.keys() == {*_QUERIES, "workspaceId", "componentId", "namespaceId"}
    assert named <= fillings.keys() <= named | alerted
    assert {name: fillings[name] for name in _QUERIES} == {
        name: query.text for name, query in _QUERIES.items()
    }


_RUNBOOK = (REPOSITORY / "docs/operations.md").read_text(encoding="utf-8")
_APPLICATION = "the application's identity"

#: The table's names for the resources that roles are assigned on.
_SCOPES = {
    "Microsoft.ServiceBus/namespaces/queues": "each queue",
    "Microsoft.EventHub/namespaces/eventhubs": "each hub",
    "Microsoft.Insights/components": "Application Insights component",
    "Microsoft.DurableTask/schedulers/taskHubs": "task hub",
    "Microsoft.KeyVault/vaults": "vault",
}


def test_table_names_exactly_the_roles_that_are_assigned() -> None:
    """Each with its scope and its reason. A row without a name continues the one above."""
    table = _RUNBOOK.partition("## Who may do what")[2]
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    who, listed = "", set[tuple[str, str]]()
    for name, roles, scope, reason in (
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines
    ):
        assert all((roles, scope, reason)), name
        who = name or who
        if who == _APPLICATION:
            listed |= {(role.lower(), re.split(r",| \(", scope)[0]) for role in roles.split(", ")}
    assert listed == set(_assigned())


def _assigned() -> Iterator[tuple[str, str]]:
    """Yield the names of the assigned roles, and their scopes; only `storage-account.bicep` is the host's."""
    roles = properties_of(Deployment(REPOSITORY / "infra/modules/roles.bicep", {}).value_of("roles"))
    names = {str(role): re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower() for name, role in roles.items()}
    [environment] = [each for each in _INFRASTRUCTURE.environments if each.name == "with everything"]
    for each in environment.of("Microsoft.Authorization/roleAssignments"):
        is_host = each.template.stem == "storage-account"
        account = "host's storage account" if is_host else "state store's account"
        yield names[role_of(each)], _SCOPES.get(type_of(each.at("scope")), account)


def test_every_alert_has_its_section_in_the_runbook() -> None:
    """Under its name, with the operator's action first; the list has its severity.

    Each command that acts sends the required header, so it works when it is copied.
    """
    commands = re.findall(r"^ *curl -X POST .+(?:\\\n.+)*", _RUNBOOK, re.MULTILINE)
    assert commands
    assert [command for command in commands if f"-H '{OWN_HEADER}: " not in command] == []
    sections = re.findall(r"^## `([a-z-]+)`: .+?$(.+?)(?=^## )", _RUNBOOK, re.MULTILINE | re.DOTALL)
    assert sorted(name for name, _ in sections) == sorted(_ALERTS)
    for name, text in sections:
        assert text.lstrip().startswith("**Do.** "), name
        assert "**Look at**" in text, name
    rows = re.findall(r"^\| \[`([a-z-]+)`\]\(#.+\) \| (\d) \|", _RUNBOOK, re.MULTILINE)
    severities = {name: alert.at("properties", "severity") for name, alert in _ALERTS.items()}
    assert {name: int(severity) for name, severity in rows} == severities
