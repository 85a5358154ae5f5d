"""The functions that the host calls: routes, queues, runs and timers. Also the clock, and random ids.

Handlers are arguments. Only decorators of azure-functions are used: they find the installed Durable Functions
package. In this version, a decorator of Durable Functions must be the innermost one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, List  # noqa: UP035 - the worker recognises a batch by `List`

import azure.durable_functions as df
import azure.functions as func

from functions.agents.queue_agent import QueueAgent
from functions.http.asgi_handler import HttpRoute, http_handler
from functions.messaging.message_format import QueueMessage
from functions.messaging.queue_names import SUBMISSIONS_QUEUE, requests_queue
from functions.messaging.received_messages import NotHandledError, handle
from functions.messaging.task_messages import RunRequest
from functions.scheduler.run import RUN_AGENTS_ACTIVITY, scheduler
from functions.submission.event_batches import HubEvent, events_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_log = logging.getLogger(__name__)


def utc_now() -> datetime:
    """Return the machine's time in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """Return a random id: 32 hexadecimal digits."""
    return secrets.token_hex(16)


_SCHEDULER = "scheduler"
_BUS_CONNECTION, _HUB_CONNECTION = "ServiceBusConnection", "EventHubConnection"
#: States of Durable instances that can be purged.
_ENDED = [
    df.OrchestrationRuntimeStatus.Completed,
    df.OrchestrationRuntimeStatus.Failed,
    df.OrchestrationRuntimeStatus.Terminated,
]
#: A time before the creation of any instance.
_FIRST_TIME = datetime(2020, 1, 1, tzinfo=UTC)
#: Age at which a Durable instance is purged. A run that ended needs no instance.
_INSTANCES_KEPT_FOR = timedelta(days=1)
_PURGE_SECONDS = 240

_client = ContextVar[df.DurableOrchestrationClient | None]("durable_client", default=None)


@contextmanager
def durable_client(client: df.DurableOrchestrationClient) -> Iterator[None]:
    """Start the runs of the block, and of the asyncio tasks that it creates, through this client."""
    token = _client.set(client)
    try:
        yield
    finally:
        _client.reset(token)


async def start_run(request: RunRequest) -> bool:
    """Start the Durable instance of a run. If an instance of this id is running, nothing changes.

    Return False if the current function has no Durable client. After a `NotHandledError`, it may be started.
    """
    client = _client.get()
    if client is None:
        return False
    try:
        await client.start_new(_SCHEDULER, request.id, request.id)
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


def add_scheduler(app: func.FunctionApp, run_agents: Callable[[str], Awaitable[str]]) -> None:
    """Add the orchestrator of a run, and the activity that calls Agents."""

    @app.function_name(_SCHEDULER)
    @app.orchestration_trigger(context_name="context")
    def orchestrate(context: df.DurableOrchestrationContext) -> Generator[Any, str]:
        return scheduler(context)

    @app.function_name(RUN_AGENTS_ACTIVITY)
    @app.activity_trigger(input_name="run")
    async def activity(run: str) -> str:
        return await run_agents(run)


def add_submission(
    app: func.FunctionApp, receive: Callable[[Sequence[QueueMessage]], Awaitable[None]]
) -> None:
    """Add the function of submitted orders, which receives many messages at once."""

    @app.function_name("submission")
    @app.service_bus_queue_trigger(
        arg_name="messages",
        queue_name=SUBMISSIONS_QUEUE,
        connection=_BUS_CONNECTION,
        cardinality=func.Cardinality.MANY,
    )
    @app.durable_client_input(client_name="client")
    async def submission(
        messages: List[func.ServiceBusMessage],  # noqa: UP006 - the worker recognises a batch by `List`
        client: df.DurableOrchestrationClient,
    ) -> None:
        with durable_client(client):
            await receive([_message_of(message) for message in messages])


def add_hub(
    app: func.FunctionApp,
    hub: str,
    consumer_group: str,
    receive: Callable[[Sequence[HubEvent]], Awaitable[None]],
) -> None:
    """Add the function of an event hub. Endless retries keep the checkpoint before a failed batch."""

    @app.function_name("ingestion")
    @app.event_hub_message_trigger(
        arg_name="events",
        event_hub_name=hub,
        connection=_HUB_CONNECTION,
        consumer_group=consumer_group,
        cardinality=func.Cardinality.MANY,
        data_type=func.DataType.BINARY,
    )
    @app.retry(
        strategy="exponential_backoff",
        max_retry_count="-1",
        minimum_interval="00:00:01",
        maximum_interval="00:01:00",
    )
    @app.durable_client_input(client_name="client")
    async def ingestion(
        events: List[func.EventHubEvent],  # noqa: UP006 - the worker recognises a batch by `List`
        client: df.DurableOrchestrationClient,
    ) -> None:
        if events:
            with durable_client(client):
                await receive(events_of(events))


def add_queue(
    app: func.FunctionApp,
    name: str,
    queue: str,
    receive: Callable[[QueueMessage], Awaitable[None]],
    *,
    starts_runs: bool = False,
    seconds: float | None = None,
) -> None:
    """Add the function of a queue. It retries a message for `seconds`, by default within its lock.

    With `starts_runs`, it has the Durable client. After an error, the host delivers the message again.
    """

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
        function = app.durable_client_input(client_name="client")(receive_and_start)
    app.function_name(name)(app.service_bus_queue_trigger("message", _BUS_CONNECTION, queue)(function))


def add_agent(app: func.FunctionApp, agent: QueueAgent) -> None:
    """Add the function of an Agent's queue. Its message stays locked as long as the function runs."""

    async def receive(message: QueueMessage) -> None:
        await agent.take(message.message_id, message.body)

    name = f"agent_{agent.name.replace('-', '_')}"
    add_queue(app, name, requests_queue(agent.name), receive, seconds=agent.function_seconds)


def add_routes(app: func.FunctionApp, make: Callable[[], ASGIApp], *routes: HttpRoute) -> None:
    """Add a function for each route. One application, made with the first request, answers all routes."""
    answer = http_handler(make)
    for each in routes:
        level = func.AuthLevel.ANONYMOUS if each.is_open else func.AuthLevel.FUNCTION

        @app.function_name(each.function)
        @app.route(route=each.route, methods=each.methods, auth_level=level)
        async def handle(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
            return await answer(req, context)


def add_timer(app: func.FunctionApp, name: str, schedule: str, run: Callable[[], Awaitable[None]]) -> None:
    """Add a function that runs at the times of a schedule (NCRONTAB, UTC)."""

    @app.function_name(name)
    @app.timer_trigger(arg_name="timer", schedule=schedule)
    async def on_time(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host's signature
        await run()


def add_purge(
    app: func.FunctionApp, schedule: str, retention: timedelta, now: Callable[[], datetime]
) -> None:
    """Add the timer that purges the Durable instances of old runs.

    It raises nothing, because the next purge continues.
    """

    @app.function_name("purge")
    @app.timer_trigger(arg_name="timer", schedule=schedule)
    @app.durable_client_input(client_name="client")
    async def run(timer: func.TimerRequest, client: df.DurableOrchestrationClient) -> None:  # noqa: ARG001 - the host's signature
        before = now() - min(retention, _INSTANCES_KEPT_FOR)
        try:
            async with asyncio.timeout(_PURGE_SECONDS):
                result = await client.purge_instance_history_by(_FIRST_TIME, before, _ENDED)
        except Exception as error:  # noqa: BLE001 - the client raises nothing narrower
            _log.warning("Durable instances are not purged: %s", type(error).__name__)
            return
        _log.info("purge %s", json.dumps({"instances": int(result.instances_deleted)}))
