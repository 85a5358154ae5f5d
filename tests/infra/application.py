"""The settings, queues, tables and functions of the application, according to its own code."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from runpy import run_path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

from functions.agents.agent_catalog import agents_here, load_endpoints, setting_of
from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.core.record import StepType
from functions.messaging.queue_names import (
    AGENT_REPLIES_QUEUE,
    OPERATOR_ALERTS_QUEUE,
    SCHEDULER_REQUESTS_QUEUE,
    SUBMISSIONS_QUEUE,
    requests_queue,
)
from functions.messaging.rejected_messages import REJECTED_TABLE
from functions.roles import AGENT_TABLES, AppRole, permissions_of
from functions.services.service import SERVICES_PATH
from functions.settings import Settings, load_settings
from functions.table_accounts import TASKS_TABLE
from functions.wiring import Wiring
from functions.workflows.registry import load_registrations

REGISTRATIONS = load_registrations()
_SPECS = [spec for each in REGISTRATIONS for spec in each.workflow.specs]
STATE_TABLES = frozenset({TASKS_TABLE, REJECTED_TABLE, *AGENT_TABLES})

#: Queues that drop the copy of a message whose sender did not get the answer. A repeated order must arrive.
DUPLICATE_DETECTION = frozenset({SCHEDULER_REQUESTS_QUEUE, OPERATOR_ALERTS_QUEUE})

_FUNCTION_APP = Path(__file__).parents[2] / "function_app.py"
_HUB_ENVIRONMENT = {"EventHubConnection__fullyQualifiedNamespace": "hubs.example.com"}
_ENVIRONMENT = {
    "StateStore__tableServiceUri": "https://state.table.example.com/",
    "AgentStore__tableServiceUri": "https://agents.table.example.com/",
    "ServiceBusConnection__fullyQualifiedNamespace": "bus.example.com",
    "SAMPLE_SERVICES": "1",
    **{setting_of(spec.agent, "URL"): "https://service.example.com/things" for spec in _SPECS if spec.agent},
}


@dataclass(frozen=True, slots=True)
class SampledAgent:
    """An Agent that calls a sample service: its name, as steps give it, and the service's path."""

    name: str
    path: str

    @property
    def url_setting(self) -> str:
        """Return the setting with the address."""
        return setting_of(self.name, "URL")

    @property
    def key_setting(self) -> str:
        """Return the setting with the key."""
        return setting_of(self.name, "KEY")

    @property
    def table(self) -> str:
        """Return the name of the service's table."""
        return self.path.rpartition("/")[2].capitalize()


def sampled_agents(sample: Mapping[str, str]) -> list[SampledAgent]:
    """Find the Agents that call sample services according to the sample settings."""
    paths = {name: urlsplit(value).path for name, value in sorted(sample.items())}
    return [
        SampledAgent(name.removesuffix("_URL").lower().replace("_", "-"), path)
        for name, path in paths.items()
        if name.endswith("_URL") and path.startswith(SERVICES_PATH)
    ]


def setting_names() -> dict[str, str]:
    """Return the field of every known setting, by the setting's name."""
    return {str(field.validation_alias): name for name, field in Settings.model_fields.items()}


def start(values: Mapping[str, str], agents: Iterable[SampledAgent]) -> Settings:
    """Read settings as the application does when it starts. Raises `SettingsError`."""
    with patch.dict(os.environ, values, clear=True):
        settings = load_settings()
        load_endpoints(agents_of(settings.roles) & {agent.name for agent in agents})
        return settings


def agents_of(roles: Collection[AppRole]) -> frozenset[str]:
    """Return the names of the Agents that an application with these roles makes."""
    registry = WorkflowRegistry([version for each in REGISTRATIONS for version in each.versions])
    serves_calls, serves_queues = AppRole.SCHEDULER in roles, AppRole.AGENTS in roles
    return agents_here(registry, frozenset(), serves_calls=serves_calls, serves_queues=serves_queues)


@cache
def functions(
    *, with_hub: bool = False, roles: frozenset[AppRole] = frozenset(AppRole)
) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the bindings of each function, as the host gets them, by the function's name."""
    without_tables = patch.object(Wiring, "prepare")
    environment = _ENVIRONMENT | (_HUB_ENVIRONMENT if with_hub else {}) | {"ROLES": ",".join(roles)}
    with patch.dict(os.environ, environment, clear=True), without_tables:
        app = run_path(str(_FUNCTION_APP))["app"]
    return {
        each.get_function_name(): tuple(binding.get_dict_repr() for binding in each.get_bindings())
        for each in app.get_functions()
    }


def bindings(
    *, with_hub: bool = False, roles: frozenset[AppRole] = frozenset(AppRole)
) -> Iterator[dict[str, Any]]:
    """Return the bindings of all functions."""
    return chain.from_iterable(functions(with_hub=with_hub, roles=roles).values())


def queues_received() -> set[str]:
    """Return the queues that trigger functions, also by their dead letters, which needs the same role."""
    return {str(each["queueName"]).split("/")[0] for each in bindings() if "queueName" in each}


def queues_sent(reply_queues: set[str]) -> set[str]:
    """Return the queues that the application sends to, when callers may name `reply_queues`."""
    queued = {spec.agent for spec in _SPECS if spec.type is StepType.QUEUE}
    own = {SUBMISSIONS_QUEUE, SCHEDULER_REQUESTS_QUEUE, OPERATOR_ALERTS_QUEUE, AGENT_REPLIES_QUEUE}
    return own | set(map(requests_queue, queued)) | reply_queues


def connections(*, with_hub: bool, roles: frozenset[AppRole]) -> set[str]:
    """Return the names of the connections that an application with these roles uses.

    A front has no trigger of Service Bus, and sends to its queues.
    """
    bound = bindings(with_hub=with_hub, roles=roles)
    tables, has_own_account = permissions_of(roles).tables, roles != frozenset(AppRole)
    return {
        *(str(each["connection"]) for each in bound if "connection" in each),
        *("AzureWebJobsStorage", "ServiceBusConnection"),
        *(["StateStore"] if TASKS_TABLE in tables else []),
        *(["AgentStore"] if tables & {*AGENT_TABLES} and has_own_account else []),
    }
