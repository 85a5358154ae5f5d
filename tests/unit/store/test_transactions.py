"""Entity group transactions: their format, signature, retries and conflicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Self

import pytest
from azure.core.credentials import AccessToken, AzureNamedKeyCredential, AzureSasCredential
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import DecodeError, HttpResponseError, ServiceRequestError, ServiceResponseError
from azure.core.pipeline import PipelineContext, PipelineRequest
from azure.core.pipeline.transport import AsyncHttpTransport, HttpRequest
from azure.data.tables.aio import TableServiceClient

from functions.pattern.errors import UnwritableError
from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import GroupRefused, GroupWritten, Operation, group_body, parse_answer
from functions.store.group_pipeline import Credential, SharedKeyPolicy, group_pipeline
from functions.store.row_reads import RowReads
from functions.store.transactions import Committed, Conflicted, Result, ShardWriter, Transaction

OPERATIONS = [
    Operation("update", {"RowKey": "a"}, "W/\"datetime'1'\""),
    Operation("delete", {"RowKey": "b"}),
    Operation("create", {"RowKey": "c", "Text": "ø"}),
]

_START = "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_2\r\n\r\n"
_PART = (
    "--changesetresponse_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
    "HTTP/1.1 {status}\r\nX-Content-Type-Options: nosniff\r\n{more}\r\n"
)
_END = "--changesetresponse_2--\r\n--batchresponse_1--"
_NO_CONTENT = _PART.format(status="204 No Content", more="{}\r\n")
_WRITTEN = _NO_CONTENT.format("ETag: W/\"datetime'2'\"\r\n")
_DELETED = _NO_CONTENT.format("")

WRITTEN = _START + _WRITTEN + _DELETED + _WRITTEN + _END
ERROR = '{"odata.error":{"code":"CODE","message":{"lang":"en-us","value":"TEXT\\nRequestId:1"}}}\r\n'


def refused_answer(status: int, error: str) -> bytes:
    """Build what is answered when an operation is refused."""
    return (_START + _PART.format(status=f"{status} No", more="\r\n") + error + _END).encode()


UNEXPECTED = 412, "UpdateConditionNotSatisfied"
TOO_LARGE = 400, "PropertyValueTooLarge"


class ScriptedGroups(EntityGroups):
    """Refuses groups with certain rows; `named` tells whether it says which row it is."""

    def __init__(self, refused: dict[str, tuple[int, str]], *, named: bool = True) -> None:
        self._refused = refused
        self._named = named
        self.sent: list[list[str]] = []
        self.fails_at: int | None = None

    async def send(self, partition: str, operations: Sequence[Operation]) -> GroupWritten | GroupRefused:
        """Refuse, or give each row's key as its ETag."""
        keys = [f"{partition}/{each.entity['RowKey']}" for each in operations]
        self.sent.append(keys)
        if len(self.sent) == self.fails_at:
            raise HttpResponseError("HTTP 503")
        for index, key in enumerate(keys):
            if key in self._refused:
                return GroupRefused(*self._refused[key], index if self._named else None)
        return GroupWritten(tuple(keys))


def _transactions(*tasks: str) -> list[Transaction]:
    """Make transactions of two rows each."""
    return [
        Transaction(TaskId(task), tuple(Operation("upsert", {"RowKey": f"{task}{row}"}) for row in (1, 2)))
        for task in tasks
    ]


async def _commit(groups: EntityGroups, *tasks: str) -> list[str]:
    results = await ShardWriter(groups, "s", StoreFigures()).commit(_transactions(*tasks))
    return [_text(result) for result in results]


def _text(result: Result) -> str:
    match result:
        case Committed():
            return result.etag
        case Conflicted():
            return " ".join(["conflict", *sorted(result.rows)])
        case UnwritableError():
            return result.code


async def test_tasks_are_written_as_one() -> None:
    """Each has its own first row's ETag; the figures count one transaction."""
    groups, figures = ScriptedGroups({}), StoreFigures()
    results = await ShardWriter(groups, "s", figures).commit(_transactions("a", "b", "c"))
    assert results == [Committed("s/a1"), Committed("s/b1"), Committed("s/c1")]
    assert (figures.transactions, figures.operations) == (1, 6)


async def test_conflict_is_that_of_the_task_whose_row_is_named() -> None:
    """The first or the second of its rows; the others are sent again, together."""
    groups = ScriptedGroups({"s/b1": UNEXPECTED, "s/c2": (404, "ResourceNotFound"), "s/e1": (409, "x")})
    results = await _commit(groups, *"abcde")
    assert results == ["s/a1", "conflict b1", "conflict c2", "s/d1", "conflict e1"]
    assert [len(sent) for sent in groups.sent] == [10, 8, 6, 4]


