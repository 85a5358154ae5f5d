"""Operations of a Durable client: start, send events, terminate, suspend, resume, restart, purge, wait.

Every method that changes something returns after its commit. The errors are those of `refusals.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
import uuid
from collections.abc import Iterable

from functions_local.durable.contract import FunctionTable
from functions_local.durable.dispatcher import TaskHub
from functions_local.durable.episode import execution_started, unknown_orchestrator
from functions_local.durable.events import (
    Event,
    EventRaised,
    ExecutionResumed,
    ExecutionSuspended,
    ExecutionTerminated,
    RuntimeStatus,
)
from functions_local.durable.queries import (
    Bodies,
    InstanceFilter,
    Page,
    find_instance,
    history_bodies,
    list_finished,
    list_instances,
)
from functions_local.durable.refusals import (
    AlreadyExistsError,
    BadRequestError,
    GoneError,
    NotFinishedError,
    PayloadTooLargeError,
    UnknownInstanceError,
    check_size,
)
from functions_local.durable.store import Changes, InstanceRow
from functions_local.times import now_text

#: At most 256 characters, no leading @ (for entities only), and none that URLs or table keys exclude.
_LEGAL_ID = re.compile(r"(?!@)[^/\\#?\x00-\x1f\x7f-\x9f]{1,256}")


class DurableClient:
    """Carries out the requests of clients."""

    def __init__(self, hub: TaskHub, orchestrators: FunctionTable, default_version: str) -> None:
        self._hub = hub
        self._default_version = default_version
        self._orchestrators = orchestrators
        self._waiting: dict[str, asyncio.Event] = {}

    async def start_new(
        self,
        name: str,
        instance: str | None = None,
        input_text: str | None = None,
        version: str | None = None,
    ) -> str:
        """Start an instance, by default of the app's default version, and return its id.

        The input is JSON text.

        Raises BadRequestError, or AlreadyExistsError if the id belongs to a live instance.
        """
        if self._orchestrators.get(name) is None:
            raise BadRequestError(unknown_orchestrator(name))
        instance = uuid.uuid4().hex if instance is None else instance
        if not _LEGAL_ID.fullmatch(instance):
            raise BadRequestError(f"The instance id '{instance}' is not allowed: {_LEGAL_ID.pattern}")
        _check_payload(input_text, f"The input of orchestration {instance}")
        row = find_instance(self._hub.database, instance)
        is_live = row is not None and not row.status.is_terminal  # in this host or another one
        if is_live or self._hub.instances.get(instance) is not None:
            # A finished row belongs to the previous instance: the new one is not committed yet.
            raise _already_exists(row.status if row is not None and is_live else RuntimeStatus.Pending)
        version = self._default_version if version is None else version
        await self._create(name, instance, input_text, version)
        return instance

    async def _create(self, name: str, instance: str, input_text: str | None, version: str) -> None:
        execution, now = uuid.uuid4().hex, now_text()
        pending = RuntimeStatus.Pending
        row = InstanceRow(
            instance, execution, name, version, input_text, pending, None, None, created=now, updated=now
        )
        event = execution_started(instance, execution, name, version, input_text)
        message = self._hub.dispatcher.message(instance, execution, event)
        # Registered before the commit, so that the id is in use at once.
        self._hub.instances.begin(row)
        self._hub.figures["orchestrations_started"] += 1
        changes = Changes().create_instance(row, self._hub.dispatcher.place).add_message(message)
        try:
            await self._hub.database.commit(
                changes.statements, lambda: self._hub.dispatcher.deliver([message])
            )
        except Exception as error:
            self._hub.instances.end(instance)
            if isinstance(error, sqlite3.IntegrityError):  # another host has started it at the same moment
                raise _already_exists(pending) from error
            raise

    async def raise_event(self, instance: str, name: str, payload: str | None) -> None:
        """Send an external event with JSON text. Raises UnknownInstanceError or GoneError.

        An event that is accepted while its instance ends is dropped, as in Azure, and logged.
        """
        _check_payload(payload, f"Event '{name}' for orchestration {instance}")
        await self._send(instance, EventRaised(name=name, input=payload))

    async def terminate(self, instance: str, reason: str | None) -> None:
        """End an instance; running activities continue. Raises UnknownInstanceError or GoneError."""
        await self._send(instance, ExecutionTerminated(input=reason))

    async def suspend(self, instance: str, reason: str | None) -> None:
        """Pause an instance until it is resumed. Raises UnknownInstanceError or GoneError."""
        await self._send(instance, ExecutionSuspended(reason=reason))

    async def resume(self, instance: str, reason: str | None) -> None:
        """Continue a suspended instance. Raises UnknownInstanceError or GoneError."""
        await self._send(instance, ExecutionResumed(reason=reason))

    async def _send(self, instance: str, event: Event) -> None:
        is_here = self._hub.instances.get(instance) is not None
        if not is_here and (row := self.find(instance)).status.is_terminal:
            raise GoneError(f"Instance '{instance}' is {row.status.name}.")
        message = self._hub.dispatcher.message(instance, None, event)
        changes = Changes().add_message(message, posted=not is_here)
        delivered = [message] if is_here else []
        await self._hub.database.commit(changes.statements, lambda: self._hub.dispatcher.deliver(delivered))

    async def restart(self, instance: str, *, new_id: bool) -> str:
        """Start an instance again with its input, and return the id.

        Raises UnknownInstanceError, or AlreadyExistsError if it is live and keeps its id.
        """
        row = self.find(instance)
        return await self.start_new(row.name, None if new_id else instance, row.input, row.version)

    async def purge(self, instance: str) -> None:
        """Delete a finished instance. Raises UnknownInstanceError or NotFinishedError."""
        row = self.find(instance)
        if not row.status.is_terminal or self._hub.instances.get(instance) is not None:
            raise NotFinishedError("Only orchestrations in a terminal state can be purged")
        await self._forget([instance])

    async def purge_by(self, filter_: InstanceFilter) -> int:
        """Delete all finished instances that match the filter, and return their number."""
        finished = list_finished(self._hub.database, filter_)
        await self._forget(finished)
        return len(finished)

    async def _forget(self, instances: Iterable[str]) -> None:
        changes = Changes()
        for instance in instances:
            if self._hub.instances.get(instance) is None:  # it has not been started again meanwhile
                changes.forget_instance(instance)
        await self._hub.database.commit(changes.statements, lambda: None)

    def find(self, instance: str) -> InstanceRow:
        """Return the committed row of an instance. Raises UnknownInstanceError."""
        row = find_instance(self._hub.database, instance)
        if row is None:
            raise UnknownInstanceError(instance)
        return row

    def list(self, filter_: InstanceFilter, size: int, continuation: str | None) -> Page:
        """Return a page of `size` instances after a continuation token. Raises BadRequestError."""
        return list_instances(self._hub.database, filter_, size, continuation)

    def history(self, instance: str) -> Bodies:
        """Return the committed history of an instance's generation as parsed JSON objects."""
        return history_bodies(self._hub.database, instance)

    async def wait(self, instance: str, timeout: float) -> InstanceRow:  # noqa: ASYNC109 - as the HTTP API has it
        """Wait until an instance has ended, at most `timeout` seconds, and return its current state.

        Raises UnknownInstanceError.
        """
        if self._hub.instances.get(instance) is not None:
            ended = self._waiting.setdefault(instance, asyncio.Event())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), timeout)
        return self.find(instance)

    def notify_end(self, instance: str) -> None:
        """Resume the requests that wait for the end of an instance."""
        if (ended := self._waiting.pop(instance, None)) is not None:
            ended.set()


def _already_exists(status: RuntimeStatus) -> AlreadyExistsError:
    return AlreadyExistsError(f"An Orchestration instance with the status {status.name} already exists.")


def _check_payload(text: str | None, what: str) -> None:
    try:
        check_size(text, what)
    except PayloadTooLargeError as error:
        raise BadRequestError(str(error)) from error
