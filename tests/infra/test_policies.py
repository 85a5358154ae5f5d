"""The templates comply with every policy, and each policy refuses a template that violates it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from functions.agents.agent_catalog import setting_of
from functions.services.service import SERVICES_PATH
from functions.settings import Settings
from functions.web.callers import Role
from functions.workflows.registration import sample_services
from tests.infra.application import REGISTRATIONS
from tests.infra.azure import policies as azure
from tests.infra.azure.published import FOLDER, listed, resource_type, resource_types
from tests.infra.bicep.deployment import Deployment
from tests.infra.bicep.expressions import BUILTINS, evaluate
from tests.infra.bicep.template import Declaration, Template, read_template
from tests.infra.bicep.values import Unresolved, Value
from tests.infra.infrastructure import REPOSITORY, REQUIRED, Environment, Infrastructure
from tests.infra.policies import POLICIES, Policy
from tests.infra.violations import VIOLATIONS, Violation

_INFRASTRUCTURE = Infrastructure(REPOSITORY)


def _skip_unless_published(policy: Policy) -> None:
    """Skip a policy whose types or names the folder lacks. In CI, the folder must exist."""
    if policy.__module__ == azure.__name__ and not FOLDER.is_dir():
        reason = f"not checked: Azure's types and names, as {FOLDER} is absent (make azure-types)"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    if policy in azure.NAMES and listed(azure.NAMES[policy]) is None:
        pytest.skip(f"not checked: {azure.NAMES[policy]}, which {FOLDER.name} lacks")


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.__name__)
def test_templates_comply_with_the_policy(policy: Policy) -> None:
    """No template violates the policy."""
    _skip_unless_published(policy)
    assert list(policy(_INFRASTRUCTURE)) == []


@pytest.mark.parametrize("violation", VIOLATIONS, ids=str)
def test_broken_template_is_refused(violation: Violation, tmp_path: Path) -> None:
    """The policy reports a copy of the templates with one edit."""
    _skip_unless_published(violation.policy)
    assert next(violation.policy(violation.apply(tmp_path)), None) is not None


def test_every_policy_is_shown_to_refuse_something() -> None:
    """There is a violation of each policy."""
    assert {each.policy for each in VIOLATIONS} == {*POLICIES}


@pytest.mark.parametrize("name", resource_types(_INFRASTRUCTURE))
def test_resource_type_is_published(name: str) -> None:
    """A type that the folder lacks is not checked, and is named."""
    if resource_type(name) is None:
        pytest.skip(f"not checked: {name}, which {FOLDER.name} lacks")


_HUBS: list[dict[str, Any]] = _INFRASTRUCTURE.json("infra/hubs.json")["hubs"]
_NAMESPACE = "Microsoft.EventHub/namespaces"


@pytest.fixture(scope="module")
def environments() -> dict[str, Environment]:
    """Plan the environments by their names."""
    return {each.name: each for each in _INFRASTRUCTURE.environments}


def test_hub_is_off_unless_it_is_asked_for(environments: dict[str, Environment]) -> None:
    """By its own parameter."""
    having = {name for name, each in environments.items() if each.has_hub and each.is_only_app}
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


def test_template_accepts_no_number_that_stops_the_start() -> None:
    """It is refused before anything is deployed."""
    template = (REPOSITORY / "infra/modules/application-settings.bicep").read_text(encoding="utf-8")
    for decorators, name in re.findall(r"((?:\s*@\w+\(.*\)\n)+)\s*(\w+): int\?", template):
        field = Settings.model_fields[re.sub(r"([A-Z])", r"_\1", name).lower()]
        bounds = {"min": -(2**31), "max": 2**31 - 1}
        bounds |= {end: int(value) for end, value in re.findall(r"@(min|max)Value\((-?\d+)\)", decorators)}
        accepted: Any = Annotated[field.annotation, *field.metadata]
        TypeAdapter(list[accepted]).validate_python([*bounds.values()])


@pytest.mark.parametrize(("days", "spare"), [(30, 22 * 24), (8, 0), (7, -24)])
def test_tasks_are_kept_longer_than_events(days: int, spare: int) -> None:
    """By a day at least: a replay must find what was done. Fewer hours than none are refused."""
    main = REPOSITORY / "infra/main.bicep"
    parameters: dict[str, Value] = {**REQUIRED, "eventHub": True, "application": {"retentionDays": days}}
    planned = Deployment(main, parameters).deployments()
    [module] = [each for each in planned if each.template.path.stem == "backing-services"]
    assert module.value_of("spareHours") == spare
    assert "minValue" in module.template.parameters["spareHours"].decorators


@pytest.mark.parametrize("days", [1, 7])
def test_without_a_hub_tasks_may_be_kept_shortly(days: int) -> None:
    """No event can be replayed then: the spare hours are null, which their bound accepts."""
    main = REPOSITORY / "infra/main.bicep"
    planned = Deployment(main, {**REQUIRED, "application": {"retentionDays": days}}).deployments()
    [module] = [each for each in planned if each.template.path.stem == "backing-services"]
    assert module.value_of("spareHours") is None
    assert module.value_of("useEventHub") is False


def test_private_network_reaches_the_hub(environments: dict[str, Environment]) -> None:
    """Over an endpoint of its own."""
    for name, wanted in (("with everything", True), ("private, without the scheduler", False)):
        endpoints = environments[name].of("Microsoft.Network/privateEndpoints")
        assert ("pe-event-hubs" in {each.at("name") for each in endpoints}) is wanted


_FILE = REPOSITORY / "infra" / "main.bicepparam"


#: The functions in parameter files, as if no environment variable were set.
_FUNCTIONS: dict[str, Value] = {
    **BUILTINS,
    "readEnvironmentVariable": lambda name, *default: default[0] if default else Unresolved(name),
    "bool": lambda text: text == "true",
    "int": int,
}


@pytest.fixture(scope="module")
def main() -> Template:
    """Read the template of the parameter file."""
    return read_template(REPOSITORY / "infra" / "main.bicep")


@pytest.fixture(scope="module")
def assigned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Declaration]:
    """Read the file; its assignments are read as variables, because the grammar knows only templates."""
    text = re.sub(r"(?m)^param ", "var ", _FILE.read_text()).replace("using 'main.bicep'", "")
    path: Path = tmp_path_factory.mktemp("parameters") / "main.bicep"
    path.write_text(text)
    return read_template(path).variables


def test_file_names_parameters_of_the_template(main: Template, assigned: dict[str, Declaration]) -> None:
    """Every assigned parameter exists in the template."""
    assert assigned.keys() <= main.parameters.keys()


def test_parameters_without_a_default_are_read_from_azd(
    main: Template, assigned: dict[str, Declaration]
) -> None:
    """Required parameters come from the variables that azd always sets."""
    needed = {name for name, declared in main.parameters.items() if declared.value is None}
    assert {name: _unset(assigned[name]) for name in needed} == {
        "environmentName": Unresolved("AZURE_ENV_NAME"),
        "location": Unresolved("AZURE_LOCATION"),
    }


def test_unset_parameters_have_the_default_of_the_template(
    main: Template, assigned: dict[str, Declaration]
) -> None:
    """Without any `azd env set`, the file deploys what the template does by itself."""
    defaults = {
        name: evaluate(declared.value, _FUNCTIONS.get)
        for name, declared in main.parameters.items()
        if declared.value is not None and name in assigned
    }
    assert {name: _unset(assigned[name]) for name in defaults} == defaults


def test_app_roles_are_those_of_the_application() -> None:
    """Submitter, Operator and those that steps of registered workflows name, for people and for programs."""
    roles = Infrastructure(REPOSITORY).json("infra/app-roles.json")
    specs = [spec for each in REGISTRATIONS for version in each.versions for spec in version.specs]
    assert {role["value"] for role in roles} == {*Role, *(spec.role for spec in specs if spec.role)}
    assert all(set(role["allowedMemberTypes"]) == {"Application", "User"} for role in roles)
    assert len({role["id"] for role in roles}) == len(roles)


def _unset(declared: Declaration) -> Value:
    assert declared.value is not None
    return evaluate(declared.value, _FUNCTIONS.get)


def test_each_sample_service_is_called_by_an_agent_of_its_workflow() -> None:
    """So that a workflow with sample services runs on this machine without any setting."""
    values = Infrastructure(REPOSITORY).json("local.settings.sample.json")["Values"]
    for registration in REGISTRATIONS:
        addresses = [values.get(setting_of(agent, "URL"), "") for agent in registration.agent_names]
        called = {address.partition(f"{SERVICES_PATH}/")[2] for address in addresses}
        assert {service.name for service in registration.services} <= called


def test_each_sample_service_has_its_table() -> None:
    """Declared for Azure, where the application's identity need not create tables."""
    declared = {agent.table for agent in Infrastructure(REPOSITORY).sampled_agents}
    assert {service.table for service in sample_services(REGISTRATIONS)} <= declared
