"""The format of transactions, and group commit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from functions.storage.azure_table import parse_refusal, parse_transaction, quoted, transaction_body
from functions.storage.group_commits import Conflicted, ShardCommits, fits, size_of
from functions.storage.table_contract import (
    RefusedChanges,
    RowChange,
    TransientStorageError,
    UnwritableRowsError,
)
from tests.fakes.simulated_table import SimulatedTable, TableFault
from tests.fakes.storage_process import virtual_now
from tests.unit.storage.virtual import virtual

CHANGES = [RowChange("upsert", "a", {"A": 1}), RowChange("delete", "b")]


def part(status: str, *headers: str, content: str = "") -> str:
    """Return a part of an answer."""
    return (
        "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
        f"HTTP/1.1 {status}\r\n{''.join(f'{each}\r\n' for each in headers)}\r\n{content}\r\n"
    )


def answered(*parts: str, end: str = "--changeset_1--\r\n--batch_1--\r\n") -> bytes:
    """Return an answer."""
    start = "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n"
    return (start + "".join(parts) + end).encode()


def refusal(code: str, text: str) -> str:
    """Return the content of an error."""
    return json.dumps({"odata.error": {"code": code, "message": {"lang": "en", "value": text}}})


WRITTEN = part("204 No Content", 'ETag: W/"1"'), part("204 No Content")


def test_body_holds_each_change_with_its_guard() -> None:
    """Keys are quoted, and texts are ASCII."""
    changes = [
        RowChange("insert", "n'1", {"T": "ä\r\n--batch_rows"}),
        RowChange("update", "u", {}, "E1"),
        RowChange("delete", "d", etag="E2"),
        RowChange("upsert", "p q", {}),
    ]
    text = transaction_body("http://a/T", "000", changes).decode("ascii")
    assert "POST http://a/T HTTP/1.1" in text
    assert "PUT http://a/T(PartitionKey='000',RowKey='u') HTTP/1.1" in text
    assert "DELETE http://a/T(PartitionKey='000',RowKey='d') HTTP/1.1" in text
    assert "RowKey='p%20q'" in text
    guards = [line for line in text.split("\r\n") if line.startswith("If-Match")]
    assert guards == ["If-Match: E1", "If-Match: E2"]
    assert '"T":"\\u00e4\\r\\n--batch_rows"' in text
    assert sum(map(size_of, changes)) > len(text) - 500
    assert quoted("n'1") == "n%27%271"


def test_etags_are_in_the_order_of_the_changes() -> None:
    """A deleted row has none."""
    assert parse_transaction(answered(*WRITTEN), CHANGES) == ['W/"1"', ""]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        answered(*WRITTEN).replace(b"204", b"abc"),
        answered(WRITTEN[0]),
        answered(WRITTEN[1], WRITTEN[1]),
        answered("--changeset_1\r\n\r\nnothing\r\n"),
        answered(part("503 Busy", content=refusal("ServerBusy", "0:busy"))),
        answered(part("404 Not Found", content=refusal("TableNotFound", "0:no table"))),
    ],
)
def test_wrong_answer_is_a_fault(content: bytes) -> None:
    """It is not known whether the changes are written."""
    with pytest.raises(TransientStorageError):
        parse_transaction(content, CHANGES)


def test_refusal_names_the_change() -> None:
    """The text of the error starts with its number."""
    content = answered(part("412 Precondition Failed", content=refusal("UpdateCondition", "1:no")))
    assert parse_transaction(content, CHANGES) == RefusedChanges(412, "UpdateCondition", 1)
    assert parse_refusal(400, b"<html>") == RefusedChanges(400, "HTTP 400")
    with pytest.raises(TransientStorageError, match="403"):
        parse_refusal(403, b"")


def shard(**table: Any) -> tuple[SimulatedTable, ShardCommits]:
    """Return a table and the commits of one shard."""
    made = SimulatedTable(**table)
    return made, ShardCommits(made, "000")


def change(key: str, kind: str = "upsert") -> list[RowChange]:
    """Return one change."""
    return [RowChange(kind, key, {})]  # type: ignore[arg-type]


@virtual
async def test_waiting_transactions_are_sent_as_one() -> None:
    """The first ones are sent at once; the others wait for them."""
    table, commits = shard(seconds=1)
    results = await asyncio.gather(*(commits.commit(f"t{n}", change(f"t{n}")) for n in range(250)))
    assert all(isinstance(each, str) for each in results)
    assert [len(each) for each in table.transactions] == [100, 100, 50]


@virtual
async def test_group_waits_for_others_unless_it_is_full() -> None:
    """A pause costs latency, and saves transactions while many tasks change."""
    table = SimulatedTable()
    commits = ShardCommits(table, "000", lambda: 0.03)
    few, most = asyncio.create_task(commits.commit("a", change("a"))), timedelta(seconds=0.03)
    await asyncio.sleep(0.02)
    await asyncio.gather(few, commits.commit("b", change("b")))
    began = virtual_now()
    await asyncio.gather(*(commits.commit(f"t{n}", change(f"t{n}")) for n in range(100)))
    assert (len(table.transactions), virtual_now() - began < most) == (2, True)


@virtual
async def test_transaction_for_later_joins_the_next_group() -> None:
    """Without a group it is sent soon."""
    table, commits = shard()
    later = [asyncio.create_task(commits.commit(f"t{n}", change(f"t{n}"), is_later=True)) for n in range(2)]
    await asyncio.sleep(0.1)
    assert isinstance(await commits.commit("t0", change("a")), str)  # it is of the same task
    await asyncio.sleep(0.5)
    assert [[each.key for each in sent] for sent in table.transactions] == [["a", "t1"], ["t0"]]
    later.append(asyncio.create_task(commits.commit("t2", change("t2"), is_later=True)))
    await asyncio.sleep(0)
    await asyncio.gather(*later, *(commits.commit(name, change(name)) for name in "bc"))
    assert [each.key for each in table.transactions[-1]] == ["b", "c", "t2"]


@virtual
async def test_transactions_of_one_task_are_sent_one_after_the_other() -> None:
    """The service takes each row once in a transaction, and the second may depend on the first."""
    table, commits = shard(seconds=1)
    sent = (("a", "1"), ("a", "2"), ("b", "3"))
    await asyncio.gather(*(commits.commit(task, change(key)) for task, key in sent))
    assert [[each.key for each in sent] for sent in table.transactions] == [["1", "3"], ["2"]]
    assert asyncio.get_running_loop().time() == pytest.approx(4, abs=0.1)


class HangingTable(SimulatedTable):
    """A transaction of the row `hanging` alone hangs for 20 seconds, and one of `f` fails."""

    hanging = "h"

    async def send(self, partition: str, changes: Sequence[RowChange]) -> Sequence[str] | RefusedChanges:
        """Write all changes or none."""
        if [each.key for each in changes] == [self.hanging]:
            await asyncio.sleep(20)
        if [each.key for each in changes] == ["f"]:
            raise TransientStorageError("no answer")
        return await super().send(partition, changes)


@virtual
@pytest.mark.parametrize("is_later", [False, True])
async def test_task_whose_request_hangs_delays_no_other(is_later: bool) -> None:  # noqa: FBT001
    """Although further changes of that task wait for it."""
    commits, time = ShardCommits(HangingTable(), "000"), asyncio.get_running_loop().time
    hung = [asyncio.create_task(commits.commit("h", change("h")))]
    await asyncio.sleep(0.1)
    changes = (commits.commit("h", change(f"{number}"), is_later=is_later) for number in range(200))
    hung += map(asyncio.create_task, changes)
    await asyncio.sleep(0.6)
    began = time()
    await commits.commit("a", change("a"))
    assert time() - began < 1
    await asyncio.gather(*hung)


@virtual
async def test_task_whose_change_is_written_does_not_wait_for_its_group() -> None:
    """Transactions that are sent alone after a refusal end one by one, also those that fail."""
    commits, time = ShardCommits(HangingTable(names_rows=False), "000"), asyncio.get_running_loop().time
    kinds = {"h": "upsert", "b": "upsert", "f": "upsert", "missing": "delete"}
    sent = [asyncio.create_task(commits.commit(key, change(key, kind))) for key, kind in kinds.items()]
    await commits.commit("b", change("b"))
    with pytest.raises(TransientStorageError):
        await sent[2]
    assert time() < 1
    await asyncio.gather(sent[0], sent[1], sent[3])


@pytest.mark.parametrize("names_rows", [True, False])
@virtual
async def test_refused_transactions_cost_the_others_nothing(names_rows: bool) -> None:  # noqa: FBT001
    """Each task has its own result, whether the service names the row or not."""
    table, commits = shard(names_rows=names_rows)
    table.write("000", change("there"))
    sent = {
        "a": change("a"),
        "b": change("there", "insert"),
        "c": [RowChange("upsert", "c", {"T": "x" * 40_000})],
        "d": [*change("d"), *change("missing", "delete")],
        **{f"e{n}": change("there", "insert") for n in range(5)},
        "f": change("f"),
    }
    requests = (commits.commit(task, changes) for task, changes in sent.items())
    results = await asyncio.gather(*requests, return_exceptions=True)
    by_task = dict(zip(sent, results, strict=True))
    assert isinstance(by_task["a"], str)
    assert isinstance(by_task["f"], str)
    assert by_task["b"] == by_task["e4"] == Conflicted("there" if names_rows else None)
    assert by_task["d"] == Conflicted("missing" if names_rows else None)
    assert isinstance(by_task["c"], UnwritableRowsError)
    assert table.keys() == ["a", "f", "there"]


@virtual
async def test_fault_is_that_of_the_whole_group() -> None:
    """Later transactions are sent again."""
    table, commits = shard()
    table.fail_next(TableFault.NO_ANSWER)
    sent = (commits.commit(task, change(task)) for task in "ab")
    results = await asyncio.gather(*sent, return_exceptions=True)
    assert all(isinstance(each, TransientStorageError) for each in results)
    assert isinstance(await commits.commit("c", change("c")), str)


@virtual
async def test_fault_of_one_that_is_sent_alone_is_its_own() -> None:
    """The others of a refused group are written."""
    table, commits = shard(names_rows=False)
    table.write("000", change("there"))
    table.fail_next(None, TableFault.NOT_SENT)
    results = await asyncio.gather(
        commits.commit("a", change("a")),
        commits.commit("b", change("there", "insert")),
        commits.commit("c", change("c")),
        return_exceptions=True,
    )
    assert [type(each) for each in results] == [TransientStorageError, Conflicted, str]


@virtual
async def test_cancelled_sender_stops_no_other() -> None:
    """Its changes are written with the others."""
    table, commits = shard(seconds=1)
    first, second = (asyncio.create_task(commits.commit(task, change(task))) for task in "ab")
    await asyncio.sleep(0.5)
    first.cancel()
    assert isinstance(await second, str)
    assert table.keys() == ["a", "b"]


@virtual
async def test_too_large_transaction_is_not_sent() -> None:
    """Its task only fails."""
    table, commits = shard()
    many = [RowChange("upsert", f"{n}", {}) for n in range(101)]
    large = [RowChange("upsert", f"{n}", {"T": "ü" * 30_000}) for n in range(30)]
    for changes in (many, large):
        assert not fits(changes)
        with pytest.raises(UnwritableRowsError):
            await commits.commit("a", changes)
    assert table.transactions == []
