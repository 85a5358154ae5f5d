"""The templates, read once, and what they deploy in several environments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.infra.application import SampledAgent, sampled_agents
from tests.infra.bicep.deployment import Deployment, Planned
from tests.infra.bicep.template import Template, read_template
from tests.infra.bicep.values import Value, properties_of

REPOSITORY = Path(__file__).parents[2]

#: Stand for the secrets wherever they are used.
CANARY = "https://canary.example.com/secret"
CANARY_KEY = "canary-key-of-the-samples"

_NAMED: dict[str, Value] = {"environmentName": "test", "location": "westeurope"}
_EVERYTHING: dict[str, Value] = {
    "durableBackend": "scheduler",
    "application": {"submitTo": "hub"},
    "privateNetwork": True,
    "zoneRedundant": True,
    "alwaysReadyHttpInstances": 1,
    "purgeProtection": True,
    "locked": True,
    "sampleServicesKey": CANARY_KEY,
    "signInClientId": "00000000-0000-0000-0000-000000000000",
    "namedKeys": ["api.ada", "operations.night-shift"],
    "alertEmails": ["operator@example.com"],
    "alertWebhookUrl": CANARY,
    "monthlyBudget": 100,
    "budgetStart": "2026-11-01",
}


@dataclass(frozen=True)
class Environment:
    """What one set of parameters deploys."""

    name: str
    parameters: dict[str, Value]
    deployment: Deployment

    @cached_property
    def resources(self) -> tuple[Planned, ...]:
        """Return every resource."""
        return tuple(self.deployment.planned())

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
        found = [each for each in self.of("Microsoft.Web/sites/config") if each.at("name") == "appsettings"]
        return {name: value for each in found for name, value in properties_of(each.at("properties")).items()}


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
            "two accounts": _NAMED | {"stateAccounts": 2},
            "no instance ready": _NAMED | {"alwaysReadyInstances": 0},
            "without samples": _NAMED | {"sampleServices": False, "agentSettings": own_agents},
        }
        return [
            Environment(name, parameters, Deployment(main, parameters)) for name, parameters in chosen.items()
        ]

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
