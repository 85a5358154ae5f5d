"""The measured apps differ from the application by their workflow only."""

from __future__ import annotations

from pathlib import Path

import pytest

from functions.workflow import Results
from local.bench.five_steps.workflow import PARCEL, PARCELS
from local.bench.workloads import FIVE_STEPS, ORDERS, Workload
from local.platform import ROOT


@pytest.mark.parametrize("workload", [ORDERS, FIVE_STEPS])
def test_an_app_has_the_host_json_and_the_queues_of_the_application(
    workload: Workload, tmp_path: Path
) -> None:
    """And its settings: orders cost here what they cost on the local platform."""
    options = workload.options(tmp_path)
    assert (options.app / "host.json").read_bytes() == (ROOT / "host.json").read_bytes()
    assert (options.app / "function_app.py").read_bytes() == workload.function_app.read_bytes()
    assert options.queues == ROOT / "infra" / "queues.json"
    sample = "local.settings.sample.json"
    assert (options.app / sample).read_bytes() == (ROOT / sample).read_bytes()


def test_the_five_steps_run_in_order() -> None:
    """Each needs the one before, and its request is the whole payload."""
    specs = PARCELS.specs
    assert [spec.needs for spec in specs] == [frozenset(), *(frozenset({spec.name}) for spec in specs[:-1])]
    parcel = PARCELS.payload.model_validate(PARCEL)
    requests = [step.request(parcel, Results({}, "")) for step in PARCELS.steps.values() if step.request]
    assert requests == [PARCEL] * 5
