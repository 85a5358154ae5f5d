"""The event hub is deployed where it is asked for, as `infra/hubs.json` and the application know it."""

from __future__ import annotations

from typing import Any

import pytest

from functions.settings import Settings
from tests.infra.bicep.deployment import Deployment
from tests.infra.bicep.values import Value
from tests.infra.infrastructure import REPOSITORY, Environment, Infrastructure

_INFRASTRUCTURE = Infrastructure(REPOSITORY)
_HUBS: list[dict[str, Any]] = _INFRASTRUCTURE.json("infra/hubs.json")["hubs"]
_NAMESPACE = "Microsoft.EventHub/namespaces"
_NAMED: dict[str, Value] = {"environmentName": "test", "location": "westeurope"}


@pytest.fixture(scope="module")
def environments() -> dict[str, Environment]:
    """Plan the environments by their names."""
    return {each.name: each for each in _INFRASTRUCTURE.environments}


def test_hub_is_off_unless_it_is_asked_for(environments: dict[str, Environment]) -> None:
    """By its own parameter, or by having the API submit to it."""
    having = {name for name, each in environments.items() if each.has_hub and each.is_whole}
    assert having == {"with everything", "with an event hub"}


@pytest.mark.parametrize("name", ["with everything", "with an event hub"])
def test_hubs_are_those_of_the_list(environments: dict[str, Environment], name: str) -> None:
    """With their partitions, which can't be changed later, their retention and consumer groups."""
    environment = environments[name]
    [namespace] = environment.of(_NAMESPACE)
    assert namespace.at("sku") == {"name": "Standard", "tier": "Standard", "capacity": 1}
    assert namespace.at("properties", "isAutoInflateEnabled") is True
    assert namespace.at("properties", "maximumThroughputUnits") == 10
    planned = environment.of(f"{_NAMESPACE}/eventhubs")
    assert [(each.at("name"), each.at("properties", "partitionCount")) for each in planned] == [
        (each["name"], each["partitionCount"]) for each in _HUBS
    ]
    assert [each.at("properties", "retentionDescription") for each in planned] == [
        {"cleanupPolicy": "Delete", "retentionTimeInHours": each["retentionHours"]} for each in _HUBS
    ]
    groups = [each.at("name") for each in environment.of(f"{_NAMESPACE}/eventhubs/consumergroups")]
    assert groups == [group for each in _HUBS for group in each["consumerGroups"]]


def test_list_is_what_the_application_knows() -> None:
    """Its defaults name the first hub and a group of its own."""
    first, defaults = _HUBS[0], Settings.model_fields
    assert first["name"] == defaults["event_hub_name"].default
    assert first["consumerGroups"] == [defaults["event_hub_consumer_group"].default]
    assert "$Default" not in first["consumerGroups"]


@pytest.mark.parametrize(("days", "spare"), [(30, 22 * 24), (8, 0), (7, -24)])
def test_tasks_are_kept_longer_than_events(days: int, spare: int) -> None:
    """By a day at least: a replay must find what was done. Fewer hours than none are refused."""
    main = REPOSITORY / "infra/main.bicep"
    parameters: dict[str, Value] = {**_NAMED, "eventHub": True, "application": {"retentionDays": days}}
    planned = Deployment(main, parameters).deployments()
    [module] = [each for each in planned if each.template.path.stem == "event-hubs"]
    assert module.value_of("spareHours") == spare
    assert "minValue" in module.template.parameters["spareHours"].decorators


@pytest.mark.parametrize("days", [1, 7])
def test_without_a_hub_tasks_may_be_kept_shortly(days: int) -> None:
    """Nothing can be replayed then, so no module that bounds the spare hours gets fewer than none."""
    main = REPOSITORY / "infra/main.bicep"
    planned = Deployment(main, {**_NAMED, "application": {"retentionDays": days}}).deployments()
    bounded = [each for each in planned if "spareHours" in each.template.parameters]
    assert {each.template.path.stem: each.value_of("spareHours") for each in bounded} == {
        "backing-services": 0
    }


def test_private_network_reaches_the_hub(environments: dict[str, Environment]) -> None:
    """Over an endpoint of its own."""
    for name, wanted in (("with everything", True), ("private, without the scheduler", False)):
        endpoints = environments[name].of("Microsoft.Network/privateEndpoints")
        assert ("pe-event-hubs" in {each.at("name") for each in endpoints}) is wanted
