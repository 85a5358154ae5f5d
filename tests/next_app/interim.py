"""Stand-ins for the parts that are not merged yet: the sender, the handlers of queues, and an Agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from functions.agents.agent_call import AgentCall, Found
from functions.bus.sender import Outgoing, QueueSender, connect_bus
from functions.composition import MessageHandlers, Settings, TaskParts, utc_now
from functions.core.record import Message, MessageKind
from functions.core.rules import admit
from functions.core.task_events import Finding
from functions.machine import new_id
from functions.messaging.agent_messages import AgentReply, AgentRequest, read_agent_message, requests_queue
from functions.messaging.message_format import QueueMessage
from functions.messaging.scheduler_messages import (
    SCHEDULER_REQUESTS_QUEUE,
    ReleaseRequest,
    RunRequest,
    SchedulerMessage,
    WakeRequest,
)
from functions.pattern.request_figures import BusFigures

_KINDS: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind) for kind in (Message, RunRequest, WakeRequest, ReleaseRequest)
}
_OWN = {MessageKind.START_CHILD, MessageKind.CANCEL_CHILD, MessageKind.CHILD_ENDED}


class InterimSender:
    """Sends messages of the application to its own queue, and drops notices and alerts."""

    def __init__(self, settings: Settings) -> None:
        self._bus = connect_bus(settings.service_bus_connection)
        self._queues: dict[str, QueueSender] = {}

    async def send(self, message: SchedulerMessage) -> None:
        """Send a message."""
        if isinstance(message, Message) and message.kind not in _OWN:
            return
        not_before = None
        if isinstance(message, WakeRequest):
            not_before = message.not_before
        elif isinstance(message, ReleaseRequest):
            not_before = message.at
        kind = type(message).__name__
        body = json.dumps({"kind": kind, "message": _KINDS[kind].dump_python(message, mode="json")}).encode()
        await self._send(
            SCHEDULER_REQUESTS_QUEUE,
            Outgoing(message_id=message.id, body=body, subject=None, not_before=not_before),
        )

    async def send_request(self, agent: str, request: AgentRequest) -> None:
        """Send a request to an Agent."""
        body = request.model_dump_json().encode()
        await self._send(
            requests_queue(agent), Outgoing(message_id=request.message_id, body=body, subject=None)
        )

    async def _send(self, queue: str, outgoing: Outgoing) -> None:
        if queue not in self._queues:
            self._queues[queue] = QueueSender(self._bus(), queue, BusFigures())
        await self._queues[queue].send(outgoing)


def handlers(tasks: TaskParts) -> MessageHandlers:
    """Return handlers that read the interim format."""

    async def scheduler_request(message: QueueMessage) -> None:
        envelope = json.loads(message.body)
        await tasks.receivers.receive(_KINDS[envelope["kind"]].validate_python(envelope["message"]))

    async def agent_reply(message: QueueMessage) -> None:
        await tasks.receivers.reply(read_agent_message(AgentReply, message.body))

    return MessageHandlers(
        submissions=partial(_admit_all, tasks), scheduler_request=scheduler_request, agent_reply=agent_reply
    )


async def _admit_all(tasks: TaskParts, messages: Sequence[QueueMessage]) -> None:
    await asyncio.gather(*(_admit(tasks, json.loads(message.body)) for message in messages))


async def _admit(tasks: TaskParts, body: dict[str, Any]) -> None:
    workflow, now = tasks.registry.find(body["workflow"]), utc_now()
    assert workflow is not None
    order = workflow.new_order(body["task"], new_id(), json.dumps(body["payload"]), now)
    await tasks.storage.admit(admit(order, now, tasks.rules))


@dataclass
class FileAgent:
    """Appends a line to a file for each call, and waits as long as the file `hold` is beside it."""

    file: Path
    fences_starts: bool = False

    async def carry_out(self, call: AgentCall) -> str:
        """Note the effect key, and return the request."""
        with self.file.open("a") as lines:
            lines.write(f"{call.effect_key}\n")
        while (self.file.parent / "hold").exists():
            await asyncio.sleep(0.05)
        return call.request

    async def find(self, call: AgentCall) -> Found:
        """Nothing is known."""
        raise NotImplementedError(call.step, Finding.UNKNOWN)
