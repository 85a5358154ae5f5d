"""The planned alerts: what each detects, and that each reaches the operators."""

from __future__ import annotations

import json
from typing import Any

import pytest

from functions.settings import Settings
from tests.infra.bicep.deployment import Deployment, Planned
from tests.infra.bicep.values import Unresolved
from tests.infra.watching.conftest import PARAMETERS, ROOT, TEMPLATE
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
    "agent-silent": (None, "Count", "GreaterThan", 0),
    "tasks-late-together": (None, "Count", "GreaterThan", 0),
    "orders-refused": (None, "Count", "GreaterThan", 0),
    "reply-refused": (None, "Count", "GreaterThan", 0),
    "rows-unreadable": (None, "Count", "GreaterThan", 0),
    "tasks-in-error": (None, "Count", "GreaterThan", 0),
    "failed-compensation": (None, "Count", "GreaterThan", 0),
    "supervisor-silent": (None, "Count", "GreaterThan", 0),
    "overdue-tasks": ("OldestOverdue", "Maximum", "GreaterThan", 90),
    "open-breaker": (None, "Count", "GreaterThan", 0),
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
    "agent-silent",
    "failed-compensation",
    "message-lost",
    "reply-refused",
    "rows-unreadable",
    "tasks-in-error",
    "tasks-late-together",
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


def test_an_error_raises_one_alert(plan: list[Planned]) -> None:
    """The task was either carried out or undone."""
    asked = {name: dimensions(alerts(plan)[name]) for name in ("tasks-in-error", "failed-compensation")}
    assert asked == {
        "tasks-in-error": {"Workflow": ["*"], "Direction": ["do"]},
        "failed-compensation": {"Workflow": ["*"], "Direction": ["undo"]},
    }


def test_each_service_and_queue_has_its_own_alert(plan: list[Planned]) -> None:
    """While one alert is active, another service or queue still raises its own."""
    found = alerts(plan)
    assert dimensions(found["open-breaker"]) == {"Service": ["*"], "State": ["open"]}
    assert dimensions(found["message-lost"]) == {"Queue": ["*"]}
    assert dimensions(found["old-messages"]) == {"Queue": ["*"]}


def test_windows_include_late_rows(plan: list[Planned]) -> None:
    """Telemetry arrives minutes late, so a log alert's window is longer than its interval."""
    for name, alert in alerts(plan).items():
        if alert.type == LOG_ALERT:
            assert alert.at("properties", "evaluationFrequency") == "PT5M", name
            assert alert.at("properties", "windowSize") in {"PT10M", "PT15M"}, name


def test_alerts_resolve_automatically(plan: list[Planned]) -> None:
    """Operators need not close them."""
    assert {alert.at("properties", "autoMitigate") for alert in alerts(plan).values()} == {True}
