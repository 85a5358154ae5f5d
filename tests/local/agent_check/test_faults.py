"""The kit finds each planted fault, also those that show only at a crash, a hold or a lost broker."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.local.agent_check.samples import (
    Planted,
    Report,
    WrongAgent,
    check_changed,
    fault,
    faults_of,
    is_found,
)

#: The lines of the sample that faults replace, or go beside.
_REPLY = "            reply = answer(ledger, request)\n"
_SEND = "                replies.send_messages(ServiceBusMessage(json.dumps(reply)))\n"
_SETTLE = "            requests.complete_message(message)\n"
_ANSWERED = "    return {name: request[name] for name in ECHOED} | outcome\n"
_DEAD_LETTER = 'requests.dead_letter_message(message, reason="not a request", error_description=why)'
_ALREADY = """\
    if state is None:
        if is_late(request):
            return close_start(ledger, request)
        save"""
_NOT_LATE = "    if state is None:\n        save"
_TOMBSTONE = '        save(ledger, request, "undone", None)\n'
_ATTEMPT = '    is_carried_out = request["kind"] == "carry out"\n'
_PARSED = '        request = json.loads(b"".join(message.body))\n'
_TYPES = "    for name, type_ in TYPES.items():\n"
_KEY = '    return request["effect_key"].rpartition("/")[0]\n'
_READ_TO_UNDO = "    state, amount = payment(ledger, request)\n"
_TRANSACTION = """\
    with transaction(ledger):
        if is_carried_out"""
_PAYS_BACK = '        if state == "paid":\n'
_FORGET = """\
        if state == 'paid':
            ledger.execute("DELETE FROM payments WHERE key = ?", (key_of(request),))
"""
_LATE = """\
    if is_late(request) and request["idempotent"] and outcome["outcome"] != "not_taken":
        return None
"""
_CONNECT = '    with (\n        ServiceBusClient.from_connection_string(os.environ["ServiceBusConnection"]'
_TAKEN = "        for message in requests:\n"
_FIND = "    if state is None:\n        close_start(ledger, request)\n"
_FOUND = '    if state == "undone":\n        return {"outcome": "unknown"'
_PAY = '    state, _ = payment(ledger, request)\n    if state == "undone":\n        return refused'
_BEGUN = """\
    if not request["idempotent"] and is_carried_out:
        begun = sqlite3.connect("begun.db", timeout=10, isolation_level=None)
        begun.execute("CREATE TABLE IF NOT EXISTS begun (key TEXT PRIMARY KEY)")
        if begun.execute("INSERT OR IGNORE INTO begun VALUES (?)", (request["effect_key"],)).rowcount == 0:
            if not payment(ledger, request)[0]:
                return None
