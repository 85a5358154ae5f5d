"""Our entity groups are refused what those of azure-data-tables are refused, with the same codes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import AccountSasPermissions, ResourceTypes, generate_account_sas

from functions.connections import Connection
from functions.store.connect import connect
from functions.store.group_format import GroupRefused, GroupWritten, Operation
from tests.contract.table_pair import Etags, Pair, rows_of

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),  # aiohttp, above 1 MiB
]

THERE, GONE = {"RowKey": "there"}, {"RowKey": "gone"}
CONFLICTS = {
    "created is there": (Operation("create", THERE), 409, "EntityAlreadyExists"),
    "updated is gone": (Operation("update", GONE), 404, "ResourceNotFound"),
    "updated has changed": (Operation("update", THERE, "stale"), 412, "UpdateConditionNotSatisfied"),
    "deleted is gone": (Operation("delete", GONE), 404, "ResourceNotFound"),
    "deleted has changed": (Operation("delete", THERE, "stale"), 412, "UpdateConditionNotSatisfied"),
}


@pytest.mark.parametrize(("operation", "status", "code"), CONFLICTS.values(), ids=CONFLICTS)
async def test_conflict_names_its_operation(pair: Pair, operation: Operation, status: int, code: str) -> None:
    """Nothing of the group is done; the answer names the third operation."""
    await pair.fill({"RowKey": "there", "Old": 1}, {"RowKey": "other"})

    def operations(etags: Etags) -> list[Operation]:
        etag = etags["other"] if operation.etag == "stale" else operation.etag
        return [
            Operation("upsert", {"RowKey": "first"}),
            Operation("create", {"RowKey": "second"}),
            Operation(operation.kind, operation.entity, etag),
            Operation("create", {"RowKey": "last"}),
        ]

    assert await pair.check(operations) == GroupRefused(status, code, 2)


def _create(key: str = "a", **values: object) -> Operation:
    return Operation("create", {"RowKey": key, **values})


REFUSED = {
    "InvalidDuplicateRow": [_create(), Operation("delete", {"RowKey": "a"})],
    "PropertyValueTooLarge": [_create("b"), _create(Value="x" * (32 * 1024 + 1))],
    "PropertyValueTooLarge bytes": [_create("b"), _create(Value=b"x" * (64 * 1024 + 1))],
    "InvalidInput long key": [_create("x" * 1025)],
    "InvalidInput slash": [_create("a/b")],
    "InvalidInput tab": [Operation("upsert", {"RowKey": "a\tb"})],
    "RequestBodyTooLarge": [_create(str(number), Value=b"x" * 60_000) for number in range(60)],
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refusal_is_that_of_the_sdk(pair: Pair, name: str) -> None:
    """What the service does not take is refused with its code; nothing is written."""
    refused = await pair.check(lambda _: REFUSED[name])
    assert isinstance(refused, GroupRefused)
    assert refused.code == name.split(maxsplit=1)[0]
    assert await rows_of(pair.ours) == {}


async def test_more_than_a_hundred_operations_are_refused(pair: Pair) -> None:
    """The SDK can't read this answer of Azurite's; a hundred are taken."""
    operations = [_create(str(number)) for number in range(101)]
    assert await pair.groups.send("p", operations) == GroupRefused(400, "InvalidInput", 0)
    assert isinstance(await pair.check(lambda _: operations[1:]), GroupWritten)


async def test_fault_of_the_service_is_raised_as_by_the_sdk(pair: Pair) -> None:
    """There is no such table: that is no conflict of a row."""
    for table in (pair.ours, pair.theirs):
        await table.delete_table()
    with pytest.raises(HttpResponseError):
        await pair.groups.send("p", [_create()])
    with pytest.raises(HttpResponseError):
        await pair.theirs.submit_transaction([("create", {"PartitionKey": "p", "RowKey": "a"})])


async def test_wrong_key_is_refused_by_the_service(pair: Pair, connection_string: str) -> None:
    """It is the service's fault, not the rows'."""
    wrong = re.sub("AccountKey=[^;]*", "AccountKey=d3Jvbmc=", connection_string)
    async with connect(Connection(wrong, None, None)) as storage:
        with pytest.raises(HttpResponseError) as refusal:
            await storage.groups(pair.ours.table_name).send("p", [_create()])
    assert refusal.value.status_code == 403


async def test_shared_access_signature_is_enough(pair: Pair, connection_string: str) -> None:
    """As the portal shows it: the table's endpoint and the signature."""
    parts = dict(part.split("=", 1) for part in connection_string.split(";") if part)
    signature = generate_account_sas(
        AzureNamedKeyCredential(parts["AccountName"], parts["AccountKey"]),
        resource_types=ResourceTypes(object=True),
        permission=AccountSasPermissions(add=True, write=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    by_signature = f"TableEndpoint={parts['TableEndpoint']};SharedAccessSignature={signature}"
    async with connect(Connection(by_signature, None, None)) as storage:
        written = await storage.groups(pair.ours.table_name).send("p", [_create()])
    assert isinstance(written, GroupWritten)
    assert list(await rows_of(pair.ours)) == ["a"]
