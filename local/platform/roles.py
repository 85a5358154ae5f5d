"""The application as four hosts, one for each role: their names, settings and tables."""

from __future__ import annotations

import os
from collections.abc import Mapping

from azure.data.tables.aio import TableServiceClient

from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.messaging.rejected_messages import REJECTED_TABLE
from functions.roles import AGENT_TABLES, AppRole
from functions.services.service import service_tables
from functions.table_accounts import TASKS_TABLE
from functions.workflows.registry import load_registrations, sample_services
from local.platform.options import PlatformPorts
from local.platform.parts import PartName


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
    """Return a role's settings. The Agents' host gets no address of the state store.

    An empty setting takes precedence over the environment and the app's settings file.
    """
    own = {"ROLES": role.value, **settings}
    own["AgentStore"] = settings.get("AgentStore") or settings["StateStore"]
    return own | {"StateStore": ""} if role is AppRole.AGENTS else own


async def make_tables(settings: Mapping[str, str]) -> None:
    """Create the tables that are missing, as the templates do in Azure: most roles may not."""
    samples = service_tables(sample_services(load_registrations()))
    names = {settings["StateStore"]: (TASKS_TABLE, REJECTED_TABLE, *samples)}
    agents = settings.get("AgentStore") or settings["StateStore"]
    names[agents] = (*names.get(agents, ()), *AGENT_TABLES)
    for connection, tables in names.items():
        async with TableServiceClient.from_connection_string(connection) as service:
            for name in tables:
                await service.create_table_if_not_exists(name)
