"""The samples of Agents, run by the kit as a newcomer would run them, also with planted faults."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from local.agent_check.command import CheckVerdict
from local.platform import ROOT

SAMPLES = ROOT / "docs" / "agent-samples"
PYTHON_SAMPLE = SAMPLES / "python" / "payment_agent.py"
#: Keeps everybody else out of a ledger in SQLite while it runs.
_LOCK = """
import sqlite3, time
ledger = sqlite3.connect("payments.db", timeout=30, isolation_level=None)
ledger.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
time.sleep(600)
"""
#: An Agent whose ledger is locked until the deadline has not begun, and rightly replies `not_taken`.
#: `test_samples.py` sees this check pass, and fail.
GIVES_UP_A_BUSY_LEDGER = frozenset({"sent once work that ends late"})
#: Seconds of the queue's lock: short, for early redeliveries and timeouts.
_LOCK_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Report:
    """What the kit printed, and its exit code."""

    code: int
    printed: str

    @property
    def text(self) -> str:
        """Return what was printed, the reasons first: a test's log may show the beginning only."""
        told = [f"{check}: {reason}" for check, reason in self.reasons().items()]
        return "\n".join([*told, self.printed])

    def checks(self, verdict: str) -> set[str]:
        """Return the checks that ended with `verdict`, from the lines of progress."""
        lines = self.printed.partition("\nThe Agent ")[0].splitlines()
        return {line.removeprefix(verdict).strip() for line in lines if line.startswith(f"{verdict} ")}

    def reasons(self) -> dict[str, str]:
        """Return what the report says of each check that did not pass."""
        lines = self.printed.partition("\nThe Agent ")[2].splitlines()
        bad = re.compile(rf"(?:{CheckVerdict.FAILED}|{CheckVerdict.HINDERED}) +([^:]+): (.*)")
        return {found[1]: found[2] for found in map(bad.match, lines) if found}


def javascript_sample() -> list[str]:
    """Return the command of the sample in JavaScript; skips the test where its packages are missing."""
    for package in ("@azure/service-bus", "libsql"):
        if shutil.which("node") is None or not (ROOT / "node_modules" / package).exists():
            assert "CI" not in os.environ, f"{package} is not installed"
            pytest.skip(f"not run: {package} is not installed")
    return ["node", str(SAMPLES / "javascript" / "payment_agent.mjs")]


def go_sample(folder: Path) -> list[str]:
    """Build the sample in Go, and return its command; skips the test where that can't be done."""
    if shutil.which("go") is None:
        pytest.skip("not run: go is not on PATH")
    agent = folder / "agent"
    built = subprocess.run(
        ["go", "build", "-o", agent, "."], cwd=SAMPLES / "go", capture_output=True, text=True, check=False
    )
    if built.returncode and "dial tcp" in built.stderr:
        pytest.skip(f"not run: go can't download the client: {built.stderr}")
    assert built.returncode == 0, built.stderr
    return [str(agent)]


def lock_the_ledger(folder: Path) -> str:
    """Return the command that holds up an Agent whose ledger is SQLite."""
    (folder / "lock.py").write_text(_LOCK, encoding="utf-8")
    return f"exec {sys.executable} lock.py"


def check(folder: Path, run: str, *options: str) -> Report:
    """Run the kit in a folder, which gets the ledger."""
    done = subprocess.run(
        [sys.executable, "-m", "local", "agent-check", "payment", "--run", run, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return Report(done.returncode, done.stdout)


def keeps_every_rule(report: Report, may_be_unseen: frozenset[str]) -> None:
    """See that every check was run and passed."""
    assert report.checks("FAILED") == set(), report.text
    assert report.checks("not seen") <= may_be_unseen, report.text
    assert report.code == 0, report.text


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
    changes: list[tuple[str, str]], only: list[str], folder: Path, processes: int, lock: int = _LOCK_SECONDS
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
    """Return each fault with its Agent, as a test's parameters."""
    return [pytest.param(agent, fault, id=name) for agent in agents for name, fault in agent.faults.items()]


def is_found(fault: Planted, report: Report) -> None:
    """Assert that the check of a fault fails with the fault's text; other checks may fail too."""
    assert fault.says in report.reasons().get(fault.found_by, "not found"), report.text
    assert report.code == 1
