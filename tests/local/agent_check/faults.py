"""Faults in what an Agent does with requests, one after the other and side by side."""

from __future__ import annotations

from tests.local.agent_check.planted import Planted, WrongAgent

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
_ECHOES = "replies echo their requests"
_FITS = "replies fit the schema"

_PAYS_BACK = '        if state == "paid":\n'

_BAD_REPLIES = {
    "echoes no epoch": Planted(
        ((_ANSWERED, "    return {name: request[name] for name in ECHOED if name != 'epoch'} | outcome\n"),),
        _ECHOES,
        "epoch is missing",
    ),
    "replies with its own name as the step": Planted(
        ((_REPLY, _REPLY + '            reply = reply and reply | {"step": "payment"}\n'),),
        _ECHOES,
        "step differs from its request",
    ),
    "result with NaN": Planted(
        (('return {"reference": key}', 'return {"reference": key, "fee": float("nan")}'),),
        _FITS,
        "result.fee: not a finite number",
    ),
    "sends another reply that fits no schema": Planted(
        (
            (
                _SEND,
                _SEND + """                replies.send_messages(ServiceBusMessage('{"log": "paid"}'))\n""",
            ),
        ),
        _FITS,
        "schema_version: Field required",
    ),
    "can't read a whole second": Planted(
        (
            (
                _KINDS,
                '    if "." not in str(request.get("complete_by", ".")):\n'
                '        raise ValueError("no fraction")\n' + _KINDS,
            ),
        ),
        "a complete by on a whole second",
        "no reply",
    ),
}
_BAD_MANNERS = {
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
        "among the dead letters",
    ),
    "is silent about what is known late": Planted(
        ((_TAKEN_LATE, "    if is_late(request):\n"),),
        "a known outcome is told late",
        "no reply to the request that came after its complete-by",
    ),
    "begins what has waited too long": Planted(
        (("    if within is not None and request", "    if False and request"),),
        "waited too long",
        "expected `not_taken`, got `completed`",
    ),
    "two effects for a key": Planted(((_ALREADY, _TWICE),), "the same request once more", "2 effects of"),
    "undo leaves no tombstone": Planted(
        ((_TOMBSTONE, "        if state == 'paid':\n    " + _TOMBSTONE),),
        "an undo before its do",
        "expected `failed`, got `completed`",
    ),
    "abandons what it can't read": Planted(
        ((_DEAD_LETTER, "requests.abandon_message(message)"),), "rubbish", "gave it up (rule 6)"
    ),
    "undoes only what has a result": Planted(
        ((_PAYS_BACK, '        if state == "paid" and request.get("result"):\n'),),
        "an undo without the result",
        "0 effects of",
    ),
}
_DIES = {
    "dies on an unknown field": Planted(
        (
            (
                _PARSED,
                _PARSED + "        if 'of_tomorrow' in request:\n            sys.exit('unknown field')\n",
            ),
        ),
        "an unknown field",
        "no reply",
    ),
    "refuses what is large": Planted(
        ((_KINDS, '    if len(request.get("request", "")) > 3:\n        sys.exit("too much")\n' + _KINDS),),
        "the largest request",
        "no reply",
    ),
    "dies on an effect key that is a number": Planted(
        ((_KINDS, '    if request.get("effect_key") == 7:\n        sys.exit("no text")\n' + _KINDS),),
        "rubbish",
        "a wrong effect_key stays on the queue",
    ),
}
_LAX = {
    "reads other keys than were sent": Planted(
        (
            (_PARSED, '        request = json.loads(b"".join(message.body).decode(errors="replace"))\n'),
            ("        json.dumps(request, ensure_ascii=False).encode()  # fails for half a character\n", ""),
        ),
        "rubbish",
        "in effect_key",
    ),
}
_NULL = {
    "takes null for a boolean": Planted(
        (
            (
                _KINDS,
                '    if request.get("idempotent", 0) is None:\n        request["idempotent"] = True\n'
                + _KINDS,
            ),
        ),
        "rubbish",
        "a wrong idempotent is gone",
    ),
    "replies under its token": Planted(
        (
            (
                "ServiceBusMessage(json.dumps(reply))",
                'ServiceBusMessage(json.dumps(reply), message_id=reply["token"])',
            ),
        ),
        _FITS,
        "its message id is the token",
    ),
    "pays back what was never paid": Planted(
        ((_PAYS_BACK, '        if state is None:\n            move(ledger, request, "0")\n' + _PAYS_BACK),),
        "an undo before its do",
        "1 effects of",
    ),
}
_NEW_TOKEN = {
    "replies with a new token": Planted(
        ((_ANSWERED, _ANSWERED.rstrip() + ' | {"token": os.urandom(16).hex()}\n'),),
        _ECHOES,
        "token differs from its request",
    ),
}
_CONFUSED = {
    "replies with the token that it remembers": Planted(
        (
            (
                _ANSWERED,
                _ANSWERED.replace("{", 'REPLIES.setdefault(request["effect_key"], {').rstrip() + ")\n",
            ),
            ("class Refused(", "REPLIES = {}\n\n\nclass Refused("),
        ),
        "the same key in a new epoch",
        "was an older token sent?",
    ),
    "takes a task that is born again for the one before": Planted(
        ((_KEY, '    key = request["task_id"] + "/" + request["step"]\n'), (_SOUGHT, _BY_EFFECT)),
        "another task of the same id",
        "expected `completed`, got `failed`",
    ),
}
_BY_KEY = {
    "takes a missing boolean for true": Planted(
        ((_KINDS, '    request = {"idempotent": True} | request\n' + _KINDS),),
        "rubbish",
        "a request without idempotent is gone",
    ),
    "takes one item of a step for another": Planted(
        (
            (_KEY, '    key = request["effect_key"].partition("/")[0] + "/" + request["step"]\n'),
            (_SOUGHT, _BY_EFFECT),
        ),
        "another item of the same step",
        "expected `completed`, got `failed`",
    ),
    "keeps out who has the same key only": Planted(
        (
            (
                _READ_TO_UNDO,
                _READ_TO_UNDO.replace(
                    "    with", "    seen = state_of(ledger, request)[1]\n    time.sleep(0.2)\n    with"
                )
                + '        state = state if state == "undone" else seen\n',
            ),
        ),
        "a do and its undo at once",
        "stay done, though their undo is `completed`",
    ),
    "tells that it did not take what is done": Planted(
        (
            (
                _PAYS,
                _PAYS + "    see_that_there_is_time(request)\n",
            ),
        ),
        "what was begun is taken",
        "expected `completed`, got `not_taken`",
    ),
    "repeats for a new token what is done": Planted(
        (
            (
                _ALREADY,
                "        if state == 'paid' and not request['idempotent'] and request['epoch'] > 1:\n"
                "            move(ledger, request, amount)\n" + _ALREADY,
            ),
        ),
        "what is sent once and done is asked again",
        "2 effects of",
    ),
}
_HASTY = {
    "settles before the effect": Planted(
        ((_REPLY, _SETTLE + _REPLY), (_SEND + _SETTLE, _SEND)),
        "killed before it settled",
        "settled before the Agent could know",
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
        _ECHOES,
        "a reply to nothing that was asked",
    ),
    "takes one step of a task for another": Planted(
        ((_KEY, _KEY.replace("rpartition", "partition")), (_SOUGHT, _BY_EFFECT)),
        "another step of the same task",
        "expected `completed`, got `failed`",
    ),
    "pays back twice when asked twice at once": Planted(
        (
            (
                _READ_TO_UNDO,
                _READ_TO_UNDO.replace("with transaction(ledger)", "if True") + "        time.sleep(0.2)\n",
            ),
        ),
        "many undone twice at once",
        "2 effects of",
    ),
}
AGENTS = (
    WrongAgent(_BAD_REPLIES, also=("another step of the same task",)),
    WrongAgent(_BAD_MANNERS),
    WrongAgent(_DIES),
    WrongAgent(_LAX),
    WrongAgent(_NULL),
    WrongAgent(_NEW_TOKEN),
    WrongAgent(_CONFUSED),
    WrongAgent(_BY_KEY),
    WrongAgent(_HASTY),
)
