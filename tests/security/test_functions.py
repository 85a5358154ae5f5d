"""The deployed functions: which are open, and that no caller chooses what runs."""

from __future__ import annotations

from typing import Any

import pytest

from functions.pattern.definition import RESERVED_RESOURCES
from functions.wiring import Wiring

#: Open to everybody: the health check, and pages that contain no secrets.
OPEN = {"health", "docs", "console_page", "console_files"}

#: Everything that can be reached over HTTP. Each is an application with its own routes.
ROUTES = {
    "health": "health",
    "docs": "docs/{name?}",
    "openapi": "openapi.json",
    "console_page": "ops",
    "console_files": "ops/console/{name}",
    "operations": "ops/{*route}",
    "services": "services/{*route}",
    "api": "{*route}",
}


@pytest.fixture(scope="session")
def triggers(wiring: Wiring) -> dict[str, Any]:
    """Return the trigger of each function, by the function's name."""
    builders = [each for blueprint in wiring.blueprints() for each in blueprint._function_builders]
    functions = [builder._function for builder in builders]
    return {function.get_function_name(): function.get_trigger() for function in functions}


def test_nothing_is_open_but_health_and_pages(triggers: dict[str, Any]) -> None:
    """Everything else needs a function key, the sample services too."""
    http = {name: trigger for name, trigger in triggers.items() if trigger.type == "httpTrigger"}
    assert {name for name, trigger in http.items() if trigger.auth_level.name == "ANONYMOUS"} == OPEN
    assert {trigger.auth_level.name for name, trigger in http.items() if name not in OPEN} == {"FUNCTION"}


def test_open_functions_only_read(triggers: dict[str, Any]) -> None:
    """Nothing can be changed without a key."""
    assert {str(method.value) for name in OPEN for method in triggers[name].methods} == {"GET"}


def test_no_route_names_a_function_or_an_orchestrator(triggers: dict[str, Any]) -> None:
    """The application decides what runs: Durable's HTTP API has no route here."""
    assert {name: trigger.route for name, trigger in triggers.items() if name in ROUTES} == ROUTES
    others = {trigger.type for name, trigger in triggers.items() if name not in ROUTES}
    assert others == {"serviceBusTrigger", "timerTrigger", "orchestrationTrigger", "activityTrigger"}


def test_no_workflow_can_take_a_route_of_the_application() -> None:
    """The host would prefer the more special route, and the workflow's orders would go there."""
    own = {route.split("/")[0].removesuffix(".json") for name, route in ROUTES.items() if name != "api"}
    assert own == RESERVED_RESOURCES
