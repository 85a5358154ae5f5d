"""The kit passes for the sample in Python."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.local.agent_check.samples import (
    GIVES_UP_A_BUSY_LEDGER,
    PYTHON_SAMPLE,
    check,
    keeps_every_rule,
    lock_the_ledger,
)

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]


def test_python_keeps_every_rule(tmp_path: Path) -> None:
    """It needs the client of Service Bus only."""
    run = f"exec {sys.executable} {PYTHON_SAMPLE}"
    effects = f"{sys.executable} {PYTHON_SAMPLE} effects"
    report = check(tmp_path, run, "--effects", effects, "--hold", lock_the_ledger(tmp_path))
    keeps_every_rule(report, GIVES_UP_A_BUSY_LEDGER)


#: Its first completion finds the receiver as the client leaves it when a renewal meets a lost connection.
_CLOSED = """
import runpy, sys
from azure.servicebus import ServiceBusReceiver
complete, closed = ServiceBusReceiver.complete_message, []
def complete_message(receiver, message):
    if not closed:
        closed.append(receiver._close_handler())
    complete(receiver, message)
ServiceBusReceiver.complete_message = complete_message
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_python_goes_on_when_it_can_not_settle(tmp_path: Path) -> None:
    """The client then raises no error of its own kind."""
    (tmp_path / "closed.py").write_text(_CLOSED)
    run = f"exec {sys.executable} closed.py {PYTHON_SAMPLE}"
    report = check(tmp_path, run, "--processes", "1", "--only", "the same request once more")
    assert report.checks("FAILED") == set(), report.text