"""

_BAD_REPLIES = {
    "echoes no epoch": fault(
        "replies echo their requests: epoch is missing",
        _ANSWERED,
        "    return {name: request[name] for name in ECHOED if name != 'epoch'} | outcome\n",
    ),
    "echoes no kind of a look-up": fault(
        "replies echo their requests: kind differs from its request",
        _SEND,
        '                if "fences_starts" in reply:\n'
        '                    del reply["kind"], reply["fences_starts"]\n'
        '                    reply["outcome"] = "unknown"\n' + _SEND,
    ),
    "result with NaN": fault(
        "replies fit the schema: a number that is no finite double",
        '"result": {"reference": key_of(request)}',
        '"result": {"reference": key_of(request), "fee": float("nan")}',
    ),
    "sends another reply that fits no schema": fault(
        "replies fit the schema: schema_version: Field required",
        "def main():",
        "def more(replies):\n"
        """    replies.send_messages(ServiceBusMessage('{"log": "paid"}'))\n\n\ndef main():""",
        _SETTLE,
        _SETTLE + "            more(replies)\n",
    ),
    "can't read a whole second": fault(
        "a complete by on a whole second: no reply",
        _TYPES,
        '    if "." not in str(request.get("complete_by", ".")):\n'
        '        raise ValueError("no fraction")\n' + _TYPES,
    ),
}
_BAD_MANNERS = {
    "abandons what is late": fault(
        "taken after complete by: among the dead letters",
        _SETTLE,
        _SETTLE.replace(
            "requests.complete_message",
            "(requests.abandon_message if reply and reply['outcome'] == 'not_taken'"
            " else requests.complete_message)",
        ),
    ),
    "is silent about what is known late": fault(
        "a known outcome is told late: no reply to the request that came after its complete-by",
        _LATE,
        _LATE.replace('request["idempotent"] and ', ""),
    ),
    "two effects for a key": fault(
        "the same request once more: 2 effects of",
        _ALREADY,
        "    if state == 'paid':\n        move(ledger, request, amount)\n" + _ALREADY,
    ),
    "undo leaves no tombstone": fault(
        "an undo before its do: expected `refused`, got `done`",
        _TOMBSTONE,
        "        if state == 'paid':\n    " + _TOMBSTONE,
    ),
    "abandons what it can't read": fault(
        "rubbish: gave it up (rule 6)", _DEAD_LETTER, "requests.abandon_message(message)"
    ),
    "undoes only what has a result": fault(
        "an undo without the result: 0 effects of",
        _PAYS_BACK,
        '        if state == "paid" and request.get("result"):\n',
    ),
}
_DIES = {
    "dies on an unknown field": fault(
        "an unknown field: no reply",
        _PARSED,
        _PARSED + "        if 'of_tomorrow' in request:\n            sys.exit('unknown field')\n",
    ),
    "refuses what is large": fault(
        "the largest request: no reply",
        _TYPES,
        '    if len(request.get("request", "")) > 3:\n        sys.exit("too much")\n' + _TYPES,
    ),
    "dies on an effect key that is a number": fault(
        "rubbish: a wrong effect_key stays on the queue",
        _TYPES,
        '    if request.get("effect_key") == 7:\n        sys.exit("no text")\n' + _TYPES,
    ),
}
_LAX = {
    "is silent about a known refusal": fault(
        "a recorded refusal is sent late: 1 of 2 replies",
        _LATE,
        _LATE.replace('request["idempotent"]', '(request["idempotent"] or "error" in outcome)'),
    ),
    "begins again what it did not take": fault(
        "what was not taken is never begun: expected `not_taken`, got `done`",
        "        if is_carried_out and is_closed(ledger, request):\n",
        "        if False:\n",
        _ALREADY,
        _ALREADY.replace("is_late(request)", "is_late(request) and not is_closed(ledger, request)"),
    ),
    "reads other keys than were sent": fault(
        "rubbish: in effect_key",
        _PARSED,
        '        request = json.loads(b"".join(message.body).decode(errors="replace"))\n',
        "        json.dumps(request, ensure_ascii=False).encode()  # raises for half of a character\n",
        "",
    ),
}
_NULL = {
    "replies under its start id": fault(
        "replies fit the schema: its message id is the start id",
        "ServiceBusMessage(json.dumps(reply))",
        'ServiceBusMessage(json.dumps(reply), message_id=reply["start_id"])',
    ),
    "pays back what was never paid": fault(
        "an undo before its do: 1 effects of",
        _PAYS_BACK,
        '        if state is None:\n            move(ledger, request, "0")\n' + _PAYS_BACK,
    ),
}
_NEW_START = {
    "replies with a new start id": fault(
        "replies echo their requests: start_id differs from its request",
        _ANSWERED,
        _ANSWERED.rstrip() + ' | {"start_id": os.urandom(16).hex()}\n',
    ),
}
_CONFUSED = {
    "carries out what it is to look up": fault(
        "a look up of what was not begun: is found to be `done`",
        '("find", "do"): find}',
        '("find", "do"): pay}',
    ),
    "replies with the start id that it remembers": fault(
        "the same key in a new epoch: was an older start id sent?",
        _ANSWERED,
        _ANSWERED.replace("{", 'REPLIES.setdefault(request["effect_key"], {').rstrip() + ")\n",
        "def open_ledger(",
        "REPLIES = {}\n\n\ndef open_ledger(",
    ),
    "takes a task that is born again for the one before": fault(
        "another task of the same id: expected `done`, got `refused`",
        _KEY,
        '    return request["task_id"] + "/" + request["step"]\n',
    ),
}
_BY_KEY = {
    "takes a missing boolean for true": fault(
        "rubbish: a request without idempotent is gone",
        _TYPES,
        '    request = {"idempotent": True} | request\n' + _TYPES,
    ),
    "takes one item of a step for another": fault(
        "another item of the same step: expected `done`, got `refused`",
        _KEY,
        '    return request["effect_key"].partition("/")[0] + "/" + request["step"].partition(".")[0]\n',
    ),
    "keeps out who has the same key only": fault(
        "a do and its undo at once: stay done, though their undo is `done`",
        _TRANSACTION,
        '    undo = request["direction"] == "undo"\n'
        "    SEEN[0] = payment(ledger, request) if undo else None\n"
        "    time.sleep(0.5 * undo)\n" + _TRANSACTION,
        _READ_TO_UNDO,
        _READ_TO_UNDO + '    state, amount = (state, amount) if state == "undone" else SEEN[0]\n',
        "def open_ledger(",
        "SEEN = [None]\n\n\ndef open_ledger(",
    ),
    "tells that it did not take what is done": fault(
        "a known outcome is told late: expected `done`, got `not_taken`",
        _PAY,
        "    if is_late(request):\n        return close_start(ledger, request)\n" + _PAY,
    ),
    "repeats for a new start what is done": fault(
        "what is sent once and done is asked again: 2 effects of",
        _ALREADY,
        "    if state == 'paid' and not request['idempotent'] and request['epoch'] > 1:\n"
        "        move(ledger, request, amount)\n" + _ALREADY,
    ),
}
_LOOK_UPS = {
    "fences no start": fault(
        "a fence holds: expected `not_taken`, got `done`", _FIND, "    if state is None:\n"
    ),
    "pays again what it looks up": fault(
        "a look up of what was done: 2 effects of",
        _FOUND,
        "    if state == 'paid':\n        move(ledger, request, \"0\")\n" + _FOUND,
    ),
    "abandons a look-up that is late": fault(
        "a look up after its deadline: among the dead letters",
        _SETTLE,
        '            is_find = request["kind"] == "find" and is_late(request)\n'
        "            (requests.abandon_message if is_find else requests.complete_message)(message)\n",
    ),
}
_HASTY = {
    "needs a kind": fault(
        "a request without kind: no reply", '{"kind": "carry out"} | request', "{} | request"
    ),
    "settles before the effect": fault(
        "killed before it settled: settled before the Agent could know",
        _REPLY,
        _SETTLE + _REPLY,
        _SEND + _SETTLE,
        _SEND,
    ),
    "replies to what was not asked": fault(
        "replies echo their requests: a reply to nothing that was asked",
        _SEND,
        _SEND
        + '                other = reply | {"task_id": "of-nobody", "start_id": os.urandom(16).hex()}\n'
        + _SEND.replace("dumps(reply)", "dumps(other)"),
    ),
    "takes one step of a task for another": fault(
        "another step of the same task: expected `done`, got `refused`",
        _KEY,
        _KEY.replace("rpartition", "partition"),
    ),
    "pays back twice when asked twice at once": fault(
        "many undone twice at once: 2 effects of",
        _TRANSACTION,
        _TRANSACTION.replace("with ", 'with UNLOCKED if request["direction"] == "undo" else '),
        _READ_TO_UNDO,
        _READ_TO_UNDO + "    time.sleep(0.2)\n",
        "def open_ledger(",
        "UNLOCKED = nullcontext()\n\n\ndef open_ledger(",
        "from contextlib import contextmanager",
        "from contextlib import contextmanager, nullcontext",
    ),
}
_RASH = {
    "begins late what must not be repeated": fault(
        "taken after complete by: expected `not_taken`, got `done`",
        _ALREADY,
        _ALREADY.replace("is_late(request)", 'is_late(request) and request["idempotent"]'),
    ),
    "forgets a payment that it paid back": fault(
        "an undo twice: expected `refused`, got `done`",
        _TOMBSTONE,
        _TOMBSTONE + _FORGET,
    ),
    "serves one request at a time for ever after a broker's restart": fault(
        "the broker killed and back: before the outage, and after it",
        "def serve(ledger):",
        "begun = []\n\n\ndef serve(ledger):",
        _CONNECT,
        "    begun.append(True)\n" + _CONNECT + ", retry_total=0",
        _TAKEN,
        _TAKEN + "            if len(begun) > 1:\n                time.sleep(0.4)\n",
    ),
}
_STUBBORN = {
    "undoes and replies after complete-by": fault(
        "taken after complete by: expected `not_taken`, got `done`",
        '    if state != "undone":\n        if is_late(request):\n',
        '    if state != "undone":\n        if False:\n',
        _LATE,
        _LATE.replace('request["idempotent"]', 'request["idempotent"] and request["direction"] == "do"'),
    ),
    "takes no undo that has a result": fault(
        "an undo twice: no reply",
        _TYPES,
        '    if request.get("result"):\n        raise ValueError("a result")\n' + _TYPES,
    ),
    "renews no lock": fault(
        "a lock is renewed: delivered again while the Agent", ", auto_lock_renewer=renewer", ""
    ),
    "repeats what must not be repeated": fault(
        "what is sent once killed at its reply: 2 effects of",
        _ALREADY,
        "    if state == 'paid' and not request['idempotent']:\n"
        "        move(ledger, request, amount)\n" + _ALREADY,
    ),
    "remembers by its key what it began": fault(
        "what is sent once killed at work: no reply to a new start", _ATTEMPT, _ATTEMPT + _BEGUN
    ),
}
_IN_MEMORY = {
    "remembers in memory what it undid": fault(
        "the ledger outlives the agent: expected `refused`, got `done`",
        _TOMBSTONE,
        "        UNDONE.add(key_of(request))\n        if state == 'paid':\n    " + _TOMBSTONE,
        _PAY,
        _PAY.replace('state == "undone"', 'state == "undone" or key_of(request) in UNDONE'),
        "def open_ledger(",
        "UNDONE = set()\n\n\ndef open_ledger(",
    ),
    "refuses for good when its service is slow": fault(
        "a timeout is no refusal: expected `done`, got `refused`",
        "            if is_late(request):\n                return None\n",
        '            return {name: request[name] for name in ECHOED} | refused("busy")\n',
        "timeout=10",
        "timeout=5",
    ),
}
_FORGETFUL = {
    "replies late for a step that may be repeated": fault(
        "ended after complete by: a reply was sent after complete-by", _LATE, "", _ALREADY, _NOT_LATE
    ),
}
AGENTS = (
    WrongAgent(_BAD_REPLIES, also=("a fence holds",)),
    *map(WrongAgent, (_BAD_MANNERS, _DIES, _LAX, _NULL, _NEW_START, _CONFUSED, _BY_KEY, _LOOK_UPS, _HASTY)),
    *map(WrongAgent, (_RASH, _STUBBORN)),
    WrongAgent(_IN_MEMORY, processes=1),
    WrongAgent(_FORGETFUL),
)


_AT_ONCE = "pays back twice when asked twice at once"
_SECOND_IS_LATE = """\
        return
    try:
        os.mkdir("first")
    except FileExistsError:
        time.sleep(8)
    while True:
"""
pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def report_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[WrongAgent], Report]:
    """Return the kit's report on an Agent."""
    return cache(lambda agent: agent.check(tmp_path_factory.mktemp("agent")))


@pytest.mark.parametrize(("agent", "fault"), faults_of(AGENTS))
def test_planted_fault_is_found(
    agent: WrongAgent, fault: Planted, report_of: Callable[[WrongAgent], Report]
) -> None:
    """By the check that is named for it."""
    is_found(fault, report_of(agent))


def test_processes_that_start_late_are_waited_for(tmp_path: Path) -> None:
    """Otherwise, what two of them do at once would not be seen."""
    fault = next(agent.faults[_AT_ONCE] for agent in AGENTS if _AT_ONCE in agent.faults)
    late = ("        return\n    while True:\n", _SECOND_IS_LATE)
    is_found(fault, check_changed([*fault.changes, late], [fault.found_by], tmp_path, processes=2))
