"""The checks of the messages: look-ups, unknown and unreadable content, and all replies."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Sequence

from azure.servicebus import ServiceBusMessage

from functions.core.json_values import MOST_TEXT_BYTES
from functions.messaging.agent_messages import AgentRequest, ReplyOutcome
from local.agent_check.kit import SILENCE, CheckFailedError, Kit, NotSeenError, find_of
from local.agent_check.queues import message_of

#: The reason that Service Bus writes after the last delivery of a message.
_GIVEN_UP = "MaxDeliveryCountExceeded"
_RUBBISH = {
    "half an object": b"{",
    "a list": b"[]",
    "an empty object": b"{}",
    "what is not UTF-8": b"\xff\xfe\x00",
}
#: Some parsers read them as U+FFFD, so that two keys become one.
_NO_TEXT = {"half a character": rb"\ud800", "what is not UTF-8": b"\xe9"}
#: Values that no request has.
_WRONG: dict[str, object] = {
    "request": [],
    "effect_key": 7,
    "direction": "redo",
    "complete_by": 7,
    "start_id": None,
    "kind": "guess",
    "idempotent": None,
}


async def a_look_up_of_what_was_done(kit: Kit) -> None:
    """A look-up finds what was done, with its result, and does not repeat it (rule 9)."""
    done = kit.request(idempotent=False)
    before = await kit.ask(done)
    after = await kit.ask(find_of(done), outcome=None)
    await kit.effects(done)
    if after.outcome == ReplyOutcome.UNKNOWN:
        raise NotSeenError("it replies `unknown` to a look-up: do not declare `find` for it")
    if after.outcome != ReplyOutcome.DONE:
        raise CheckFailedError(f"expected `done`, got `{after.outcome}`")
    if after.result != before.result:
        raise CheckFailedError(f"one start, two results: {before.result} and {after.result}")


async def a_look_up_of_what_was_not_begun(kit: Kit) -> None:
    """A look-up has no effect: a step that was not begun is `not_done` or `unknown` (rule 9)."""
    find = find_of(kit.request(idempotent=False))
    if (await kit.ask(find, outcome=None)).outcome == ReplyOutcome.DONE:
        raise CheckFailedError("it was never begun, and is found to be `done`")
    await kit.effects(find, least=0, most=0)


async def a_look_up_after_its_deadline(kit: Kit) -> None:
    """A look-up that is taken after its deadline is completed, and has no effect (rule 9)."""
    find = find_of(kit.request(idempotent=False), complete_in=-1)
    await kit.desk.ask([find], lives_on=True)
    await kit.completed(find)
    await kit.effects(find, least=0, most=0)


async def a_fence_holds(kit: Kit) -> None:
    """After `not_done` with `fences_starts`, that start is not taken, and the next one is done (rule 9)."""
    start = kit.request(idempotent=False)
    found = await kit.ask(find_of(start), outcome=None)
    if found.outcome != ReplyOutcome.NOT_DONE or not found.content.get("fences_starts"):
        raise NotSeenError("it does not fence starts, so that an operator decides after each look-up")
    await kit.ask(start, outcome=ReplyOutcome.NOT_TAKEN)
    await kit.effects(start, least=0, most=0)
    again = kit.request(of=start, epoch=2, idempotent=False)
    await kit.ask(again)
    await kit.effects(again)


async def an_unknown_field(kit: Kit) -> None:
    """A field that the Agent does not know is ignored: a request may gain some (The request)."""
    request = kit.request(complete_in=20)
    await _is_answered(kit, request, request.model_dump(mode="json") | {"of_tomorrow": {"any": ["thing"]}})


async def a_request_without_kind(kit: Kit) -> None:
    """A request without a kind is carried out, as its kind is optional (The request)."""
    request = kit.request()
    await _is_answered(kit, request, request.model_dump(mode="json", exclude={"kind"}))
    await kit.effects(request)


async def a_complete_by_without_a_fraction(kit: Kit) -> None:
    """A complete-by may have no fraction of a second (The request)."""
    request = kit.request()
    whole = request.model_copy(update={"complete_by": request.complete_by.replace(microsecond=0)})
    await kit.ask(whole)


async def another_schema_version(kit: Kit) -> None:
    """A request of another schema version is dead-lettered, without an effect (rule 6)."""
    request = kit.request()
    body = json.dumps(request.model_dump(mode="json") | {"schema_version": 2}).encode()
    kit.desk.expect(request)
    await _is_dead_lettered(kit, {"another schema version": message_of(request, body)})
    if kit.desk.replies(request):
        raise CheckFailedError("a reply was sent")
    await kit.effects(request, least=0, most=0)


async def rubbish(kit: Kit) -> None:
    """A message that is not a request is dead-lettered at once, and others are served (rule 6)."""
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
    await kit.ask(neighbour)


async def the_largest_request(kit: Kit) -> None:
    """The largest request, 60,000 bytes in UTF-16 by a `note`, is done or refused (The request)."""
    asked = kit.options.request | {"note": ""}
    text = json.dumps(asked, separators=(",", ":"), ensure_ascii=False)
    room = (MOST_TEXT_BYTES - len(text.encode("utf-16-le"))) // 2
    request = kit.request().model_copy(update={"request": asked | {"note": "n" * room}})
    await kit.ask(request, outcome=None)


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


async def replies_echo_their_requests(kit: Kit) -> None:
    """Every reply repeats its request's task, step, direction, epoch, start id and kind (The reply)."""
    _check_replies(kit, kit.desk.not_echoed)


async def replies_fit_the_schema(kit: Kit) -> None:
    """Every reply is strict JSON that fits the schema, in a data section (The reply)."""
    _check_replies(kit, kit.desk.misfits)


async def it_stays_up(kit: Kit) -> None:
    """No process of the Agent ended that the kit had not ended."""
    kit.agent.see_that_it_runs()
    _none_of(kit.agent.ended)


def _none_of(faults: Sequence[str]) -> None:
    if faults:
        counted = Counter(faults).items()
        raise CheckFailedError(
            "; ".join(f"{fault} ({times} times)" if times > 1 else fault for fault, times in counted)
        )


def _check_replies(kit: Kit, faults: Sequence[str]) -> None:
    _none_of(faults)
    if not kit.desk.last_reply_at:
        raise NotSeenError("no request was answered")
