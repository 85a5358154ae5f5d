"""The kit: wrong Agents that it passes, right ones that it fails, and what it does with odd options."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from local.agent_check.replies import content_of
from local.agent_check.shell import count_effects
from local.platform import ROOT
from tests.local.agent_check.faults import Planted, plant
from tests.local.agent_check.samples import PYTHON_SAMPLE, check, lock_the_ledger

pytestmark = [pytest.mark.process, pytest.mark.timeout(500)]

_TOMBSTONE = """        ledger.execute("INSERT OR REPLACE INTO payments VALUES (?, 'undone')", (key,))\n"""
_LATE = '    if is_late(request) and not (once and state_of(ledger, request)[1]):\n'
_REPLY = "            reply = answer(ledger, request)\n"
_SEND = "                replies.send_messages(ServiceBusMessage(json.dumps(reply)))\n"
_BUSY = """    except sqlite3.OperationalError:  # busy for longer than the timeout: a transient fault
        return None
"""

WRONG = {
    # Rule 2: "remember that it is undone, and refuse the do when it arrives" - here a payment that was made and
    # paid back is forgotten, so its do (which arrives at least once) takes the money again.
    "forgets a payment that it paid back": Planted(
        (
            (
                _TOMBSTONE,
                "        if state == 'paid':\n"
                '            ledger.execute("DELETE FROM payments WHERE key = ?", (key,))\n'
                "        else:\n    " + _TOMBSTONE,
            ),
        ),
        "",
    ),
    # "From then on nothing may be started": rule 7 tells late what is *known*, it begins nothing late.
    "begins late what must not be repeated": Planted(
        ((_LATE, "    if is_late(request) and not once:\n"),), ""
    ),
    # The same, for an undo.
    "undoes and replies after complete-by": Planted(
        (
            (_LATE, '    undo = request["effect_key"].endswith("/undo")\n' + _LATE.replace("and not", "and not undo and not")),
            ("    if is_late(request) and not once:\n", "    if is_late(request) and not once and not undo:\n"),
        ),
        "",
    ),
    # Rule 5: "Do the work, send the reply, then complete the message."
    "replies before the effect": Planted(
        (
            (
                _REPLY,
                '            if request["effect_key"].endswith("/do") and not is_late(request):\n'
                "                if not state_of(ledger, request)[1]:\n"
                "                    early = {name: request[name] for name in ECHOED}\n"
                '                    early |= {"outcome": "completed",\n'
                '                              "result": {"reference": state_of(ledger, request)[0]}}\n'
                "                    replies.send_messages(ServiceBusMessage(json.dumps(early)))\n"
                "                    answer(ledger, request)\n"
                "                    requests.complete_message(message)\n"
                "                    continue\n" + _REPLY,
            ),
        ),
        "",
    ),
    # The application refuses each of them, keeps a row, and alerts; the kit's own broker has nobody else on it.
    "sends another reply that fits no schema": Planted(
        ((_SEND, _SEND + '                replies.send_messages(ServiceBusMessage(json.dumps({"log": "paid"})))\n'),), ""
    ),
    # "Read 1 too"; the kit only ever sends 2.
    "leaves requests of schema 1 to the dead letters": Planted(
        (('if request["schema_version"] not in (1, 2):', 'if request["schema_version"] != 2:'),), ""
    ),
    # Rule 5: "renew it while you work"; no check of the kit works for longer than a lock.
    "renews no lock": Planted(
        (('"agent-payment-requests", auto_lock_renewer=renewer', '"agent-payment-requests"'),), ""
    ),
    # The state is looked up before others are kept out: of two at once, both take the money.
    "looks before it locks": Planted(
        (
            (
                "    with transaction(ledger):\n        key, state = state_of(ledger, request)\n"
                '        if state == "undone"',
                "    key, state = state_of(ledger, request)\n    with transaction(ledger):\n"
                '        if state == "undone"',
            ),
            (
                """            ledger.execute("INSERT INTO payments VALUES (?, 'paid')", (key,))\n""",
                """            ledger.execute("INSERT OR IGNORE INTO payments VALUES (?, 'paid')", (key,))\n""",
            ),
        ),
        "",
    ),
    # Rule 3: "Do not send `failed`" for a transient fault.
    "refuses for good when its service is slow": Planted(
        (
            (_BUSY, '    except sqlite3.OperationalError:\n        outcome = {"outcome": "failed", "error": "busy"}\n'),
            ("timeout=10", "timeout=1"),
        ),
        "",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_agent_is_not_passed(name: str, tmp_path: Path) -> None:
    """The kit's exit code says that a rule is broken."""
    agent = plant(WRONG[name], tmp_path)
    run = f"{sys.executable} {agent}"
    report = check(tmp_path, f"exec {run}", "--effects", f"{run} effects", "--hold", lock_the_ledger(tmp_path))
    print(report.text)
    assert report.code == 1, report.text


