"""The templates, read once, and what they deploy in several environments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from functions.roles import AppRole
from tests.infra.application import SampledAgent, sampled_agents
from tests.infra.bicep.deployment import Deployment, Planned
from tests.infra.bicep.template import Template, read_template
from tests.infra.bicep.values import Value, at, properties_of

REPOSITORY = Path(__file__).parents[2]

#: Stand for the secrets wherever they are used.
CANARY = "https://canary.example.com/secret"
CANARY_KEY = "canary-key-of-the-samples"

#: The subnet of another network.
OTHER_SUBNET = (
    "/subscriptions/0/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/vnet/subnets/snet"
)

_NAMED: dict[str, Value] = {"environmentName": "test", "location": "westeurope"}
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


@cache
def _planned(deployment: Deployment) -> tuple[Planned, ...]:
    return tuple(deployment.planned())


@dataclass(frozen=True)
class Environment:
    """What one set of parameters deploys, as one of its apps sees it."""

    name: str
    parameters: dict[str, Value]
    deployment: Deployment
    app: Mapping[str, Any]

    @property
    def resources(self) -> tuple[Planned, ...]:
        """Return every resource, those of other apps too."""
        return _planned(self.deployment)

    @property
    def roles(self) -> frozenset[AppRole]:
        """Return the roles of the app that is looked at."""
        return frozenset(map(AppRole, self.app["roles"]))

    @property
    def is_whole(self) -> bool:
        """Tell whether it is the only app."""
        return bool(self.app["deployed"] == "all")

    @property
    def site(self) -> Planned:
        """Return the app that is looked at."""
        service = self.app["service"]
        [site] = [
            each
            for each in self.of("Microsoft.Web/sites")
            if at(each.body, "tags", "azd-service-name") == service
        ]
        return site

    def existing(self, kind: str) -> list[Planned]:
        """Return the resources of a type that are referred to, and have to be there already."""
        return [each for each in self.deployment.planned(existing=True) if each.type == kind]

    def of(self, kind: str) -> list[Planned]:
        """Return the resources of a type, such as `Microsoft.Web/sites`."""
        return [each for each in self.resources if each.type == kind]

    @property
    def has_hub(self) -> bool:
        """Tell whether orders come through an event hub."""
        return bool(self.of("Microsoft.EventHub/namespaces"))

    @property
    def settings(self) -> dict[str, Value]:
        """Return the function app's settings."""
        configs = [each for each in self.of("Microsoft.Web/sites/config") if each.at("name") == "appsettings"]
        every = [properties_of(each.at("properties")) for each in configs]
        roles = ",".join(self.app["roles"])
        return next((each for each in every if each.get("ROLES") == roles), {})


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
        """Plan a deployment for each choice that changes what is deployed: a new one needs a line here."""
        main = self.folder / "infra" / "main.bicep"
        own_agents: dict[str, Value] = {}
        for agent in self.sampled_agents:
            own_agents[agent.url_setting] = "https://service.example.com/things"
            own_agents[agent.key_setting] = "@Microsoft.KeyVault(SecretUri=https://vault.example.com/key)"
        chosen: dict[str, dict[str, Value]] = {
            "defaults": _NAMED,
            "with everything": _NAMED | _EVERYTHING,
            "public, with the scheduler": _NAMED | {"durableBackend": "scheduler"},
            "private, without the scheduler": _NAMED | {"privateNetwork": True},
            "with an event hub": _NAMED | {"eventHub": True},
            "without zones": _NAMED | {"location": "northcentralus"},
            "two regions, without zones": _NAMED | {"location": "westus", "redundancy": "GZRS"},
            "no instance ready": _NAMED | {"alwaysReadyInstances": 0},
            "split": _NAMED | {"roles": "split"},
            "split, in two networks": _NAMED | {"roles": "split", "agentsSubnetId": OTHER_SUBNET},
            "split, with everything": _NAMED | _EVERYTHING | {"roles": "split"},
            "without samples": _NAMED | {"sampleServices": False, "agentSettings": own_agents},
        }
        return [
            Environment(f"{name}: {app['service']}" if split else name, parameters, deployment, app)
            for name, parameters in chosen.items()
            for deployment in [Deployment(main, parameters)]
            for split in [parameters.get("roles") == "split"]
            for app in self.apps
            if app["deployed"] == ("split" if split else "all")
        ]

    @cached_property
    def apps(self) -> list[Mapping[str, Any]]:
        """Return the apps that can be deployed."""
        apps: list[Mapping[str, Any]] = self.json("infra/roles.json")["apps"]
        return apps

    @cached_property
    def sampled_agents(self) -> list[SampledAgent]:
        """Return the Agents that call sample services."""
        return sampled_agents(self.json("local.settings.sample.json")["Values"])

    def each(self, kind: str) -> Iterator[Planned]:
        """Yield the resources of a type in all environments."""
        for environment in self.environments:
            yield from environment.of(kind)

    def json(self, path: str) -> Any:
        """Read a JSON file."""
        return json.loads((self.folder / path).read_text())
