"""Agents with planted faults: the sample with changes of its text, each of which a check of its own finds."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.local.agent_check.samples import PYTHON_SAMPLE, Report, check, lock_the_ledger

#: Seconds of the queue's lock: what is lost comes again, and what is missing is given up, sooner.
_LOCK = 5


@dataclass(frozen=True, slots=True)
class Planted:
    """A change of the sample's text (old, new), the check that finds it, and what that says."""

    changes: tuple[tuple[str, str], ...]
    found_by: str
    says: str


def fault(line: str, *texts: str) -> Planted:
    """Plant a fault that the line of a check reports: each text of the sample, then its replacement."""
    found_by, _, says = line.partition(": ")
    return Planted(tuple(zip(texts[::2], texts[1::2], strict=True)), found_by, says)


@dataclass(frozen=True, slots=True, eq=False)
class WrongAgent:
    """Faults that share a run of the kit, as none hides another; `also` names checks that bring them out."""

    faults: Mapping[str, Planted]
    processes: int = 2
    also: tuple[str, ...] = ()

    def check(self, folder: Path) -> Report:
        """Run the checks that are to find the faults."""
        changes = [change for fault in self.faults.values() for change in fault.changes]
        chosen = {fault.found_by for fault in self.faults.values()} | set(self.also)
        return check_changed(changes, sorted(chosen), folder, self.processes)


def check_changed(
    changes: list[tuple[str, str]], only: list[str], folder: Path, processes: int, lock: int = _LOCK
) -> Report:
    """Run the kit on the sample with changes; a text that it does not have is an error."""
    text = PYTHON_SAMPLE.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    agent = folder / "changed_agent.py"
    agent.write_text(text, encoding="utf-8")
    run = f"{sys.executable} {agent}"
    chosen = [word for name in only for word in ("--only", name)]
    commands = ("--effects", f"{run} effects", "--hold", lock_the_ledger(folder))
    return check(
        folder, f"exec {run}", *commands, *chosen, "--processes", str(processes), "--lock", str(lock)
    )


def faults_of(agents: Iterable[WrongAgent]) -> list[pytest.ParameterSet]:
    """Give each fault with its Agent, as a test's parameters."""
    return [pytest.param(agent, fault, id=name) for agent in agents for name, fault in agent.faults.items()]


def is_found(fault: Planted, report: Report) -> None:
    """See that the check named for a fault finds it, by what it says; others may fail with it."""
    assert fault.says in report.reasons().get(fault.found_by, "not found"), report.text
    assert report.code == 1
