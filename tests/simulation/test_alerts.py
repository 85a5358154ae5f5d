"""Alerts of a summary are counted once, also when the summary is posted again."""

from __future__ import annotations

from tests.simulation.checks.alerts import posted, unnamed


def test_summary_that_is_posted_again_excuses_no_other_alert() -> None:
    """The largest count of a summary counts; alerts of lost messages are not counted."""
    causes = "operator alert: orders: Error: (no) money ({}); message lost: queue (7); other causes (2)"
    body = {"event": "more alerts", "alerts": 99, "since": "2026-01-01T12:00:00Z"}
    again = [posted({**body, "causes": causes.format(count)}) for count in (19, 20)]
    other = posted({**body, "since": "2026-01-01T12:05:00Z", "causes": causes.format(1)})
    assert unnamed([*again, other]) == 25
