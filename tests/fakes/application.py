"""The settings of an application that is connected to nothing, and its parts; a workflow for its tests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pydantic import BaseModel

from functions.agents.agent_catalog import setting_of
from functions.services.service import SampleService
from functions.settings import load_settings
from functions.wiring import Wiring
from functions.workflow import Json, QueueStep, Results, Step, Workflow, days
from functions.workflows.registry import Registration

#: The settings without which no application starts.
SETTINGS = {
    "StateStore": "UseDevelopmentStorage=true",
    "ServiceBusConnection": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=local;SharedAccessKey=local",
}


class Errand(BaseModel, extra="forbid", json_schema_extra={"examples": [{"item": "lamp"}]}):
    """The payload."""

    item: str


def _request(errand: Errand, _results: Results) -> Json:
    return {"item": errand.item}


_STEPS = [Step("fetch", request=_request), QueueStep("payment", request=_request, undo=True)]
#: A workflow with an Agent in the process, an Agent behind a queue, and a sample service.
ERRANDS = Registration(
    Workflow("errands", payload=Errand, steps=_STEPS, cancel_within=days(1)),
    services=(SampleService("parcels", Errand),),
)


def agent_addresses(registrations: Sequence[Registration]) -> dict[str, str]:
    """Return the settings with the addresses of the Agents of some workflows."""
    agents = {name for each in registrations for name in each.agent_names}
    return {setting_of(name, "URL"): "https://service.example" for name in agents}


def wired(registrations: Sequence[Registration] = (ERRANDS,), /, **settings: str) -> Wiring:
    """Wire the application with some workflows and their sample services."""
    given = {**SETTINGS, "SAMPLE_SERVICES": "1", **agent_addresses(registrations), **settings}
    with pytest.MonkeyPatch.context() as environment:
        for name, value in given.items():
            environment.setenv(name, value)
        return Wiring(load_settings(), registrations)
