"""The functions of HTTP routes, queues and runs, as the Functions host knows them; handlers are arguments.

`timers.py` has the functions of timers.

Only decorators of azure-functions are used: they find the Durable Functions package that is installed. In
this version, a decorator of Durable Functions must be the innermost one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, List  # noqa: UP035 - the worker recognises a batch by `List`

import azure.durable_functions as df
import azure.functions as func

from functions.agents.queue_agent import QueueAgent
from functions.messaging.agent_messages import requests_queue
from functions.messaging.message_format import QueueMessage
from functions.messaging.received_messages import NotHandledError, handle
from functions.messaging.scheduler_messages import RunRequest
from functions.scheduler.run import RUN_AGENTS_ACTIVITY, scheduler
from functions.submission.event_batches import HubEvent, events_of
from functions.web.blueprint import HttpRoute, http_handler

if TYPE_CHECKING:
    from starlette.types import ASGIApp

SCHEDULER = "scheduler"
BUS_CONNECTION, HUB_CONNECTION = "ServiceBusConnection", "EventHubConnection"


_client = ContextVar[df.DurableOrchestrationClient | None]("durable_client", default=None)

#: Handles a message. After an error the host delivers the message again.
type ReceiveMessage = Callable[[QueueMessage], Awaitable[None]]
type ReceiveMessages = Callable[[Sequence[QueueMessage]], Awaitable[None]]
type ReceiveEvents = Callable[[Sequence[HubEvent]], Awaitable[None]]


@contextmanager
def durable_client(client: df.DurableOrchestrationClient) -> Iterator[None]:
    """Let the block, and the tasks that it creates, start runs through the client of this invocation."""
    token = _client.set(client)
    try:
        yield
    finally:
        _client.reset(token)


async def start_run(request: RunRequest) -> bool:
    """Start the Durable instance of a run. An instance of this id that is running has no further effect.

    Return False if the current function has no Durable client. Raises `NotHandledError`: it may be started.
    """
    client = _client.get()
    if client is None:
        return False
    try:
        await client.start_new(SCHEDULER, request.id, request.id)
    except Exception as error:  # the client raises nothing narrower
        if "already exists" not in str(error):
            raise NotHandledError(f"run {request.id} is not started: {type(error).__name__}") from error
    return True


def _message_of(message: func.ServiceBusMessage) -> QueueMessage:
    return QueueMessage.received(
        message.message_id,
        message.get_body(),
        message.application_properties,
        message.subject,
        message.correlation_id,
    )


def scheduler_functions(run_agents: Callable[[str], Awaitable[str]]) -> func.Blueprint:
    """Register the orchestrator of a run, and the activity that calls Agents."""
    blueprint = func.Blueprint()

    @blueprint.function_name(SCHEDULER)
    @blueprint.orchestration_trigger(context_name="context")
    def orchestrate(context: df.DurableOrchestrationContext) -> Generator[Any, str]:
        return scheduler(context)

    @blueprint.function_name(RUN_AGENTS_ACTIVITY)
    @blueprint.activity_trigger(input_name="run")
    async def activity(run: str) -> str:
        return await run_agents(run)

    return blueprint


def submission_function(queue: str, receive: ReceiveMessages) -> func.Blueprint:
    """Register the function of submitted orders, which receives many messages at once."""
    blueprint = func.Blueprint()

    @blueprint.function_name("submission")
    @blueprint.service_bus_queue_trigger(
        arg_name="messages",
        queue_name=queue,
        connection=BUS_CONNECTION,
        cardinality=func.Cardinality.MANY,
    )
    @blueprint.durable_client_input(client_name="client")
    async def submission(
        messages: List[func.ServiceBusMessage],  # noqa: UP006 - as above
        client: df.DurableOrchestrationClient,
    ) -> None:
        with durable_client(client):
            await receive([_message_of(message) for message in messages])

    return blueprint


def hub_function(hub: str, consumer_group: str, receive: ReceiveEvents) -> func.Blueprint:
    """Register the function of an event hub. Endless retries keep the checkpoint before a failed batch."""
    blueprint = func.Blueprint()

    @blueprint.function_name("ingestion")
    @blueprint.event_hub_message_trigger(
        arg_name="events",
        event_hub_name=hub,
        connection=HUB_CONNECTION,
        consumer_group=consumer_group,
        cardinality=func.Cardinality.MANY,
        data_type=func.DataType.BINARY,
    )
    @blueprint.retry(
        strategy="exponential_backoff",
        max_retry_count="-1",
        minimum_interval="00:00:01",
        maximum_interval="00:01:00",
    )
    @blueprint.durable_client_input(client_name="client")
    async def ingestion(
        events: List[func.EventHubEvent],  # noqa: UP006 - as above
        client: df.DurableOrchestrationClient,
    ) -> None:
        if events:
            with durable_client(client):
                await receive(events_of(events))

    return blueprint


def queue_function(
    name: str,
    queue: str,
    receive: ReceiveMessage,
    *,
    starts_runs: bool = False,
    seconds: float | None = None,
) -> func.Blueprint:
    """Register a function that retries a message of a queue for `seconds`, by default within its lock.

    With `starts_runs`, it has the Durable client.
    """
    blueprint = func.Blueprint()

    async def receive_message(message: func.ServiceBusMessage) -> None:
        received = _message_of(message)
        await handle(queue, received, partial(receive, received), seconds=seconds)

    async def receive_and_start(
        message: func.ServiceBusMessage, client: df.DurableOrchestrationClient
    ) -> None:
        with durable_client(client):
            await receive_message(message)

    function: Any = receive_message
    if starts_runs:
        function = blueprint.durable_client_input(client_name="client")(receive_and_start)
    trigger = blueprint.service_bus_queue_trigger("message", BUS_CONNECTION, queue)
    blueprint.function_name(name)(trigger(function))
    return blueprint


def agent_function(agent: QueueAgent) -> func.Blueprint:
    """Register the function of an Agent's queue. Its message stays locked as long as the function runs."""

    async def receive(message: QueueMessage) -> None:
        await agent.take(message.message_id, message.body)

    name = f"agent_{agent.name.replace('-', '_')}"
    return queue_function(name, requests_queue(agent.name), receive, seconds=agent.function_seconds)


def http_functions(make: Callable[[], ASGIApp], *routes: HttpRoute) -> func.Blueprint:
    """Register a function for each route; one application, made at its first request, answers all."""
    blueprint = func.Blueprint()
    answer = http_handler(make)
    for each in routes:
        level = func.AuthLevel.ANONYMOUS if each.is_open else func.AuthLevel.FUNCTION

        @blueprint.function_name(each.function)
        @blueprint.route(route=each.route, methods=each.methods, auth_level=level)
        async def handle(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
            return await answer(req, context)

    return blueprint
