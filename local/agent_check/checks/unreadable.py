"""What an Agent does not know, it ignores; what it can't read, it leaves to the dead letters."""

from __future__ import annotations

import json
import uuid

from azure.servicebus import ServiceBusMessage

from functions.core.json_values import MOST_TEXT_BYTES
from functions.messaging.agent_messages import AgentRequest
from local.agent_check.desk import message_of
from local.agent_check.kit import SILENCE, Kit
from local.agent_check.verdicts import CheckFailedError

#: What Service Bus writes when it is tired of delivering a message.
_GIVEN_UP = "MaxDeliveryCountExceeded"
_RUBBISH = {
    "half an object": b"{",
    "a list": b"[]",
    "an empty object": b"{}",
    "what is not UTF-8": b"\xff\xfe\x00",
}
#: Some parsers read them as U+FFFD, so that two keys become one.
_NO_TEXT = {"half a character": rb"\ud800", "what is not UTF-8": b"\xe9"}
#: What no request has.
_WRONG: dict[str, object] = {
    "request": [],
    "effect_key": 7,
    "direction": "redo",
    "complete_by": 7,
    "start_id": None,
    "kind": "guess",
    "idempotent": None,
}


async def an_unknown_field(kit: Kit) -> None:
    """A field that the Agent does not know is ignored: a request may gain some (The request)."""
    request = kit.request(complete_in=20)
    await _is_answered(kit, request, request.model_dump(mode="json") | {"of_tomorrow": {"any": ["thing"]}})


async def a_request_without_kind(kit: Kit) -> None:
    """A request without a kind is carried out, as its kind is optional (The request)."""
    request = kit.request()
    await _is_answered(kit, request, request.model_dump(mode="json", exclude={"kind"}))
    await kit.effects(request)


async def a_complete_by_on_a_whole_second(kit: Kit) -> None:
    """A complete-by may have no fraction of a second (The request)."""
    request = kit.request()
    whole = request.model_copy(update={"complete_by": request.complete_by.replace(microsecond=0)})
    await kit.desk.ask([whole])
    await kit.answered(whole)


async def another_schema_version(kit: Kit) -> None:
    """A request of another schema version is dead-lettered, without an effect (rule 6)."""
    request = kit.request()
    body = json.dumps(request.model_dump(mode="json") | {"schema_version": 2}).encode()
    kit.desk.expect(request)
    await _is_dead_lettered(kit, {"another schema version": message_of(request, body)})
    if kit.desk.heard(request):
        raise CheckFailedError("a reply was sent")
    await kit.effects(request, least=0, most=0)


async def rubbish(kit: Kit) -> None:
    """What is no request is dead-lettered at once, and its neighbours are served (rule 6)."""
    run = uuid.uuid4().hex[:12]
    right = kit.request().model_dump(mode="json")
    wrong = {f"a wrong {name}": json.dumps(right | {name: value}).encode() for name, value in _WRONG.items()}
    named = json.dumps(right | {"effect_key": f"?{right['effect_key']}"}).encode()
    lacking = json.dumps({name: value for name, value in right.items() if name != "idempotent"})
    wrong |= {"a request without idempotent": lacking.encode()}
    wrong |= {f"{what} in effect_key": named.replace(b'"?', b'"' + some) for what, some in _NO_TEXT.items()}
    messages = {
        what: ServiceBusMessage(body, message_id=f"{run}-{number}")
        for number, (what, body) in enumerate((_RUBBISH | wrong).items())
    }
    neighbour = kit.request()
    await _is_dead_lettered(kit, messages)
    await kit.desk.ask([neighbour])
    await kit.answered(neighbour)


async def the_largest_request(kit: Kit) -> None:
    """The largest request, 60,000 bytes in UTF-16 by a `note`, is done or refused (The request)."""
    asked = kit.options.request | {"note": ""}
    text = json.dumps(asked, separators=(",", ":"), ensure_ascii=False)
    room = (MOST_TEXT_BYTES - len(text.encode("utf-16-le"))) // 2
    request = kit.request().model_copy(update={"request": asked | {"note": "n" * room}})
    await kit.desk.ask([request])
    await kit.answered(request, outcome=None)


async def _is_answered(kit: Kit, request: AgentRequest, content: dict[str, object]) -> None:
    kit.desk.expect(request)
    await kit.desk.send([message_of(request, json.dumps(content).encode())])
    await kit.answered(request)


async def _is_dead_lettered(kit: Kit, messages: dict[str, ServiceBusMessage]) -> None:
    await kit.desk.send(list(messages.values()))
    for what, message in messages.items():
        if not await kit.settled([str(message.message_id)]):
            raise CheckFailedError(f"{what} stays on the queue, and is delivered again and again")
    dead = await kit.desk.dead_letters((str(each.message_id) for each in messages.values()), SILENCE)
    for what, message in messages.items():
        reason = dead.get(str(message.message_id))
        if reason == _GIVEN_UP and not kit.options.abandons_unreadable:
            raise CheckFailedError(f"{what} was abandoned until Service Bus gave it up")
        if reason is None:
            raise CheckFailedError(f"{what} is gone, and not among the dead letters")
