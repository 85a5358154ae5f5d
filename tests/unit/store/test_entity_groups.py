"""Entity groups on their way: signed in three ways, repeated when the service fails; faults and refusals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import pytest
from azure.core.credentials import AccessToken, AzureNamedKeyCredential, AzureSasCredential
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import HttpResponseError, ServiceRequestError, ServiceResponseError
from azure.core.pipeline import PipelineContext, PipelineRequest
from azure.core.pipeline.transport import AsyncHttpTransport, HttpRequest
from azure.data.tables.aio import TableServiceClient

from functions.store.entity_groups import EntityGroups
from functions.store.group_format import GroupRefused, GroupWritten, Operation
from functions.store.group_pipeline import Credential, SharedKeyPolicy, group_pipeline
from tests.unit.store.test_group_format import ERROR, OPERATIONS, WRITTEN, refused_answer

ACCOUNT = "https://account.table.core.windows.net"
KEY = AzureNamedKeyCredential("account", "c2VjcmV0IHNlY3JldA==")
OK = (202, WRITTEN.encode())


class Wire(AsyncHttpTransport[Any, Any]):
    """Gives scripted answers, and keeps what was sent."""

    def __init__(self, *answers: tuple[int, bytes] | Exception) -> None:
        self._answers = list(answers)
        self.sent: list[HttpRequest] = []
        self.waited: list[float] = []

    async def send(self, request: HttpRequest, **_: object) -> Any:
        """Give the next answer."""
        self.sent.append(HttpRequest(request.method, request.url, headers=dict(request.headers)))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(status_code=answer[0], content=answer[1], headers={}, reason="")

    async def sleep(self, duration: float) -> None:
        """Note the time, and go on."""
        self.waited.append(duration)

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing."""


class Identity(AsyncTokenCredential):
    """Gives a token for what it is asked for."""

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        """Name the scopes in the token."""
        return AccessToken(" ".join(scopes), 2**40)

    async def close(self) -> None:
        """Do nothing."""

    async def __aexit__(self, *_: object) -> None:
        """Do nothing."""


async def _send(wire: Wire, credential: Credential = KEY) -> GroupWritten | GroupRefused:
    groups = EntityGroups(group_pipeline(wire, credential, retries=3), ACCOUNT, "Tasks")
    return await groups.send("p", OPERATIONS)


async def test_group_is_one_request_to_the_account() -> None:
    """It says who sends it, which version it wants, and how its body is divided."""
    wire = Wire(OK)
    assert isinstance(await _send(wire), GroupWritten)
    [sent] = wire.sent
    assert (sent.method, sent.url) == ("POST", f"{ACCOUNT}/$batch")
    assert sent.headers["Content-Type"] == "multipart/mixed; boundary=batch_rows"
    assert sent.headers["x-ms-version"] == "2019-02-02"
    assert sent.headers["User-Agent"].startswith("scheduler-agent-supervisor")


@pytest.mark.parametrize("endpoint", [ACCOUNT, "http://127.0.0.1:10002/account"])
async def test_shared_key_signs_as_the_sdk_does(endpoint: str) -> None:
    """The SDK's own request, signed again by ours, has the signature that it had."""
    wire = Wire(ServiceRequestError("seen enough"))
    async with TableServiceClient(endpoint, credential=KEY, transport=wire, retry_total=0) as service:
        with pytest.raises(ServiceRequestError):
            await service.get_table_client("Tasks").submit_transaction(
                [("create", {"PartitionKey": "p", "RowKey": "r"})]
            )
    [request] = wire.sent
    signature = request.headers.pop("Authorization")
    SharedKeyPolicy(KEY).on_request(PipelineRequest(request, PipelineContext(None)))
    assert request.headers["Authorization"] == signature
    assert signature.startswith("SharedKey account:")


async def test_identity_signs_with_a_token_for_storage() -> None:
    """Whatever the account is called."""
    wire = Wire(OK)
    await _send(wire, Identity())
    assert wire.sent[0].headers["Authorization"] == "Bearer https://storage.azure.com/.default"


async def test_shared_access_signature_goes_into_the_address_once() -> None:
    """Also when the request is repeated."""
    wire = Wire((503, b""), OK)
    await _send(wire, AzureSasCredential("sv=1&sig=x%3D"))
    assert [each.url for each in wire.sent] == [f"{ACCOUNT}/$batch?sv=1&sig=x%3D"] * 2
    assert "Authorization" not in wire.sent[0].headers


@pytest.mark.parametrize(
    "fault",
    [(500, b""), (503, b""), (429, b""), ServiceRequestError("refused"), ServiceResponseError("lost")],
    ids=["500", "503", "429", "no connection", "lost answer"],
)
async def test_fault_is_repeated_then_raised(fault: tuple[int, bytes] | Exception) -> None:
    """Three times; a POST, too, since a repeated transaction conflicts with itself at worst."""
    wire = Wire(fault, fault, fault, OK)
    assert isinstance(await _send(wire), GroupWritten)
    wire = Wire(*[fault] * 4)
    with pytest.raises((HttpResponseError, ServiceRequestError, ServiceResponseError)):
        await _send(wire)
    assert len(wire.sent) == 4
    assert all(wire.waited)


@pytest.mark.parametrize("status", [401, 403, 404, 409, 302])
async def test_answer_that_is_about_no_row_is_raised(status: int) -> None:
    """Whoever asks may not write, or there is no such account."""
    with pytest.raises(HttpResponseError) as fault:
        await _send(Wire((status, ERROR.encode())))
    assert fault.value.status_code == status


@pytest.mark.parametrize(
    ("status", "code"), [(500, "InternalError"), (503, "ServerBusy"), (403, "x"), (404, "TableNotFound")]
)
async def test_fault_within_the_answer_is_raised(status: int, code: str) -> None:
    """An operation failed, but not for what it writes."""
    error = ERROR.replace("CODE", code).replace("TEXT", "0:No.")
    with pytest.raises(HttpResponseError, match=code):
        await _send(Wire((202, refused_answer(status, error))))


@pytest.mark.parametrize("status", [400, 413])
async def test_refusal_of_the_whole_is_given_with_its_code(status: int) -> None:
    """The body can't be read by the service, or is too large."""
    refused = await _send(Wire((status, ERROR.replace("TEXT", "No.").encode())))
    assert refused == GroupRefused(status, "CODE")


async def test_group_with_an_unwritable_value_is_not_sent() -> None:
    """It is refused as the service would."""
    wire = Wire()
    groups = EntityGroups(group_pipeline(wire, KEY, retries=3), ACCOUNT, "Tasks")
    refused = await groups.send("p", [Operation("create", {"RowKey": "a", "Size": 2**31})])
    assert refused == GroupRefused(400, "Size is an integer beyond 32 bits")
