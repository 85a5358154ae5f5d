"""Faults of the sample Agent: in its replies and effects, and when it or its broker is killed."""

from __future__ import annotations

from tests.local.agent_check.planted import WrongAgent, fault

#: The lines of the sample that faults replace, or go beside.
_REPLY = "            reply = answer(ledger, request)\n"
_SEND = "                replies.send_messages(ServiceBusMessage(json.dumps(reply)))\n"
_SETTLE = "            requests.complete_message(message)\n"
_ANSWERED = "    return {name: request[name] for name in ECHOED} | outcome\n"
_DEAD_LETTER = 'requests.dead_letter_message(message, reason="not a request", error_description=why)'
_ALREADY = "        if state is None:\n"
_TOMBSTONE = """        ledger.execute("INSERT OR REPLACE INTO payments VALUES (?, 'undone')", (key,))\n"""
_TAKEN_LATE = "    if is_late(request) and not (once and state_of(ledger, request)[1]):\n"
_PARSED = '        request = json.loads(b"".join(message.body))\n'
_KINDS = "    for name, kind in KINDS.items():\n"
_KEY = '    key = request["effect_key"].rpartition("/")[0]\n'
_SOUGHT = '(key + "/do",)'
_BY_EFFECT = '(request["effect_key"].rpartition("/")[0] + "/do",)'
_READ_TO_UNDO = """\
is remembered as undone.\"""
    with transaction(ledger):
        key, state = state_of(ledger, request)
"""
#: The row is there once, and the money moves each time.
_TWICE = """\
        ledger.execute("INSERT OR IGNORE INTO payments VALUES (?, 'paid')", (key,))
        move(ledger, request, amount)
        if False:
"""
_PAYS = '        raise Refused("we take an amount in euros")\n'
_PAYS_BACK = '        if state == "paid":\n'
_FORGET = '            ledger.execute("DELETE FROM payments WHERE key = ?", (key,))\n'
_LATE = "    if is_late(request) and not once:\n        return None\n"
_LEDGER = "    ledger = open_ledger()\n"
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

