"""A reader follows an order from `PUT` to `Processed` through a bounded number of files."""

from __future__ import annotations

import time
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path

import pytest

from local.bench.workloads import Workload
from local.callers.client import SAMPLE_DELIVERY, SAMPLE_ORDER, Body
from local.platform import Platform
from tests.e2e.caller import Caller, until_all_are
from tests.house.documents import ROOT

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

#: The payload is parsed, validated and serialized by the API, at the intake, and by each plan of a run.
_MOST_FILES, _MOST_LINES, _MOST_PAYLOADS = 45, 9_900, 13
_TIMERS = ("supervisor", "full_sweep", "intake", "queue_ages", "alert_summary", "old_rows", "purge")
_APP = Path(__file__).with_name("entered_files") / "function_app.py"


@pytest.mark.parametrize(
    ("resource", "body"),
    [("orders", SAMPLE_ORDER), ("deliveries", SAMPLE_DELIVERY)],
    ids=["behind a queue", "in the process"],
)
async def test_order_enters_a_bounded_number_of_files(resource: str, body: Body, tmp_path: Path) -> None:
    """Counted for each order but the first, without sample services and reads that serve many orders."""
    calls = tmp_path / "calls"
    settings = {"CALLS_FILE": str(calls), **{f"AzureWebJobs_{name}_Disabled": "true" for name in _TIMERS}}
    workload = Workload("entered files", _APP, resource, body, "", settings)
    async with Platform(workload.options(tmp_path)) as platform, Caller.of(platform) as caller:
        ends = []
        for number in range(1, 5):
            async with caller.session.put(f"/api/{resource}/o{number}", json=body) as answer:
                assert answer.status == HTTPStatus.ACCEPTED
            await until_all_are("Processed", platform, {f"o{each}" for each in range(1, number + 1)})
            ends.append(time.time())
    entries = [line.split(" ") for line in calls.read_text(encoding="utf-8").splitlines()]
    of_last = [file for at, file in entries if ends[-2] <= float(at) < ends[-1]]
    entered = [{file for at, file in entries if begin <= float(at) < end} for begin, end in pairwise(ends)]
    files = set.intersection(*entered) - {"payload"}
    files = {file for file in files if not file.startswith("services/")}
    lines = sum(len((ROOT / "functions" / file).read_text(encoding="utf-8").splitlines()) for file in files)
    payloads = of_last.count("payload")
    print(f"{resource}: {len(files)} files, {lines} lines, {payloads} payloads")  # noqa: T201 - `pytest -s` shows the figures
    assert (len(files) <= _MOST_FILES, lines <= _MOST_LINES) == (True, True), sorted(files)
    assert payloads <= _MOST_PAYLOADS
