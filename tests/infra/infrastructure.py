"""The templates, read once, and the resources that they deploy in several environments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from functions.roles import AppRole, Permissions, permissions_of
from functions.services.service import FAULTS_TABLE
from tests.infra import application
from tests.infra.application import SampledAgent
from tests.infra.bicep.deployment import Deployment, Planned
from tests.infra.bicep.template import Template, read_template
from tests.infra.bicep.values import Value, properties_of

REPOSITORY = Path(__file__).parents[2]

#: They replace the secrets in the parameters, so that a rule finds each place where a secret is used.
CANARY = "https://canary.example.com/secret"
CANARY_KEY = "canary-key-of-the-samples"

#: The subnet of another network.
OTHER_SUBNET = (
    "/subscriptions/0/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/vnet/subnets/snet"
)

REQUIRED: dict[str, Value] = {"environmentName": "test", "location": "westeurope"}
_EVERYTHING: dict[str, Value] = {
    "durableBackend": "scheduler",
    "eventHub": True,
    "privateNetwork": True,
    "zoneRedundant": True,
    "alwaysReadyHttpInstances": 1,
    "purgeProtection": True,
    "locked": True,
    "sampleServicesKey": CANARY_KEY,
    "signInClientId": "00000000-0000-0000-0000-000000000000",
    "alertEmails": ["operator@example.com"],
    "alertWebhookUrl": CANARY,
    "monthlyBudget": 100,
    "budgetStart": "2026-11-01",
}

#: A deployment for each choice that changes the deployed resources: a new choice needs a line here.
_CHOSEN: dict[str, dict[str, Value]] = {
    "defaults": {},
    "with everything": _EVERYTHING,
    "public, with the scheduler": {"durableBackend": "scheduler"},
    "private, without the scheduler": {"privateNetwork": True},
    "with an event hub": {"eventHub": True},
    "without zones": {"location": "northcentralus"},
    "two regions, without zones": {"location": "westus", "redundancy": "GZRS"},
    "no instance ready": {"alwaysReadyInstances": 0},
    "split": {"roles": "split"},
    "split, in two networks": {"roles": "split", "agentsSubnetId": OTHER_SUBNET},
    "split, with everything": _EVERYTHING | {"roles": "split"},
    "without samples": {"sampleServices": False},
}


@dataclass(frozen=True)
class Environment:
    """The deployment of one set of parameters, for one of its apps."""

    name: str
    parameters: dict[str, Value]
    deployment: Deployment
    app: Mapping[str, Any]
    infrastructure: Infrastructure

    def of(self, kind: str, name: str | None = None) -> list[Planned]:
        """Return the resources of a type, such as `Microsoft.Web/sites`, or those that also have a name."""
        found = self.deployment.resources
        return [each for each in found if each.type == kind and name in {None, str(each.at("name"))}]

    def existing(self, kind: str) -> list[Planned]:
        """Return the resources of a type that are referred to, and have to exist already."""
        return [each for each in self.deployment.planned(existing=True) if each.type == kind]

    @property
    def site(self) -> Planned:
        """Return the app."""
        sites = self.of("Microsoft.Web/sites")
        [site] = [each for each in sites if each.at("tags", "azd-service-name") == self.app["service"]]
        return site

    @cached_property
    def settings(self) -> dict[str, Value]:
        """Return the app's settings."""
        configs = self.of("Microsoft.Web/sites/config", "appsettings")
        every = [properties_of(each.at("properties")) for each in configs]
        roles = ",".join(self.app["roles"])
        return next((each for each in every if each.get("ROLES") == roles), {})

    @property
    def names(self) -> dict[str, Value]:
        """Return the names of the resources that all apps share."""
        return properties_of(self.deployment.value_of("names"))

    @property
    def roles(self) -> frozenset[AppRole]:
        """Return the roles of the app."""
        return frozenset(map(AppRole, self.app["roles"]))

    @property
    def permissions(self) -> Permissions:
        """Return the tables, queues and hubs that the app's roles use."""
        return permissions_of(self.roles)

    @property
    def is_only_app(self) -> bool:
        """Return whether one app has all roles."""
        return bool(self.app["deployed"] == "all")

    @property
    def has_hub(self) -> bool:
        """Return whether orders are also received through an event hub."""
        return bool(self.of("Microsoft.EventHub/namespaces"))

    @property
    def has_samples(self) -> bool:
        """Return whether the sample services are deployed."""
        return self.parameters.get("sampleServices", True) is True

    @property
    def is_scheduled(self) -> bool:
        """Return whether the app runs Durable Functions on a Durable Task Scheduler."""
        is_chosen = self.parameters.get("durableBackend") == "scheduler"
        return is_chosen and self.permissions.has_durable_client


@dataclass(frozen=True)
class Infrastructure:
    """All templates below `folder`, which has the layout of the repository."""

    folder: Path

    @cached_property
    def templates(self) -> list[Template]:
        """Read every Bicep file. Raises `SyntaxFaultError`."""
        return [read_template(path) for path in sorted((self.folder / "infra").rglob("*.bicep"))]

    @cached_property
    def environments(self) -> list[Environment]:
        """Plan the deployments, each once for every app in it."""
        main = self.folder / "infra" / "main.bicep"
        own_agents: dict[str, Value] = {}
        for agent in self.sampled_agents:
            own_agents[agent.url_setting] = "https://service.example.com/things"
            own_agents[agent.key_setting] = "@Microsoft.KeyVault(SecretUri=https://vault.example.com/key)"
        chosen = _CHOSEN | {"without samples": {"sampleServices": False, "agentSettings": own_agents}}
        return [
            Environment(f"{name}: {app['service']}" if is_split else name, parameters, deployment, app, self)
            for name, choice in chosen.items()
            for parameters in [REQUIRED | choice]
            for deployment in [Deployment(main, parameters)]
            for is_split in [parameters.get("roles") == "split"]
            for app in self.apps
            if app["deployed"] == ("split" if is_split else "all")
        ]

    @cached_property
    def apps(self) -> list[Mapping[str, Any]]:
        """Return the apps that can be deployed."""
        apps: list[Mapping[str, Any]] = self.json("infra/roles.json")["apps"]
        return apps

    @cached_property
    def sampled_agents(self) -> list[SampledAgent]:
        """Return the Agents that call sample services."""
        return application.sampled_agents(self.json("local.settings.sample.json")["Values"])

    @property
    def sample_tables(self) -> set[str]:
        """Return the tables of the sample services."""
        return {FAULTS_TABLE, *(agent.table for agent in self.sampled_agents)}

    def json(self, path: str) -> Any:
        """Read a JSON file."""
        return json.loads((self.folder / path).read_text())
