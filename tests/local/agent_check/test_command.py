"""The command: what it refuses, what it says when it can't look, and how long it waits."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console

from local.agent_check.checks import messages
from local.agent_check.command import STAGES, Check, CheckResult, CheckVerdict, show_report
from local.agent_check.commands import CommandFailedError, count_effects, holding
from local.agent_check.kit import AgentCheckOptions, ReplyTimeout
from local.agent_check.queues import content_of
from local.command_line import main
from local.platform import ROOT
from servicebus_local.config import read_config
from servicebus_local.testing import running_broker
from tests.local.agent_check.samples import PYTHON_SAMPLE, check
from tests.local.platform.processes import descendants, left_running

_NOBODY = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=a;UseDevelopmentEmulator=true"
_RUN = f"exec {sys.executable} {PYTHON_SAMPLE}"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--run", " "], "--run names no command"),
        (["--lock", "4"], "--lock 4: a queue's lock is 5 s to 5 min"),
        (["--lock", "301"], "--lock 301: a queue's lock is 5 s to 5 min"),
        (["--only", "everything"], "There is no check 'everything'"),
        (["--request", "nowhere.json"], "nowhere.json can't be read"),
        (["--request", "[]"], "can't be read: the request is of type list"),
        (["--request", "{"], "can't be read: EOF while parsing"),
        (["--request", '{"amount": NaN}'], "request.amount has a number that is no finite double"),
        (["--connection", "rubbish"], "agent-payment-requests and agent-replies can't be opened"),
        (["--connection", _NOBODY], "agent-payment-requests and agent-replies can't be opened"),
        (["Pay_Ment"], "'Pay_Ment' is not the name of an Agent"),
    ],
)
def test_what_makes_no_sense_is_refused(
    options: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With code 2, before the Agent is started."""
    monkeypatch.chdir(tmp_path)
    if options[0] == "--request" and options[1] != "nowhere.json":
        Path("request.json").write_text(options[1])
        options = ["--request", "request.json"]
    given = options if options[0] == "Pay_Ment" else ["payment", *options]
    assert main(["agent-check", *given, *(() if "--run" in given else ("--run", "false"))]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.process
def test_the_agent_receives_the_given_request(tmp_path: Path) -> None:
    """The Agent receives only this request."""
    (tmp_path / "request.json").write_text('{"customer": "C-7", "amount": "0.01", "currency": "EUR"}')
    report = check(tmp_path, _RUN, "--request", "request.json", "--only", "a request")
    assert report.code == 0, report.text
    with closing(sqlite3.connect(tmp_path / "payments.db")) as ledger:
        assert ledger.execute("SELECT DISTINCT amount FROM movements").fetchall() == [("0.01",)]


def test_report_is_coloured_on_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line has its verdict in words."""
    words = "because " * 30
    findings = [CheckResult(verdict.name, verdict, words) for verdict in CheckVerdict]
    for terminal in (False, True):
        show_report(findings, AgentCheckOptions("payment", "./agent"), Console(force_terminal=terminal))
        text = capsys.readouterr().out
        assert ("\x1b[" in text) is terminal
        assert (text.count(words) == len(findings)) is not terminal  # no line is broken, to be searched
        assert all(verdict in text for verdict in CheckVerdict)
        assert "judged by the replies" in text


@pytest.mark.night
@pytest.mark.process
@pytest.mark.parametrize(
    ("option", "command"),
    [("--effects", "exit 7"), ("--hold", "exit 7"), ("--hold", "echo held; exec sleep 60")],
)
def test_a_command_that_fails_ends_with_code_2(option: str, command: str, tmp_path: Path) -> None:
    """The report names it: it is neither a broken rule nor one that is kept."""
    report = check(tmp_path, _RUN, option, command, "--only", "ended after complete by")
    assert report.checks("FAILED") == set(), report.text
    assert report.checks("hindered") == {"a request" if option == "--effects" else "ended after complete by"}
    assert option in report.text
    assert report.code == 2


@pytest.mark.night
@pytest.mark.process
def test_an_agent_that_does_not_start_ends_with_code_1(tmp_path: Path) -> None:
    """Its end is in the report, with the line that tells most; the other checks were not run."""
    run = "echo >> starts; echo 'Error: no such program'; echo '  at a stack'; exit 3"
    report = check(tmp_path, run)
    assert report.code == 1
    assert report.checks("FAILED") == {"a request", "it stays up"}
    assert report.checks("not seen") == {"replies echo their requests", "replies fit the schema"}
    assert "exit code 3: Error: no such program" in report.text
    assert len((tmp_path / "starts").read_text()) in (6, 7)  # it stops at the sixth end of one of the two
    assert "not run: the first check did not pass" in report.text


@pytest.mark.night
@pytest.mark.process
def test_an_agent_that_is_not_killed_ends_with_code_2(tmp_path: Path) -> None:
    """It left its process group: without a crash, no check of crashes has anything to see."""
    run = f"setsid sh -c 'echo $$ >> pids; {_RUN}' & sleep 1000"
    crash = "the ledger outlives the agent"
    try:
        report = check(tmp_path, run, "--only", crash, "--processes", "1")
    finally:
        for pid in (tmp_path / "pids").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    assert report.checks("FAILED") == set(), report.text
    assert report.checks("hindered") == {crash}
    assert "--run must stay in the foreground" in report.text
    assert report.code == 2


@pytest.mark.night
@pytest.mark.process
@pytest.mark.timeout(300)
def test_a_foreign_broker_is_not_stopped(tmp_path: Path) -> None:
    """The kit names the checks that it can't run there, and succeeds."""
    with running_broker(read_config(ROOT / "infra" / "queues.json")) as broker:
        report = check(tmp_path, _RUN, "--connection", broker.connection_string, "--processes", "1")
    assert report.checks("not seen") == {
        "a timeout is no refusal",
        "ended after complete by",
        "sent once work that ends late",
        "killed before it settled",
        "what is sent once killed at its reply",
        "a lock is renewed",
        "the broker killed and back",
    }
    assert report.checks("FAILED") == set(), report.text
    assert report.code == 0


@pytest.mark.night
@pytest.mark.process
def test_a_broker_that_goes_away_ends_with_code_2(tmp_path: Path) -> None:
    """It was not the Agent: one line says so, and the report what was found before."""
    with running_broker(read_config(ROOT / "infra" / "queues.json")) as broker:
        kit = _started(tmp_path, "--connection", broker.connection_string)
        assert kit.stdout
        assert kit.stdout.readline() == "passed a request\n"
    told, errors = kit.communicate()
    assert kit.returncode == 2, told
    assert "passed    a request" in told
    assert "two hundred side by side: not run: the broker went away" in told
    assert told.splitlines()[-1].startswith("The broker went away. The queues agent-payment-requests and")
    assert "FAILED" not in told
    assert "Traceback" not in errors, errors


@pytest.mark.process
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    """The broker and the Agent end; the exit code is the shell's for SIGINT, and the results are printed."""
    with _started(tmp_path) as kit:
        assert kit.stdout
        assert kit.stdout.readline() == "passed a request\n"
        started = descendants(kit.pid)
        kit.send_signal(signal.SIGINT)
        told = kit.stdout.read()
        assert kit.wait() == 130
    assert "passed    a request" in told
    assert "rubbish: not run: stopped" in told
    assert told.endswith("stopped\n")
    assert len(started) > 3  # the kit, its watchdogs, the broker, the Agent
    assert left_running(started) == []


def _started(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "local", "agent-check", "payment", "--run", _RUN, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


_PAGE = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
_CHECKS = [check for stage in STAGES for check in stage if check is not messages.it_stays_up]


@pytest.mark.parametrize("check", _CHECKS)
def test_check_names_its_rule(check: Check) -> None:
    """A rule by its number, or a section: the line of a broken rule ends with it."""
    named = re.search(r"\((?:rule (\d)|(The \w+))\)\.$", check.__doc__ or "")
    assert named
    assert f"\n{named[1]}. **" in _PAGE if named[1] else f"\n### {named[2]}\n" in _PAGE


async def test_what_commands_and_replies_print_is_read(tmp_path: Path) -> None:
    """Two processes with a ledger each are two effects. A count is a number from 0 on, in digits.

    A line that holds may be longer than one read; a command that ends within it does not hold. A reply that
    is nested too deeply does not end the kit's listening.
    """
    (tmp_path / "counts").write_text("t-1.3f9a0c27/payment/do 1\n" * 2)
    assert await count_effects(f"cat {tmp_path}/counts") == {"t-1.3f9a0c27/payment/do": 2}
    for line in ("t/payment/do -1", "t/payment/do 1_0", "0x1 t/payment/do"):
        with pytest.raises(CommandFailedError, match="a count"):
            await count_effects(f"echo '{line}'")
    async with holding(f"{sys.executable} -c \"print('x' * 200_000, flush=True); input()\"", Mock()):
        pass
    with pytest.raises(CommandFailedError, match="printed no line"):
        async with holding("printf held", Mock()):
            pass
    assert content_of(b"[" * 100_000) == {}


@pytest.mark.parametrize(
    ("lock", "needs", "seconds"), [(15, 0.1, 30), (15, 20, 100), (5, 0.1, 10), (5, 90, 300)]
)
def test_timeout_follows_the_agents_duration(lock: float, needs: float, seconds: float) -> None:
    """At least two locks, at most five minutes."""
    assert ReplyTimeout(lock, needs).seconds == seconds


def test_timeout_starts_again() -> None:
    """With what is heard, with the end of the locks after a crash, and when the Agent is back."""
    timeout = ReplyTimeout(15)
    assert timeout.ends(100, 90) == 130
    assert timeout.ends(100, 90, 300) == 400
    assert timeout.ends(100, 110, 300) == 140
    timeout.killed = 105
    assert timeout.ends(100, 110) == 150
    timeout.back = 130
    assert timeout.ends(100, 110) == 160
