"""Each remote service has its Agent, which shows it what it asks for."""

from __future__ import annotations

from datetime import timedelta
from typing import NoReturn

from functions.agents.catalog import make_agents, make_breakers
from functions.agents.endpoints import Endpoint
from functions.agents.rest import RestAgent
from tests.fakes.ports import fake_ports
from tests.unit.agents.breaker.instances import POLICY
from tests.unit.agents.test_credentials import Issuer


def test_agents_without_a_maker_are_rest_agents() -> None:
    """A workflow names only those that call their services in a way of their own."""

    class OwnAgent(RestAgent):
        pass

    endpoints = {name: Endpoint("https://services.example.com") for name in ("payment", "hotel")}
    makers = {"hotel": OwnAgent}
    ports = fake_ports()
    agents = make_agents(
        endpoints,
        makers,
        ports,
        make_breakers(endpoints, ports, POLICY, skew=timedelta(seconds=5)),
        session=_no_session,
        once_session=_no_session,
        issuer=Issuer(),
    )
    assert {name: type(agent) for name, agent in agents.items()} == {"payment": RestAgent, "hotel": OwnAgent}


def _no_session() -> NoReturn:
    raise AssertionError("nothing is called")
