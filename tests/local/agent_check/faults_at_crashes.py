"""Faults that show when an Agent is held up or killed, or its broker is; and some that go well with them."""

from __future__ import annotations

from tests.local.agent_check.planted import Planted, WrongAgent

#: The lines of the sample that faults replace, or go beside.
_ALREADY = "        if state is None:\n"
_TOMBSTONE = """        ledger.execute("INSERT OR REPLACE INTO payments VALUES (?, 'undone')", (key,))\n"""
_FORGET = '            ledger.execute("DELETE FROM payments WHERE key = ?", (key,))\n'
_TAKEN_LATE = "    if is_late(request) and not (once and state_of(ledger, request)[1]):\n"
_LATE = "    if is_late(request) and not once:\n        return None\n"
_LEDGER = "    ledger = open_ledger()\n"
_KINDS = "    for name, kind in KINDS.items():\n"
_CONNECT = '    with (\n        ServiceBusClient.from_connection_string(os.environ["ServiceBusConnection"]'
_TAKEN = "        for message in requests:\n"
_CARRY = '    try:\n        outcome = {"outcome": "completed"'
_BEGUN = """\
    if once:
        begun = sqlite3.connect("begun.db", timeout=10, isolation_level=None)
        begun.execute("CREATE TABLE IF NOT EXISTS begun (key TEXT PRIMARY KEY)")
        if begun.execute("INSERT OR IGNORE INTO begun VALUES (?)", (request["effect_key"],)).rowcount == 0:
            if not state_of(ledger, request)[1]:
                return None
"""
_SENT_LATE = "a reply was sent after complete-by"

_HASTY = {
    "begins late what must not be repeated": Planted(
        ((_TAKEN_LATE, "    if is_late(request) and not once:\n"),), "taken after complete by", _SENT_LATE
    ),
    "forgets a payment that it paid back": Planted(
        ((_TOMBSTONE, _TOMBSTONE + "        if state == 'paid':\n" + _FORGET),),
        "an undo twice",
        "expected `failed`, got `completed`",
    ),
    "serves one request at a time for ever after a broker's restart": Planted(
        (
            ("def serve(ledger):", "begun = []\n\n\ndef serve(ledger):"),
            (_CONNECT, "    begun.append(True)\n" + _CONNECT + ", retry_total=0"),
            (_TAKEN, _TAKEN + "            if len(begun) > 1:\n                time.sleep(0.4)\n"),
        ),
        "the broker killed and back",
        "before the outage, and after it",
    ),
}
_STUBBORN = {
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
        _SENT_LATE,
    ),
    "takes no undo that has a result": Planted(
        ((_KINDS, '    if request.get("result"):\n        raise ValueError("a result")\n' + _KINDS),),
        "an undo twice",
        "no reply",
    ),
    "renews no lock": Planted(
        ((", auto_lock_renewer=renewer", ""),), "a lock is renewed", "delivered again while the Agent"
    ),
    "repeats what must not be repeated": Planted(
        (
            (
                _ALREADY,
                "        if state == 'paid' and not request['idempotent']:\n"
                "            move(ledger, request, amount)\n" + _ALREADY,
            ),
        ),
        "what is sent once killed at its reply",
        "2 effects of",
    ),
    "remembers by its key what it began": Planted(
        ((_CARRY, _BEGUN + _CARRY),), "what is sent once killed at work", "no reply to a new token"
    ),
}
_IN_MEMORY = {
    "remembers in memory what it undid": Planted(
        (
            (_TOMBSTONE, "        UNDONE.add(key)\n        if state == 'paid':\n    " + _TOMBSTONE),
            ('        if state == "undone":\n', '        if state == "undone" or key in UNDONE:\n'),
            ("class Refused(", "UNDONE = set()\n\n\nclass Refused("),
        ),
        "the ledger outlives the agent",
        "expected `failed`, got `completed`",
    ),
    "refuses for good when its service is slow": Planted(
        (
            (
                "    except Refused as refusal:\n",
                "    except (Refused, sqlite3.OperationalError) as refusal:\n",
            ),
            ("timeout=10", "timeout=5"),
        ),
        "a timeout is no refusal",
        "expected `completed`, got `failed`",
    ),
}
_FORGETFUL = {
    "forgets its ledger": Planted(
        (
            (
                _LEDGER,
                _LEDGER
                + '    ledger.execute("CREATE TEMP TABLE payments (key TEXT PRIMARY KEY, state TEXT)")\n',
            ),
        ),
        "the ledger outlives the agent",
        "expected `failed`, got `completed`",
    ),
    "replies late for a step that may be repeated": Planted(
        ((_LATE, ""),), "ended after complete by", _SENT_LATE
    ),
}
AGENTS = (
    WrongAgent(_HASTY),
    WrongAgent(_STUBBORN),
    WrongAgent(_IN_MEMORY, processes=1),
    WrongAgent(_FORGETFUL),
)
