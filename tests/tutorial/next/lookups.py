"""Lookups: each address is looked up at a partner with a limit of calls a second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from functions.agents.http_agent import Call, RemoteService, RestAgent
from functions.workflow import Json, Results, Retry, Step, Workflow
from functions.workflows_next.registration import Registration

_CALLS_OF_A_HOST = 2


class Lookup(BaseModel):
    """Addresses to look up."""

    model_config = ConfigDict(extra="forbid")

    addresses: Annotated[list[str], Field(min_length=1, max_length=50)]


class Entry(BaseModel):
    """The answer of the partner."""

    reference: str


class PatientAgent(RestAgent):
    """Has a limited number of calls under way."""

    def __init__(self, service: RemoteService) -> None:
        super().__init__(service)
        self._slots = asyncio.Semaphore(_CALLS_OF_A_HOST)

    async def do(self, call: Call) -> Json:
        """Wait for a slot, and call."""
        async with self._slots:
            return await super().do(call)


def _addresses(lookup: Lookup) -> Sequence[str]:
    return lookup.addresses


def _address(_lookup: Lookup, _results: Results, address: str) -> Json:
    return {"address": address}


def _output(_lookup: Lookup, results: Results) -> Json:
    return {"references": [found.reference for found in results[ADDRESS] if found is not None]}


ADDRESS = Step(
    "address",
    agent="partner",
    for_each=_addresses,
    at_once=2,
    request=_address,
    result=Entry,
    complete_within=230,
    retry=Retry(first=1, longest=30),
)

LOOKUPS = Workflow("lookup", resource="lookups", payload=Lookup, steps=[ADDRESS], output=_output)

REGISTRATION = Registration(LOOKUPS, agents={"partner": PatientAgent})
