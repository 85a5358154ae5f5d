"""`python -m local bench`: two tables, a flame graph, an exit code, and nothing left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from local.platform import ROOT

pytestmark = pytest.mark.process

_BENCH = (sys.executable, "-m", "local", "bench", "--hosts", "2", "--in-memory")
#: Three platforms start one after the other, on a machine that may be busy.
_WHOLE_RUN = 600


@pytest.mark.timeout(_WHOLE_RUN)
def test_a_run_prints_two_tables_and_writes_the_flame_graph(tmp_path: Path) -> None:
    """Each workload has its costs, and exit code 0 says that every order was processed."""
    graph = tmp_path / "host.svg"
    run = subprocess.run(
        [*_BENCH, "--orders", "10", "--spike", "1000", "--profile", str(graph)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for count in ("table transactions", "rows written", "Durable history events"):
        phases = re.findall(rf"{count} an order +│ +([\d.]+) +│ +([\d.]+) ", run.stdout)
        assert [min(map(float, costs)) > 0 for costs in phases] == [True] * 4
    assert re.search("one at a time.+10 at once.+half of that rate.+10 orders/s ", run.stdout, re.DOTALL)
    cpu: dict[str, list[float]] = {}
    for process in ("host", "host-2", "broker", "azurite", "client", "all hosts"):
        loads = re.findall(rf"CPU an order, {process} \(ms\) +│ +([\d.]+) +│ +([\d.]+) ", run.stdout)
        assert len(loads) == 4
        cpu[process] = [float(load) for phase in loads for load in phase]
        memory = re.search(rf"memory, {process} +│ [1-9]\d* MiB +│ [1-9]\d* MiB ", run.stdout)
        assert (memory is None) == (process == "all hosts")
    sums = map(sum, zip(cpu["host"], cpu["host-2"], strict=True))
    assert cpu["all hosts"] == pytest.approx(list(sums), abs=0.02)
    assert min(cpu["host-2"]) > 0
    assert re.search(r"longest garbage collection \(CPU\) +│ [\d.]+ ms +│ [\d.]+ ms ", run.stdout)
    assert re.search(r"not accepted, lost +│ 0, 0 ", run.stdout)
    assert re.search(r"a spike of 1000 orders +│ [\d,]+/s ", run.stdout)
    assert re.search(r"azure-functions-durable [\d.]+, ", run.stdout)
    assert "<svg" in graph.read_text()
    assert [path.name for path in tmp_path.iterdir()] == [graph.name]
