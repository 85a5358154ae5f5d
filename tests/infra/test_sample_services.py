"""Each sample service of the registered workflows is called and deployed as the sample settings say."""

from __future__ import annotations

from functions.agents.endpoints import url_setting
from functions.services.service import SERVICES_PATH
from functions.workflows.registration import sample_services
from tests.infra.application import REGISTRATIONS
from tests.infra.infrastructure import REPOSITORY, Infrastructure


def test_each_sample_service_is_called_by_an_agent_of_its_workflow() -> None:
    """So that a workflow with sample services runs on this machine without any setting."""
    values = Infrastructure(REPOSITORY).json("local.settings.sample.json")["Values"]
    for registration in REGISTRATIONS:
        addresses = [values.get(url_setting(step.agent), "") for step in registration.workflow.steps]
        called = {address.partition(f"{SERVICES_PATH}/")[2] for address in addresses}
        assert {service.name for service in registration.services} <= called


def test_each_sample_service_has_its_table() -> None:
    """Declared for Azure, where the application's identity need not create tables."""
    declared = {agent.table for agent in Infrastructure(REPOSITORY).sampled_agents}
    assert {service.table for service in sample_services(REGISTRATIONS)} <= declared
