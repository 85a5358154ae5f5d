"""What was seen in a run is in a file, so that whoever finds a violation can find out why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.chaos.evidence.dispatches import Dispatch, Request
from tests.chaos.evidence.kept import keep
from tests.chaos.invariants import violations
from tests.chaos.sample_evidence import ORDER, POISON, after, compensated


def test_evidence_is_kept_with_what_it_violates(tmp_path: Path) -> None:
    """Each call with its sending, each row, also of epochs that have ended, and bytes that are no text."""
    first = Dispatch("payment", "do", after(1), after(9))
    broken_bytes = ({"MessageID": POISON.id, "Body0": b"\xff"},)
    evidence = replace(compensated(), notices=(), asked={ORDER: {Request(1, first)}}, rejected=broken_bytes)
    kept = json.loads(keep(evidence, violations(evidence), tmp_path).read_bytes())
    assert kept["violations"][0]["order"] == ORDER
    assert [call["key"].rpartition("/")[2] for call in kept["calls"]] == ["do", "do", "undo"]
    assert all(call["sending"]["at"] == call["arrived"] for call in kept["calls"])
    assert [epoch["EndedBy"] for epoch in kept["tasks"][ORDER]["history"]] == ["recovered", "exhausted"]
    assert kept["asked"][ORDER][0]["dispatch"]["step"] == "payment"
