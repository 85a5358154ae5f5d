"""The templates comply with every policy, and each policy refuses a template that violates it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from functions.agents.agent_catalog import setting_of
from functions.http.access import Role
from functions.services.service import SERVICES_PATH
from functions.settings import Settings
from functions.workflows.registry import sample_services
from tests.infra.application import REGISTRATIONS
from tests.infra.azure import policies as azure
from tests.infra.azure.published import FOLDER, listed, resource_type, resource_types
from tests.infra.bicep.deployment import Deployment
from tests.infra.bicep.expressions import BUILTINS, evaluate
from tests.infra.bicep.template import Declaration, read_template
from tests.infra.bicep.values import Unresolved, Value
from tests.infra.infrastructure import REPOSITORY, REQUIRED, Infrastructure
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


def test_template_accepts_no_number_that_stops_the_start() -> None:
    """Azure refuses it before anything is deployed."""
    template = (REPOSITORY / "infra/modules/application-settings.bicep").read_text(encoding="utf-8")
    for decorators, name in re.findall(r"((?:\s*@\w+\(.*\)\n)+)\s*(\w+): int\?", template):
        field = Settings.model_fields[re.sub(r"([A-Z])", r"_\1", name).lower()]
        bounds = {"min": -(2**31), "max": 2**31 - 1}
        bounds |= {end: int(value) for end, value in re.findall(r"@(min|max)Value\((-?\d+)\)", decorators)}
        accepted: Any = Annotated[field.annotation, *field.metadata]
        TypeAdapter(list[accepted]).validate_python([*bounds.values()])


@pytest.mark.parametrize(
    ("hub", "days", "spare"), [(True, 30, 22 * 24), (True, 8, 0), (True, 7, -24), (False, 1, None)]
)
def test_tasks_are_kept_longer_than_events(*, hub: bool, days: int, spare: int | None) -> None:
    """By a day at least, for replays: negative hours are refused. Without a hub, they are null."""
    parameters: dict[str, Value] = {**REQUIRED, "eventHub": hub, "application": {"retentionDays": days}}
    planned = Deployment(REPOSITORY / "infra/main.bicep", parameters).deployments()
    [module] = [each for each in planned if each.template.path.stem == "backing-services"]
    assert module.value_of("spareHours") == spare
    assert module.value_of("useEventHub") is hub
    assert "minValue" in module.template.parameters["spareHours"].decorators


#: The functions in parameter files, as if no environment variable were set.
_FUNCTIONS: dict[str, Value] = {
    **BUILTINS,
    "readEnvironmentVariable": lambda name, *default: default[0] if default else Unresolved(name),
    "bool": lambda text: text == "true",
    "int": int,
}


def test_parameter_file_has_the_defaults_of_the_template(tmp_path: Path) -> None:
    """Without any `azd env set`. Required parameters come from the variables that azd always sets."""
    text = (REPOSITORY / "infra/main.bicepparam").read_text(encoding="utf-8")
    path = tmp_path / "main.bicep"
    # The grammar reads only templates, and these have variables.
    path.write_text(re.sub(r"(?m)^param ", "var ", text).replace("using 'main.bicep'", ""))
    declared = read_template(REPOSITORY / "infra/main.bicep").parameters
    values = {name: _value(each) for name, each in read_template(path).variables.items()}
    required = {name for name, each in declared.items() if each.value is None}
    defaults = {name: _value(declared[name]) for name in values if name not in required}
    azd = {"environmentName": Unresolved("AZURE_ENV_NAME"), "location": Unresolved("AZURE_LOCATION")}
    assert values == defaults | azd
    assert required == azd.keys()


def _value(declared: Declaration) -> Value:
    assert declared.value is not None
    return evaluate(declared.value, _FUNCTIONS.get)


def test_app_roles_are_those_of_the_application() -> None:
    """Submitter, Operator and those that steps of registered workflows name, for people and for programs."""
    roles = _INFRASTRUCTURE.json("infra/app-roles.json")
    specs = [spec for each in REGISTRATIONS for version in each.versions for spec in version.specs]
    assert {role["value"] for role in roles} == {*Role, *(spec.role for spec in specs if spec.role)}
    assert all(set(role["allowedMemberTypes"]) == {"Application", "User"} for role in roles)
    assert len({role["id"] for role in roles}) == len(roles)


def test_each_sample_service_is_called_by_an_agent_of_its_workflow() -> None:
    """So that a workflow with sample services runs on this machine without any setting."""
    values = _INFRASTRUCTURE.json("local.settings.sample.json")["Values"]
    for registration in REGISTRATIONS:
        addresses = [values.get(setting_of(agent, "URL"), "") for agent in registration.agent_names]
        called = {address.partition(f"{SERVICES_PATH}/")[2] for address in addresses}
        assert {service.name for service in registration.services} <= called


def test_each_sample_service_has_its_table() -> None:
    """Declared for Azure, where the application's identity need not create tables."""
    declared = {agent.table for agent in _INFRASTRUCTURE.sampled_agents}
    assert {service.table for service in sample_services(REGISTRATIONS)} <= declared
