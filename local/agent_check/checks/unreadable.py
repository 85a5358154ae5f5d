"""What an Agent does not know, it ignores; what it can't read, it leaves to the dead letters."""

from __future__ import annotations

import json
import uuid

from azure.servicebus import ServiceBusMessage

from local.agent_check.desk import message_of
from local.agent_check.kit import PATIENCE, SILENCE, Kit
from local.agent_check.verdicts import CheckFailedError

#: What Service Bus writes when it is tired of delivering a message.
_GIVEN_UP = "MaxDeliveryCountExceeded"
_LARGEST_REQUEST = 64 * 1024
_RUBBISH = {
    "half an object": b"{",
    "a list": b"[]",
    "an empty object": b"{}",
    "what is not UTF-8": b"\xff\xfe\x00",
}


async def an_unknown_field(kit: Kit) -> None:
    """A field that the Agent does not know is ignored: a request may gain some."""
    request = kit.request(complete_in=20)
    body = json.dumps(request.model_dump(mode="json") | {"of_tomorrow": {"any": ["thing"]}})
    kit.desk.expect(request)
    await kit.desk.send([message_of(request, body.encode())])
    await kit.answered(request)


async def another_schema_version(kit: Kit) -> None:
    """A request of another schema version is dead-lettered, without an effect."""
    request = kit.request()
    body = json.dumps(request.model_dump(mode="json") | {"schema_version": 3}).encode()
    kit.desk.expect(request)
    await _is_dead_lettered(kit, {"another schema version": message_of(request, body)})
    if kit.desk.heard(request):
        raise CheckFailedError("it was replied to")
    await kit.effects(request, least=0, most=0)


async def rubbish(kit: Kit) -> None:
    """What is no request is dead-lettered at once, and its neighbours are served."""
    run = uuid.uuid4().hex[:12]
    messages = {
        what: ServiceBusMessage(body, message_id=f"{run}-{number}")
        for number, (what, body) in enumerate(_RUBBISH.items())
    }
    neighbour = kit.request()
    await _is_dead_lettered(kit, messages)
    await kit.desk.ask([neighbour])
    await kit.answered(neighbour)


async def the_largest_request(kit: Kit) -> None:
    """A request of 64 KiB, the most that a step may ask, is answered."""
    request = kit.request()
    content = json.dumps(request.model_dump(mode="json"))
    body = content[:-1] + " " * _LARGEST_REQUEST + content[-1:]
    kit.desk.expect(request)
    await kit.desk.send([message_of(request, body.encode())])
    await kit.answered(request)


async def _is_dead_lettered(kit: Kit, messages: dict[str, ServiceBusMessage]) -> None:
    await kit.desk.send(list(messages.values()))
    for what, message in messages.items():
        if not await kit.desk.until_gone([str(message.message_id)], PATIENCE):
            raise CheckFailedError(f"{what} stays on the queue, and is delivered again and again")
    dead = await kit.desk.dead_letters((str(each.message_id) for each in messages.values()), SILENCE)
    for what, message in messages.items():
        reason = dead.get(str(message.message_id))
        if reason == _GIVEN_UP:
            raise CheckFailedError(f"{what} was abandoned until Service Bus gave it up")
        if reason is None and not kit.options.keeps_rejected:
            raise CheckFailedError(f"{what} is gone, and not among the dead letters")
