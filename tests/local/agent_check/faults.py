"""Faults, planted in the sample by a change of its text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.local.agent_check.samples import PYTHON_SAMPLE

#: The lines of the sample that faults replace, or go beside.
_REPLY = "            reply = answer(ledger, request)\n"
_SEND = "                replies.send_messages(ServiceBusMessage(json.dumps(reply)))\n"
_SETTLE = "            requests.complete_message(message)\n"
_ANSWERED = "    return {name: request[name] for name in ECHOED} | outcome\n"
_DEAD_LETTER = 'requests.dead_letter_message(message, reason="not a request", error_description=why)'
_ALREADY = "        if state is None:\n"
_TOMBSTONE = """        ledger.execute("INSERT OR REPLACE INTO payments VALUES (?, 'undone')", (key,))\n"""
_FORGET = '            ledger.execute("DELETE FROM payments WHERE key = ?", (key,))\n'
_TAKEN_LATE = "    if is_late(request) and not (once and state_of(ledger, request)[1]):\n"
_LATE = "    if is_late(request) and not once:\n        return None\n"
_PARSED = '        request = json.loads(b"".join(message.body))\n'
_LEDGER = "    ledger = open_ledger()\n"
_KINDS = "    for name, kind in KINDS.items():\n"
_CONNECT = 'from_connection_string(os.environ["ServiceBusConnection"]'
_TAKEN = "        for message in requests:\n"
#: The row is there once, and the money moves each time.
_TWICE = """\
        ledger.execute("INSERT OR IGNORE INTO payments VALUES (?, 'paid')", (key,))
        move(ledger, request, amount)
        if False:
"""


@dataclass(frozen=True, slots=True)
class Planted:
    """A change: what of the sample's text is replaced by what, and the check that is to look at it."""

    changes: tuple[tuple[str, str], ...]
    found_by: str
    processes: int = 2
    #: What the report says besides.
    says: str = ""