@pytest.mark.parametrize("refusal", [UNEXPECTED, TOO_LARGE])
@pytest.mark.parametrize("named", [True, False])
async def test_task_that_is_refused_fails_alone(refusal: tuple[int, str], *, named: bool) -> None:
    """Also when the service does not say which it is: then it may be any of its rows."""
    conflict = "conflict b2" if named else "conflict b1 b2"
    result = conflict if refusal is UNEXPECTED else "PropertyValueTooLarge"
    assert await _commit(ScriptedGroups({"s/b2": refusal}, named=named), *"abc") == ["s/a1", result, "s/c1"]


async def test_unwritable_task_is_sent_alone_once() -> None:
    """After the group, three times alone; the others are not tried together again."""
    groups = ScriptedGroups({"s/b2": TOO_LARGE})
    await _commit(groups, *"abc")
    assert [len(sent) for sent in groups.sent] == [6, 2, 2, 2]


class ScriptedReads(RowReads):
    """Knows which rows are there."""

    def __init__(self, *there: str) -> None:
        self._there = there
        self.read_keys: list[str] = []

    async def read(self, partition: str, row_key: str, columns: Sequence[str]) -> Mapping[str, Any] | None:
        """Read a row's key."""
        assert columns == ("RowKey",)
        self.read_keys.append(f"{partition}/{row_key}")
        return {"RowKey": row_key} if f"{partition}/{row_key}" in self._there else None


def _new_tasks(*tasks: str) -> list[Transaction]:
    """Make the transactions of new tasks, of two rows each."""
    rows = {task: ({"RowKey": f"{task}1"}, {"RowKey": f"{task}2"}) for task in tasks}
    return [
        Transaction(TaskId(task), tuple(Operation("create", row) for row in its))
        for task, its in rows.items()
    ]


async def test_replay_of_new_tasks_is_looked_up_after_its_first_conflict() -> None:
    """The absent ones are sent once more, whatever the number of those that are there."""
    there = [f"s/{task}1" for task in "abdfg"]
    groups, reads = ScriptedGroups(dict.fromkeys(there, (409, "EntityAlreadyExists"))), ScriptedReads(*there)
    figures = StoreFigures()
    results = await ShardWriter(groups, "s", figures, reads).commit(_new_tasks(*"abcdefg"))
    assert [_text(each) for each in results] == [
        *("conflict a1", "conflict b1 b2", "s/c1", "conflict d1 d2", "s/e1"),
        *("conflict f1 f2", "conflict g1 g2"),
    ]
    assert [len(sent) for sent in groups.sent] == [14, 4]
    assert reads.read_keys == [f"s/{task}1" for task in "bcdefg"]
    assert (figures.transactions, figures.reads) == (2, 6)


async def test_new_tasks_without_a_conflict_are_not_looked_up() -> None:
    """An order costs no more than before."""
    reads = ScriptedReads()
    await ShardWriter(ScriptedGroups({}), "s", StoreFigures(), reads).commit(_new_tasks(*"abc"))
    assert reads.read_keys == []


async def test_new_tasks_beside_a_changed_one_are_not_looked_up() -> None:
    """Its conflict says nothing about them; of what is no new task, nothing is looked up either."""
    groups, reads = ScriptedGroups({"s/a1": UNEXPECTED}), ScriptedReads()
    mixed = [*_transactions("a"), *_new_tasks("b"), *_transactions("c")]
    await ShardWriter(groups, "s", StoreFigures(), reads).commit(mixed)
    assert reads.read_keys == []
    groups, reads = ScriptedGroups({"s/b1": UNEXPECTED}), ScriptedReads()
    mixed = [*_new_tasks("b"), *_transactions("c"), *_new_tasks("d")]
    await ShardWriter(groups, "s", StoreFigures(), reads).commit(mixed)
    assert reads.read_keys == ["s/d1"]


async def test_new_task_that_comes_in_between_has_its_own_conflict() -> None:
    """Another process may admit it after the look: that is not looked up again."""
    refused = {"s/a1": (409, "EntityAlreadyExists"), "s/b1": (409, "EntityAlreadyExists")}
    groups, reads = ScriptedGroups(refused), ScriptedReads("s/a1")
    results = await ShardWriter(groups, "s", StoreFigures(), reads).commit(_new_tasks(*"abc"))
    assert [_text(each) for each in results] == ["conflict a1", "conflict b1", "s/c1"]
    assert reads.read_keys == ["s/b1", "s/c1"]


async def test_error_names_the_task_and_the_code() -> None:
    """It is what an operator needs; values are not shown."""
    [error] = await ShardWriter(ScriptedGroups({"s/a1": TOO_LARGE}), "s", StoreFigures()).commit(
        _transactions("a")
    )
    assert isinstance(error, UnwritableError)
    assert (error.task, str(error)) == ("a", "the rows of task a can't be written: PropertyValueTooLarge")