def test_tombstone_in_memory_is_not_passed(tmp_path: Path) -> None:
    """It is lost with the process."""
    changes = (
        (_TOMBSTONE, "        UNDONE.add(key)\n        if state == 'paid':\n    " + _TOMBSTONE),
        ('        if state == "undone":\n', '        if state == "undone" or key in UNDONE:\n'),
        ("class Refused(", "UNDONE = set()\n\n\nclass Refused("),
    )
    agent = plant(Planted(changes, ""), tmp_path)
    run = f"{sys.executable} {agent}"
    options = ("--effects", f"{run} effects", "--hold", lock_the_ledger(tmp_path), "--processes", "1")
    report = check(tmp_path, f"exec {run}", *options)
    print(report.text)
    assert report.code == 1, report.text


_SAMPLE = f"exec {sys.executable} {PYTHON_SAMPLE}"
_NOBODY = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=a;UseDevelopmentEmulator=true"


@pytest.mark.parametrize(
    ("agent", "options"),
    [
        ("payment", ("--connection", "rubbish")),
        ("payment", ("--connection", _NOBODY)),
        ("Pay_Ment", ()),
    ],
    ids=["no connection string", "nobody there", "no name of an Agent"],
)
def test_what_the_kit_cannot_do_is_not_a_broken_rule(agent: str, options: tuple[str, ...], tmp_path: Path) -> None:
    """`docs/agents/README.md`: exit code 1 is a broken rule, 2 a refusal; neither is a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "local", "agent-check", agent, "--run", _SAMPLE, *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stderr[-3000:])
    assert "Traceback" not in done.stderr
    assert done.returncode == 2


RIGHT = {
    # 0.4 s for a payment, one after another: 200 requests take two processes 40 s. Each has 120 s.
    "takes its time": (
        Planted(((_REPLY, "            time.sleep(0.4)\n" + _REPLY),), "two hundred side by side"),
        "two hundred side by side",
    ),
    # As one does that is compiled first, or loads much; its requests have 120 s.
    "starts slowly": (
        Planted((("    ledger = open_ledger()\n    if sys", "    if not sys.argv[1:]:\n        time.sleep(35)\n    ledger = open_ledger()\n    if sys"),), "a request"),
        "a request",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_agent_is_passed(name: str, tmp_path: Path) -> None:
    """The rules of `docs/agents.md` ask for nothing but the complete-by."""
    fault, line = RIGHT[name]
    agent = plant(fault, tmp_path)
    run = f"{sys.executable} {agent}"
    report = check(tmp_path, f"exec {run}", "--effects", f"{run} effects", "--only", line)
    print(report.text)
    assert report.code == 0, report.text


def test_deep_reply_does_not_end_the_kits_hearing() -> None:
    """What raises here ends `Desk._listen`: each later check then says that there was no reply."""
    assert content_of(b"[" * 100_000) == {}


async def test_effects_in_two_ledgers_are_two() -> None:
    """Two processes, each with a ledger of its own: the command prints both, and the kit counts one."""
    counts = await count_effects("printf 't-1.3f9a0c27/payment/do 1\\nt-1.3f9a0c27/payment/do 1\\n'")
    assert counts["t-1.3f9a0c27/payment/do"] == 2
