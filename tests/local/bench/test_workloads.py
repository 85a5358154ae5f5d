"""The measured apps differ from the application by their workflow only."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from local.bench.five_steps.workflow import PARCEL, PARCELS
from local.bench.workloads import FIVE_STEPS, ORDERS, Workload
from local.platform import ROOT


@pytest.mark.parametrize("workload", [ORDERS, FIVE_STEPS])
def test_an_app_has_the_host_json_and_the_queues_of_the_application(
    workload: Workload, tmp_path: Path
) -> None:
    """And four shards, for which the cost of many orders is promised."""
    options = workload.options(tmp_path)
    assert (options.app / "host.json").read_bytes() == (ROOT / "host.json").read_bytes()
    assert (options.app / "function_app.py").read_bytes() == workload.function_app.read_bytes()
    assert options.queues == ROOT / "infra" / "queues.json"
    assert options.settings["STATE_SHARDS"] == "4"


def test_the_five_steps_run_in_order() -> None:
    """Each needs the one before, and its request is the whole payload."""
    steps = PARCELS.steps
    assert [step.needs for step in steps] == [frozenset(), *(frozenset({step.name}) for step in steps[:-1])]
    parcel: BaseModel = PARCELS.payload.model_validate(PARCEL)
    assert [step.request(parcel, {}) for step in steps] == [PARCEL] * 5