@pytest.mark.parametrize("fails_at", [1, 2, 3])
async def test_fault_of_the_service_is_raised(fails_at: int) -> None:
    """It is nobody's own, and what has been written meanwhile is found by reading it back."""
    groups = ScriptedGroups({"s/b2": TOO_LARGE})
    groups.fails_at = fails_at
    with pytest.raises(HttpResponseError):
        await _commit(groups, *"abc")


async def test_deletion_tells_whether_the_rows_were_as_expected() -> None:
    """A row that can't be named at all is an error."""
    writer = ShardWriter(ScriptedGroups({"s/b": UNEXPECTED, "s/c": TOO_LARGE}), "s", StoreFigures())
    task = TaskId("a")
    assert await writer.delete(task, [Operation("delete", {"RowKey": "a"})])
    assert not await writer.delete(task, [Operation("delete", {"RowKey": "b"})])
    with pytest.raises(UnwritableError):
        await writer.delete(task, [Operation("delete", {"RowKey": "c"})])


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


def test_request_is_as_the_service_documents_it() -> None:
    """One changeset; keys in addresses; no content of rows asked back; one line of ASCII for each row."""
    head = " HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json;odata=minimalmetadata\r\n"
    head += "Prefer: return-no-content\r\nDataServiceVersion: 3.0\r\n"
    part = "--changeset_rows\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
    assert group_body("https://a.example/T", "p", OPERATIONS).decode("ascii") == (
        "--batch_rows\r\nContent-Type: multipart/mixed; boundary=changeset_rows\r\n\r\n"
        f"{part}PUT https://a.example/T(PartitionKey='p',RowKey='a'){head}If-Match: W/\"datetime'1'\"\r\n\r\n"
        '{"PartitionKey":"p","RowKey":"a"}\r\n'
        f"{part}DELETE https://a.example/T(PartitionKey='p',RowKey='b'){head}If-Match: *\r\n\r\n\r\n"
        f"{part}POST https://a.example/T{head}\r\n"
        '{"PartitionKey":"p","RowKey":"c","Text":"\\u00f8"}\r\n'
        "--changeset_rows--\r\n--batch_rows--\r\n"
    )


def test_etags_come_in_the_order_of_the_operations() -> None:
    """A deleted row has none."""
    etag = "W/\"datetime'2'\""
    assert parse_answer(WRITTEN.encode(), OPERATIONS) == GroupWritten((etag, "", etag))


@pytest.mark.parametrize("answer", [WRITTEN.encode(), refused_answer(412, ERROR)], ids=["written", "refused"])
def test_answer_that_is_cut_off_is_not_read(answer: bytes) -> None:
    """Wherever it ends, even within the last boundary: not even its status."""
    for end in range(len(answer)):
        with pytest.raises(DecodeError):
            parse_answer(answer[:end], OPERATIONS)


FOREIGN = {
    "empty": "",
    "page of a proxy": "<html><body>HTTP/1.1 204 No Content</body></html>",
    "another count": _START + _WRITTEN + _DELETED + _END,
    "no part": _START + _END,
    "no ETag": _START + _DELETED + _DELETED + _WRITTEN + _END,
    "no HTTP": _START + _WRITTEN + _DELETED + "--changesetresponse_2\r\n\r\nhello\r\n" + _END,
    "something before": _START + "hello\r\n" + _WRITTEN + _DELETED + _WRITTEN + _END,
    "something behind": WRITTEN + "\r\n--batchresponse_1--",
    "no changeset": WRITTEN.replace("boundary=", "border="),
}


@pytest.mark.parametrize("answer", FOREIGN.values(), ids=FOREIGN)
def test_answer_that_is_none_is_not_read(answer: str) -> None:
    """It has the form of an answer to this group, or it says nothing."""
    with pytest.raises(DecodeError):
        parse_answer(answer.encode(), OPERATIONS)


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (ERROR.replace("TEXT", "2:Not satisfied."), GroupRefused(412, "CODE", 2)),
        (ERROR.replace("TEXT", "Not satisfied: 2:3."), GroupRefused(412, "CODE")),
        (ERROR.replace("value", "text"), GroupRefused(412, "HTTP 412")),
        ('<?xml version="1.0"?><error><code>CODE</code></error>\r\n', GroupRefused(412, "HTTP 412")),
        ("[]\r\n", GroupRefused(412, "HTTP 412")),
    ],
    ids=["number", "no number", "no text", "XML", "list"],
)
def test_operation_to_blame_is_named_by_its_number_alone(error: str, refused: GroupRefused) -> None:
    """What the error's text does not begin with is not taken for one."""
    assert parse_answer(refused_answer(412, error), OPERATIONS) == refused
