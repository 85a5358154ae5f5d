"""Answers to entity group transactions: read strictly, because what is guessed would be taken for written."""

from __future__ import annotations

import pytest
from azure.core.exceptions import DecodeError

from functions.store.group_format import GroupRefused, GroupWritten, Operation, group_body, parse_answer

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