FAULTS = {
    "settles before the effect": Planted(
        ((_REPLY, _SETTLE + _REPLY), (_SEND + _SETTLE, _SEND)), "killed before it settled"
    ),
    "replies with a new token": Planted(
        ((_ANSWERED, _ANSWERED.rstrip() + ' | {"token": os.urandom(16).hex()}\n'),),
        "replies echo their requests",
        says="token differs from its request",
    ),
    "replies with the token that it remembers": Planted(
        (
            (
                _ANSWERED,
                _ANSWERED.replace("{", 'REPLIES.setdefault(request["effect_key"], {').rstrip() + ")\n",
            ),
            ("class Refused(", "REPLIES = {}\n\n\nclass Refused("),
        ),
        "the same key in a new epoch",
        says="was an older token sent?",
    ),
    "abandons what is late": Planted(
        (
            (
                _SETTLE,
                _SETTLE.replace(
                    "requests.complete_message",
                    "(requests.complete_message if reply else requests.abandon_message)",
                ),
            ),
        ),
        "taken after complete by",
        says="among the dead letters",
    ),
    "is silent about what is known late": Planted(
        ((_TAKEN_LATE, "    if is_late(request):\n"),),
        "a known outcome is told late",
        says="no reply to the request that came after its complete-by",
    ),
    "two effects for a key": Planted(
        (
            (
                _ALREADY,
                _TWICE,
            ),
        ),
        "the same request once more",
    ),
    "undo leaves no tombstone": Planted(
        ((_TOMBSTONE, "        if state == 'paid':\n    " + _TOMBSTONE),), "an undo before its do"
    ),
    "replies late for a step that may be repeated": Planted(((_LATE, ""),), "ended after complete by"),
    "abandons what it can't read": Planted(
        ((_DEAD_LETTER, "requests.abandon_message(message)"),), "rubbish", says="gave it up (rule 6)"
    ),
    "repeats what must not be repeated": Planted(
        (
            (
                _ALREADY,
                "        if state == 'paid' and request['once']:\n            move(ledger, request, amount)\n"
                + _ALREADY,
            ),
        ),
        "what is sent once killed at its reply",
    ),
    "echoes no epoch": Planted(
        ((_ANSWERED, "    return {name: request[name] for name in ECHOED if name != 'epoch'} | outcome\n"),),
        "replies echo their requests",
    ),
    "result with NaN": Planted(
        (('return {"reference": key}', 'return {"reference": key, "fee": float("nan")}'),),
        "replies fit the schema",
    ),
    "forgets its ledger": Planted(
        (
            (
                _LEDGER,
                _LEDGER
                + '    ledger.execute("CREATE TEMP TABLE payments (key TEXT PRIMARY KEY, state TEXT)")\n',
            ),
        ),
        "the ledger outlives the agent",
    ),
    "dies on an unknown field": Planted(
        (
            (
                _PARSED,
                _PARSED + "        if 'of_tomorrow' in request:\n            sys.exit('unknown field')\n",
            ),
        ),
        "an unknown field",
    ),
    "serves one request at a time for ever after a broker's restart": Planted(
        (
            (_TAKEN, _TAKEN + "            if lost:\n                time.sleep(0.4)\n"),
            (_CONNECT, _CONNECT + ", retry_total=0"),
            ("def serve(ledger):", "lost = []\n\n\ndef serve(ledger):"),
            ("file=sys.stderr)\n", "file=sys.stderr)\n            lost.append(fault)\n"),
        ),
        "the broker killed and back",
    ),
    "forgets a payment that it paid back": Planted(
        ((_TOMBSTONE, _TOMBSTONE + "        if state == 'paid':\n" + _FORGET),),
        "an undo twice",
    ),
    "remembers in memory what it undid": Planted(
        (
            (_TOMBSTONE, "        UNDONE.add(key)\n        if state == 'paid':\n    " + _TOMBSTONE),
            ('        if state == "undone":\n', '        if state == "undone" or key in UNDONE:\n'),
            ("class Refused(", "UNDONE = set()\n\n\nclass Refused("),
        ),
        "the ledger outlives the agent",
        processes=1,
    ),
    "refuses for good when its service is slow": Planted(
        (
            (
                "    except Refused as refusal:\n",
                "    except (Refused, sqlite3.OperationalError) as refusal:\n",
            ),
            ("timeout=10", "timeout=1"),
        ),
        "ended after complete by",
    ),
    "begins late what must not be repeated": Planted(
        ((_TAKEN_LATE, "    if is_late(request) and not once:\n"),), "taken after complete by"
    ),
    "undoes and replies after complete-by": Planted(
        (
            (
                _TAKEN_LATE,
                '    undo = request["direction"] == "undo"\n'
                + _TAKEN_LATE.replace("and not", "and not undo and not"),
            ),
            (_LATE, _LATE.replace("not once", "not once and not undo")),
        ),
        "taken after complete by",
    ),
    "sends another reply that fits no schema": Planted(
        (
            (
                _SEND,
                _SEND + """                replies.send_messages(ServiceBusMessage('{"log": "paid"}'))\n""",
            ),
        ),
        "replies fit the schema",
    ),
    "replies to what was not asked": Planted(
        (
            (
                _SEND,
                _SEND
                + '                other = reply | {"task_id": "of-nobody", "token": os.urandom(16).hex()}\n'
                + _SEND.replace("dumps(reply)", "dumps(other)"),
            ),
        ),
        "replies echo their requests",
    ),
    "renews no lock": Planted(((", auto_lock_renewer=renewer", ""),), "a lock is renewed"),
    "leaves requests of schema 1 to the dead letters": Planted(
        (('request["schema_version"] in (1, 2)', 'request["schema_version"] == 2'),), "the schema before"
    ),
    "refuses what is large": Planted(
        ((_KINDS, '    if len(request.get("request", "")) > 3:\n        sys.exit("too much")\n' + _KINDS),),
        "the largest request",
    ),
    "dies on an effect key that is a number": Planted(
        ((_KINDS, '    if request.get("effect_key") == 7:\n        sys.exit("no text")\n' + _KINDS),),
        "rubbish",
    ),
}


#: Neither breaks a rule: these ask for nothing sooner than complete-by.
RIGHT = {
    "takes its time": Planted(
        ((_REPLY, "            time.sleep(0.4)\n" + _REPLY),), "two hundred side by side"
    ),
    "starts slowly": Planted(
        (
            (
                "    while True:\n        try:\n            ledger",
                "    time.sleep(35)\n    while True:\n        try:\n            ledger",
            ),
        ),
        "a request",
    ),
}


def plant(fault: Planted, folder: Path) -> Path:
    """Write the sample with the fault; a text that it does not have is an error."""
    text = PYTHON_SAMPLE.read_text(encoding="utf-8")
    for old, new in fault.changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    agent = folder / "faulty_agent.py"
    agent.write_text(text, encoding="utf-8")
    return agent