_BAD_REPLIES = {
    "echoes no epoch": fault(
        "replies echo their requests: epoch is missing",
        _ANSWERED,
        "    return {name: request[name] for name in ECHOED if name != 'epoch'} | outcome\n",
    ),
    "replies with its own name as the step": fault(
        "replies echo their requests: step differs from its request",
        _REPLY,
        _REPLY + '            reply = reply and reply | {"step": "payment"}\n',
    ),
    "result with NaN": fault(
        "replies fit the schema: not a finite number",
        'return {"reference": key}',
        'return {"reference": key, "fee": float("nan")}',
    ),
    "sends another reply that fits no schema": fault(
        "replies fit the schema: schema_version: Field required",
        _SEND,
        _SEND + """                replies.send_messages(ServiceBusMessage('{"log": "paid"}'))\n""",
    ),
    "can't read a whole second": fault(
        "a complete by on a whole second: no reply",
        _KINDS,
        '    if "." not in str(request.get("complete_by", ".")):\n'
        '        raise ValueError("no fraction")\n' + _KINDS,
    ),
}
_BAD_MANNERS = {
    "abandons what is late": fault(
        "taken after complete by: among the dead letters",
        _SETTLE,
        _SETTLE.replace(
            "requests.complete_message",
            "(requests.complete_message if reply else requests.abandon_message)",
        ),
    ),
    "is silent about what is known late": fault(
        "a known outcome is told late: no reply to the request that came after its complete-by",
        _TAKEN_LATE,
        "    if is_late(request):\n",
    ),
    "begins what has waited too long": fault(
        "waited too long: expected `not_taken`, got `completed`",
        "    if within is not None and request",
        "    if False and request",
    ),
    "two effects for a key": fault("the same request once more: 2 effects of", _ALREADY, _TWICE),
    "undo leaves no tombstone": fault(
        "an undo before its do: expected `failed`, got `completed`",
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
        _KINDS,
        '    if len(request.get("request", "")) > 3:\n        sys.exit("too much")\n' + _KINDS,
    ),
    "dies on an effect key that is a number": fault(
        "rubbish: a wrong effect_key stays on the queue",
        _KINDS,
        '    if request.get("effect_key") == 7:\n        sys.exit("no text")\n' + _KINDS,
    ),
}
_LAX = {
    "reads other keys than were sent": fault(
        "rubbish: in effect_key",
        _PARSED,
        '        request = json.loads(b"".join(message.body).decode(errors="replace"))\n',
        "        json.dumps(request, ensure_ascii=False).encode()  # fails for half a character\n",
        "",
    ),
}
_NULL = {
    "takes null for a boolean": fault(
        "rubbish: a wrong idempotent is gone",
        _KINDS,
        '    if request.get("idempotent", 0) is None:\n        request["idempotent"] = True\n' + _KINDS,
    ),
    "replies under its token": fault(
        "replies fit the schema: its message id is the token",
        "ServiceBusMessage(json.dumps(reply))",
        'ServiceBusMessage(json.dumps(reply), message_id=reply["token"])',
    ),
    "pays back what was never paid": fault(
        "an undo before its do: 1 effects of",
        _PAYS_BACK,
        '        if state is None:\n            move(ledger, request, "0")\n' + _PAYS_BACK,
    ),
}
_NEW_TOKEN = {
    "replies with a new token": fault(
        "replies echo their requests: token differs from its request",
        _ANSWERED,
        _ANSWERED.rstrip() + ' | {"token": os.urandom(16).hex()}\n',
    ),
}
_CONFUSED = {
    "replies with the token that it remembers": fault(
        "the same key in a new epoch: was an older token sent?",
        _ANSWERED,
        _ANSWERED.replace("{", 'REPLIES.setdefault(request["effect_key"], {').rstrip() + ")\n",
        "class Refused(",
        "REPLIES = {}\n\n\nclass Refused(",
    ),
    "takes a task that is born again for the one before": fault(
        "another task of the same id: expected `completed`, got `failed`",
        _KEY,
        '    key = request["task_id"] + "/" + request["step"]\n',
        _SOUGHT,
        _BY_EFFECT,
    ),
}
_BY_KEY = {
    "takes a missing boolean for true": fault(
        "rubbish: a request without idempotent is gone",
        _KINDS,
        '    request = {"idempotent": True} | request\n' + _KINDS,
    ),
    "takes one item of a step for another": fault(
        "another item of the same step: expected `completed`, got `failed`",
        _KEY,
        '    key = request["effect_key"].partition("/")[0] + "/" + request["step"]\n',
        _SOUGHT,
        _BY_EFFECT,
    ),
    "keeps out who has the same key only": fault(
        "a do and its undo at once: stay done, though their undo is `completed`",
        _READ_TO_UNDO,
        _READ_TO_UNDO.replace(
            "    with", "    seen = state_of(ledger, request)[1]\n    time.sleep(0.2)\n    with"
        )
        + '        state = state if state == "undone" else seen\n',
    ),
    "tells that it did not take what is done": fault(
        "what was begun is taken: expected `completed`, got `not_taken`",
        _PAYS,
        _PAYS + "    see_that_there_is_time(request)\n",
    ),
    "repeats for a new token what is done": fault(
        "what is sent once and done is asked again: 2 effects of",
        _ALREADY,
        "        if state == 'paid' and not request['idempotent'] and request['epoch'] > 1:\n"
        "            move(ledger, request, amount)\n" + _ALREADY,
    ),
}
_HASTY = {
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
        + '                other = reply | {"task_id": "of-nobody", "token": os.urandom(16).hex()}\n'
        + _SEND.replace("dumps(reply)", "dumps(other)"),
    ),
    "takes one step of a task for another": fault(
        "another step of the same task: expected `completed`, got `failed`",
        _KEY,
        _KEY.replace("rpartition", "partition"),
        _SOUGHT,
        _BY_EFFECT,
    ),
    "pays back twice when asked twice at once": fault(
        "many undone twice at once: 2 effects of",
        _READ_TO_UNDO,
        _READ_TO_UNDO.replace("with transaction(ledger)", "if True") + "        time.sleep(0.2)\n",
    ),
}
_RASH = {
    "begins late what must not be repeated": fault(
        "taken after complete by: a reply was sent after complete-by",
        _TAKEN_LATE,
        "    if is_late(request) and not once:\n",
    ),
    "forgets a payment that it paid back": fault(
        "an undo twice: expected `failed`, got `completed`",
        _TOMBSTONE,
        _TOMBSTONE + "        if state == 'paid':\n" + _FORGET,
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
        "taken after complete by: a reply was sent after complete-by",
        _TAKEN_LATE,
        '    undo = request["direction"] == "undo"\n'
        + _TAKEN_LATE.replace("and not", "and not undo and not"),
        _LATE,
        _LATE.replace("not once", "not once and not undo"),
    ),
    "takes no undo that has a result": fault(
        "an undo twice: no reply",
        _KINDS,
        '    if request.get("result"):\n        raise ValueError("a result")\n' + _KINDS,
    ),
    "renews no lock": fault(
        "a lock is renewed: delivered again while the Agent", ", auto_lock_renewer=renewer", ""
    ),
    "repeats what must not be repeated": fault(
        "what is sent once killed at its reply: 2 effects of",
        _ALREADY,
        "        if state == 'paid' and not request['idempotent']:\n"
        "            move(ledger, request, amount)\n" + _ALREADY,
    ),
    "remembers by its key what it began": fault(
        "what is sent once killed at work: no reply to a new token", _CARRY, _BEGUN + _CARRY
    ),
}
_IN_MEMORY = {
    "remembers in memory what it undid": fault(
        "the ledger outlives the agent: expected `failed`, got `completed`",
        _TOMBSTONE,
        "        UNDONE.add(key)\n        if state == 'paid':\n    " + _TOMBSTONE,
        '        if state == "undone":\n',
        '        if state == "undone" or key in UNDONE:\n',
        "class Refused(",
        "UNDONE = set()\n\n\nclass Refused(",
    ),
    "refuses for good when its service is slow": fault(
        "a timeout is no refusal: expected `completed`, got `failed`",
        "    except Refused as refusal:\n",
        "    except (Refused, sqlite3.OperationalError) as refusal:\n",
        "timeout=10",
        "timeout=5",
    ),
}
_FORGETFUL = {
    "forgets its ledger": fault(
        "the ledger outlives the agent: expected `failed`, got `completed`",
        _LEDGER,
        _LEDGER + '    ledger.execute("CREATE TEMP TABLE payments (key TEXT PRIMARY KEY, state TEXT)")\n',
    ),
    "replies late for a step that may be repeated": fault(
        "ended after complete by: a reply was sent after complete-by", _LATE, ""
    ),
}
AGENTS = (
    WrongAgent(_BAD_REPLIES, also=("another step of the same task",)),
    *map(WrongAgent, (_BAD_MANNERS, _DIES, _LAX, _NULL, _NEW_TOKEN, _CONFUSED, _BY_KEY, _HASTY)),
)
#: Their faults show when an Agent is held up or killed, or its broker is.
AGENTS_AT_CRASHES = (
    WrongAgent(_RASH),
    WrongAgent(_STUBBORN),
    WrongAgent(_IN_MEMORY, processes=1),
    WrongAgent(_FORGETFUL),
)
