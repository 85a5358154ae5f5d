"""The way of requests to Agents behind queues, and of their replies."""

from __future__ import annotations

from collections.abc import Callable

from functions.bus.sender import Outgoing, QueueSender
from functions.pattern.agent_messages import (
    AGENT_REPLIES_QUEUE,
    AgentReply,
    AgentRequest,
    requests_queue,
    seconds_left,
)
from functions.pattern.ports import Clock

SenderMaker = Callable[[str], QueueSender]


class QueuedAgentRequests:
    """Sends each Agent's requests to its own queue, where they live until complete-by."""

    def __init__(self, make_sender: SenderMaker, *, clock: Clock) -> None:
        self._make_sender = make_sender
        self._clock = clock
        self._senders: dict[str, QueueSender] = {}

    async def send(self, agent: str, request: AgentRequest) -> None:
        """Put the request on the Agent's queue. Raises `TransientError`."""
        queue = requests_queue(agent)
        if queue not in self._senders:
            self._senders[queue] = self._make_sender(queue)
        await self._senders[queue].send(
            Outgoing(
                message_id=f"{request.task_id}.{request.epoch}.{request.step}",
                body=request.model_dump_json().encode(),
                subject=request.direction,
                correlation_id=request.task_id,
                seconds_to_live=seconds_left(request.complete_by, self._clock.now()),
            )
        )


class QueuedAgentReplies:
    """Sends replies to the Schedulers."""

    def __init__(self, make_sender: SenderMaker) -> None:
        self._sender = make_sender(AGENT_REPLIES_QUEUE)

    async def send(self, reply: AgentReply) -> None:
        """Put the reply on the Schedulers' queue. Raises `TransientError`."""
        await self._sender.send(
            Outgoing(
                message_id=f"{reply.task_id}.{reply.epoch}.{reply.step}",
                body=reply.model_dump_json().encode(),
                subject=reply.outcome,
                correlation_id=reply.task_id,
            )
        )
