"""Requests to a real Azurite: transactions, refusals, point reads, pages, and values of all kinds."""

from __future__ import annotations

import pytest

from functions.storage.azure_table import AzureTable
from functions.storage.index_pages import KEYS, every_page
from functions.storage.table_contract import RefusedChanges, RowChange, RowQuery, TransientStorageError

pytestmark = pytest.mark.process


async def test_transaction_writes_all_rows_and_returns_their_etags(azure_table: AzureTable) -> None:
    """The ETag of a written row is the one that is read; keys and texts keep all characters."""
    text = "ä€'\"\\\n\u2028 𝄞 --batch_rows\r\n"
    key = "t1|step|ok's & 100%|ü"
    changes = [RowChange("insert", key, {"Text": text, "Count": 3}), RowChange("upsert", "b", {})]
    etags = await azure_table.send("000", changes)
    assert not isinstance(etags, RefusedChanges)
    row = await azure_table.read("000", key)
    assert row is not None
    assert (row["Text"], row["Count"], row["odata.etag"]) == (text, 3, etags[0])
    [queried] = (await azure_table.query("000", RowQuery("t1|", "t1}"))).rows
    assert queried["odata.etag"] == etags[0]
    deleted = await azure_table.send("000", [RowChange("delete", key, etag=etags[0])])
    assert deleted == [""]
    assert await azure_table.read("000", key) is None


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (RowChange("insert", "there", {}), 409),
        (RowChange("update", "there", {}, "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\""), 412),
        (RowChange("update", "missing", {}), 404),
        (RowChange("delete", "missing"), 404),
    ],
)
async def test_refused_change_is_named_and_nothing_is_written(
    azure_table: AzureTable, change: RowChange, status: int
) -> None:
    """Group commit depends on the number of the change."""
    await azure_table.send("000", [RowChange("insert", "there", {})])
    refused = await azure_table.send(
        "000",
        [RowChange("upsert", "a", {}), RowChange("upsert", "b", {}), change, RowChange("upsert", "c", {})],
    )
    assert isinstance(refused, RefusedChanges)
    assert (refused.status, refused.index, refused.is_conflict) == (status, 2, True)
    assert await azure_table.read("000", "a") is None


@pytest.mark.parametrize("text", ["\ud800", "x" * 40_000], ids=["no Unicode", "more than 64 KiB"])
async def test_text_that_no_property_holds_is_refused(azure_table: AzureTable, text: str) -> None:
    """It concerns its own task only, and is no fault of the service."""
    refused = await azure_table.send("000", [RowChange("insert", "a", {"Text": text})])
    assert isinstance(refused, RefusedChanges)
    assert not refused.is_conflict


async def test_query_reads_all_pages(azure_table: AzureTable) -> None:
    """Pages have at most 1,000 rows; a continuation and a key both continue a query."""
    for first in range(0, 1200, 100):
        changes = [RowChange("insert", f"p|{n:05d}", {"N": n}) for n in range(first, first + 100)]
        assert not isinstance(await azure_table.send("000", changes), RefusedChanges)
    pages = [page async for page in every_page(azure_table, "000", RowQuery("p|", "p}"))]
    assert [row["N"] for page in pages for row in page.rows] == list(range(1200))
    assert len(pages) == 2
    page = await azure_table.query("000", RowQuery("p|", "p}", beyond="p|00099", most=2, columns=KEYS))
    assert [row["RowKey"] for row in page.rows] == ["p|00100", "p|00101"]
    assert set(page.rows[0]) - {"odata.etag", "odata.type", "odata.id", "odata.editLink"} <= set(KEYS)
    assert page.continuation is not None
    after = await azure_table.query("000", RowQuery("p|", "p}", most=1, continuation=page.continuation))
    assert after.rows[0]["RowKey"] == "p|00102"
    with pytest.raises(ValueError, match="continuation"):
        await azure_table.query("000", RowQuery("p|", "p}", continuation="p|00102"))


async def test_query_returns_rows_with_a_column(azure_table: AzureTable) -> None:
    """The full sweep reads task rows only."""
    rows = {"a": {"Index": "i"}, "b": {}, "c": {"Index": "j", "Other": "x"}}
    await azure_table.send("000", [RowChange("insert", key, row) for key, row in rows.items()])
    page = await azure_table.query("000", RowQuery("a", "d", columns=(*KEYS, "Index"), having="Index"))
    assert [row["Index"] for row in page.rows] == ["i", "j"]


async def test_missing_table_is_a_fault(azure_table: AzureTable) -> None:
    """No task is said not to exist because its table does not."""
    table = AzureTable(azure_table.session, "Tmissing")
    for request in (
        table.read("0", "a"),
        table.query("0", RowQuery("a", "b")),
        table.send("0", [RowChange("insert", "a", {})]),
    ):
        with pytest.raises(TransientStorageError):
            await request
