"""2,000 tasks in `Error` for one cause are resubmitted from the console; the host is killed in the middle."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from local.platform import PartName
from tests.e2e.caller import rows, until_all_are
from tests.e2e.console.bench import Console, running
from tests.e2e.fleet.bench import PARCEL
from tests.e2e.recovery.bench import Bench

pytestmark = [
    pytest.mark.night,
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(1800),
]

_BATCH = 500
#: Seconds until the next is resubmitted, or processed: those under way in the kill may have to be recovered.
_PATIENCE = 300
_REASON = "the fleet is back"


@pytest.mark.parametrize(
    ("tasks", "begins_again"), [(2_000, False), (1_000, True)], ids=["gone on with", "begun again"]
)
async def test_two_thousand_are_resubmitted_through_a_kill(
    tmp_path: Path,
    browser: Browser,
    tasks: int,
    begins_again: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Progress is shown, all are processed, and each was resubmitted once, with the reason."""
    ids = {f"errand-{number}" for number in range(tasks)}
    async with running(tmp_path) as bench:
        await _refused(bench, ids)
        async with Console.of(browser, bench.platform.addresses.host) as console:
            await console.open("#/errors?workflow=errand")
            run = await _begun(console.page, f"{tasks:,}")
            await expect(run.get_by_text(re.compile(f"^[1-9][0-9,]+ of {tasks:,}: "))).to_be_visible()
            await bench.platform.kill(PartName.HOST)
            await expect(run.get_by_role("alert")).to_contain_text("Interrupted: not reachable.")
            assert 0 < await _progress(run) < tasks
            await bench.platform.start(PartName.HOST)
            if begins_again:
                await run.get_by_role("button", name="Close").click()
                run = await _begun(console.page, "[1-9][0-9]{0,2}")
            else:
                await run.get_by_role("button", name="Go on").click()
            await expect(run.get_by_role("alert")).to_contain_text("Finished.", timeout=_PATIENCE * 1_000)
            assert await run.get_by_text("refused:").all_text_contents() == []
            await until_all_are("Processed", bench.platform, ids, patience=_PATIENCE)
            await run.get_by_role("button", name="Close").click()
            await expect(console.page.get_by_text("No task is in Error here.")).to_be_visible()
        _check_audit(bench, ids)


async def _begun(page: Page, count: str) -> Locator:
    """Resubmit all of the one group, of which so many are counted."""
    group = page.get_by_role("listitem").filter(has_text="drone: drone answered 422")
    await group.get_by_role("button").click()
    dialog = page.get_by_role("dialog", name=re.compile(rf"^Resubmit {count} tasks\?$"))
    await dialog.get_by_label("Reason").fill(_REASON)
    await dialog.get_by_role("button", name=re.compile("^Resubmit ")).click()
    return page.get_by_role("dialog", name=re.compile(rf"^Resubmit {count} tasks$"))


async def _refused(bench: Bench, ids: set[str]) -> None:
    """Bring them into `Error`; then the service is back."""
    bench.remote.refusing.add("drone")
    orders = [{**PARCEL, "id": task} for task in sorted(ids)]
    for first in range(0, len(orders), _BATCH):
        batch = {"errands": orders[first : first + _BATCH]}
        async with bench.session.post("/api/errands/batch", json=batch) as answer:
            assert answer.status == 200, await answer.text()
    await until_all_are("Error", bench.platform, ids)
    bench.remote.refusing.clear()


async def _progress(run: Locator) -> float:
    value: float = await run.get_by_role("progressbar").evaluate("bar => bar.value")
    return value


def _check_audit(bench: Bench, ids: set[str]) -> None:
    """Each task has one resubmission on record, and had one effect."""
    closed = [row for row in rows(bench.platform, "Tasks") if "|epoch|" in row["RowKey"]]
    resubmitted = [row for row in closed if row["EndedBy"] == "resubmitted"]
    assert sorted(row["RowKey"].partition("|")[0] for row in resubmitted) == sorted(ids)
    assert {(row["Who"], row["Reason"]) for row in resubmitted} == {("operator", _REASON)}
    assert {row["EndedBy"] for row in closed} <= {"resubmitted", "recovered"}
    assert sorted(bench.remote.done) == sorted(f"{task}/drone/do" for task in ids)
