"""Alerts of refused replies: once an hour for each Agent and kind of fault."""

from __future__ import annotations

import json

from tests.unit.scheduler.test_refused_replies import RIGHT
from tests.unit.scheduler.test_replies import Bench


async def test_alert_comes_again_after_an_hour_whoever_sent_the_last() -> None:
    """One instance alerts at 0:00; the other has a fault at 0:59, which is not due, and one at 1:01, which is."""
    one, other = Bench(), Bench()
    other.times.kept = one.times.kept
    body = json.dumps(RIGHT | {"more": 1}).encode()
    await one.taker.take("m-1", body, one.schedulers)
    other.clock.advance(59 * 60)
    await other.taker.take("m-2", body, other.schedulers)
    assert (len(one.refusals.alerts), len(other.refusals.alerts)) == (1, 0)
    for _ in range(5):  # and until 1:56
        other.clock.advance(11 * 60)
        await other.taker.take("m-3", body, other.schedulers)
    assert len(other.refusals.alerts) == 1
