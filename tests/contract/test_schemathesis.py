"""The running APIs behave as their OpenAPI document says, whatever is sent to them."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.e2e.caller import running

type Operation = APIOperation[Any, Any, Any, Any]
type AnyCase = Case[Any]

REQUESTS = 5_000
#: By day, a sixth of them are sent.
_PARTS = [6, pytest.param(1, marks=pytest.mark.night)]
#: Requests for each operation in each mode: valid orders are processed, which takes longer than a refusal.
_ORDERS = 12
#: Invalid requests take longer to generate.
_OTHERS = {GenerationMode.POSITIVE: 230, GenerationMode.NEGATIVE: 90}
#: Routes without input have nothing to vary.
_SAME = 20

_AT_A_TIME = 4
_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

#: Besides line ends: what the client would send as Latin-1, which the host refuses (400) before any function.
_NOT_IN_HEADERS = "\r\n" + "".join(map(chr, range(0x80, 0x100)))
#: Headers that say how a message is read and its connection kept: odd ones the host refuses itself (400).
_OF_THE_CONNECTION = frozenset(
    ("connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade")
)

#: One caller sends all requests, and no cap is tested here; every count takes one request for each shard.
_SETTINGS = {"RATE_PER_MINUTE": "1000000", "STATE_SHARDS": "2"}


@pytest.mark.process
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", _PARTS)
async def test_five_thousand_requests_get_documented_answers(tmp_path: Path, part: int) -> None:
    """Valid and invalid ones: no 5xx, no undocumented status, type or content. By day a sixth of them."""
    async with running(tmp_path, _SETTINGS) as platform:
        statuses = await asyncio.to_thread(_send_all, f"{platform.addresses.host}/api/openapi.json", part)
    assert statuses.total() >= REQUESTS // part, statuses
    assert {200, 202, 400, 404, 409, 422} <= statuses.keys(), statuses


def _send_all(address: str, part: int) -> Counter[int]:
    """Send every operation its requests, and count the responses. Raises the failures found."""
    schema = schemathesis.openapi.from_url(address)
    schema.config.generation.exclude_header_characters = _NOT_IN_HEADERS
    operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        sending = [
            pool.submit(_send, operation, mode, part) for operation in operations for mode in GenerationMode
        ]
        return sum((each.result() for each in sending), Counter[int]())


def _send(operation: Operation, mode: GenerationMode, part: int) -> Counter[int]:
    statuses = Counter[int]()
    with requests.Session() as session:
        session.headers["X-Requested-With"] = "test"

        @settings(
            max_examples=_examples(operation, mode, part),
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: AnyCase) -> None:
            for name in [each for each in case.headers if each.lower() in _OF_THE_CONNECTION]:
                del case.headers[name]
            answer = case.call(session=session)
            statuses[answer.status_code] += 1
            case.validate_response(answer, checks=_CHECKS)

        with suppress(Unsatisfiable):  # a route without input has no invalid requests
            send()
    return statuses


def _examples(operation: Operation, mode: GenerationMode, part: int) -> int:
    if not operation.body and not any(True for _ in operation.iter_parameters()):
        return _SAME
    return _ORDERS if operation.body and "/ops/" not in operation.path else _OTHERS[mode] // part
