"""The application as four hosts, one for each role: their names, settings and tables."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping

from azure.data.tables import TableServiceClient

from functions.core.workflow_definition import WorkflowRegistry
from functions.messaging.rejected_messages import REJECTED_TABLE
from functions.roles import AGENT_TABLES, AppRole
from functions.services.service import service_tables
from functions.table_setup import TASKS_TABLE
from functions.workflows.registration import sample_services
from functions.workflows.registry import load_registrations
from local.platform.options import PlatformPorts
from local.platform.parts import PartName, Readiness
from local.platform.readiness import until_answered

type Prepare = Callable[[], Awaitable[None]]


def hosts_of(ports: PlatformPorts, settings: Mapping[str, str]) -> dict[AppRole, tuple[PartName, int]]:
    """Name the host of each role, and its port; Agents have none where all of them are served elsewhere."""
    hosts = {
        AppRole.FRONT: (PartName.HOST, ports.host),
        AppRole.SCHEDULER: (PartName.SCHEDULER, ports.scheduler or 0),
        AppRole.AGENTS: (PartName.AGENTS, ports.agents or 0),
        AppRole.SUPERVISOR: (PartName.SUPERVISOR, ports.supervisor or 0),
    }
    if not _serves_agents({**os.environ, **settings}):
        del hosts[AppRole.AGENTS]  # it would have no function, and not start
    return hosts


def _serves_agents(settings: Mapping[str, str]) -> bool:
    versions = [version for each in load_registrations() for version in each.versions]
    elsewhere = {each.strip() for each in settings.get("AGENTS_ELSEWHERE", "").split(",")}
    return bool(WorkflowRegistry(versions).queue_agents - elsewhere)


def settings_of(role: AppRole, settings: Mapping[str, str]) -> dict[str, str]:
    """Give a role's settings. The Agents' host does not know where the state store is.

    An empty setting stands before what the environment, or the app's settings file, says of it.
    """
    own = {
        "ROLES": role.value,
        **settings,
        "AgentStore": settings.get("AgentStore") or settings["StateStore"],
    }
    if role is not AppRole.AGENTS:
        return own
    return own | {"StateStore": ""}


class SharedTables:
    """Makes the tables, as the templates do in Azure: most roles may not."""

    def __init__(self, answers: Readiness, settings: Mapping[str, str]) -> None:
        self._answers = answers
        self._settings = settings
        self._turn = asyncio.Lock()
        self._are_made = False

    def then(self, prepare: Prepare | None) -> Prepare:
        """Give what makes them, once, before what else is to be prepared."""

        async def prepared() -> None:
            async with self._turn:
                if not self._are_made:
                    await until_answered(self._answers)
                    await asyncio.to_thread(self._make)
                    self._are_made = True
            if prepare is not None:
                await prepare()

        return prepared

    def _make(self) -> None:
        samples = service_tables(sample_services(load_registrations()))
        state_store = self._settings["StateStore"]
        _create(state_store, (TASKS_TABLE, REJECTED_TABLE, *samples))
        _create(self._settings.get("AgentStore") or state_store, AGENT_TABLES)


def _create(connection: str, names: tuple[str, ...]) -> None:
    with TableServiceClient.from_connection_string(connection) as service:
        for name in names:
            service.create_table_if_not_exists(name)
