"""Our entity groups do to a table what those of azure-data-tables do, row for row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum

import pytest

from functions.store.group_format import GroupRefused, GroupWritten, Operation
from tests.contract.table_pair import Etags, Pair, by_sdk, rows_of

pytestmark = pytest.mark.process


class Colour(StrEnum):
    """Enumerated texts, as records hold them."""

    RED = "red"


VALUES = {
    "empty text": "",
    "white space": " \t ",
    "quotes": 'it\'s "so" \\ and `so`',
    "markup": "<a href='x'>&amp;</a><![CDATA[ ]]> %27 %%",
    "JSON": '{"odata.error":{"code":"x"}}',
    "MIME": "a\r\n--changeset_rows--\r\n--batch_rows--\r\nDELETE http://x HTTP/1.1\r\n\r\n",
    "control characters": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "scripts": "Ærøskøbing Ελλάδα Москва ירושלים القاهرة हिन्दी 東京 서울 e\u0301",
    "emoji": "😀👩\u200d👩\u200d👧🇩🇰",
    "separators": "\u2028\u2029\u0085\ufeff\ufffe\uffff",
    "half a surrogate pair": "\ud800!",
    "longest text": "é" * 32 * 1024,
    "enumerated": Colour.RED,
    "no bytes": b"",
    "every byte": bytes(range(256)),
    "most bytes": b"\xff" * 64 * 1024,
    "zero": 0,
    "largest": 2**31 - 1,
    "smallest": -(2**31),
    "true": True,
    "false": False,
    "whole number": 3.0,
    "fraction": 0.1 + 0.2,
    "large number": 1.7976931348623157e308,
    "small number": 5e-324,
    "minus zero": -0.0,
    "not a number": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "time": datetime(2026, 11, 22, 16, 30, 50, 362511, UTC),
    "whole second": datetime(2026, 11, 22, 16, 30, 50, tzinfo=UTC),
    "time elsewhere": datetime(2026, 1, 1, 1, 2, 3, 4, timezone(timedelta(hours=5, minutes=30))),
    "time of the machine": datetime(2026, 7, 1, 1, 2, 3, 4),  # noqa: DTZ001 - of no known zone
    "first time": datetime(1601, 1, 1, tzinfo=UTC),
    "last time": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    "nothing": None,
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_value_is_stored_as_the_sdk_stores_it(pair: Pair, value: object) -> None:
    """Created and replaced; and again as it was read."""
    await pair.fill({"RowKey": "replaced", "Old": 1})
    operations = [
        Operation("create", {"RowKey": "created", "Value": value}),
        Operation("update", {"RowKey": "replaced", "Value": value}),
        Operation("upsert", {"RowKey": "new", "Value": value}),
    ]
    assert isinstance(await pair.check(lambda _: operations), GroupWritten)
    read = await pair.ours.get_entity("p", "created")
    again = {name: value for name, value in read.items() if name != "PartitionKey"}
    assert isinstance(await pair.check(lambda _: [Operation("update", again)]), GroupWritten)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, Decimal(1), [1]], ids=repr)
async def test_value_that_the_sdk_does_not_take_is_refused(pair: Pair, value: object) -> None:
    """Neither sends it, nor the good row beside it; ours names the column, and not the value."""
    operations = [Operation("create", {"RowKey": "a"}), Operation("create", {"RowKey": "b", "Size": value})]
    refused = await pair.groups.send("p", operations)
    assert isinstance(refused, GroupRefused)
    assert refused.code in {"Size is an integer beyond 32 bits", f"Size can't be a {type(value).__name__}"}
    assert await rows_of(pair.ours) == {}
    with pytest.raises(TypeError):
        await by_sdk(pair.theirs, "p", operations)


KEYS = "a|b !due|20261121T100030.1Z|t-1 it's '' 100% %41 a+b&c=d RowKey='y') Århus 東京 😀 {a} <x> ~.-_ :;@"


@pytest.mark.parametrize("key", [*KEYS.split(), "a b", "x" * 512])
@pytest.mark.parametrize("partition", ["p", "it's 1|ø"])
async def test_key_is_escaped_as_the_sdk_escapes_it(pair: Pair, key: str, partition: str) -> None:
    """In the address of every kind of operation."""
    row = {"RowKey": key, "Value": 1}
    for operation in (
        Operation("create", row),
        Operation("update", {"RowKey": key, "Value": 2}),
        Operation("upsert", {"RowKey": key, "Value": 3}),
        Operation("delete", {"RowKey": key}),
        Operation("upsert", row),
    ):
        written = await pair.check(lambda _, operation=operation: [operation], partition)  # type: ignore[misc]
        assert isinstance(written, GroupWritten)


async def test_conditions_hold_for_every_kind(pair: Pair) -> None:
    """With the right ETag, each is done; the ETags that come back are those of the rows."""
    await pair.fill({"RowKey": "a", "Old": 1}, {"RowKey": "b", "Old": 1})

    def conditional(etags: Etags) -> list[Operation]:
        return [
            Operation("update", {"RowKey": "a", "New": 2}, etags["a"]),
            Operation("delete", {"RowKey": "b"}, etags["b"]),
            Operation("create", {"RowKey": "d"}),
        ]

    assert isinstance(await pair.check(conditional), GroupWritten)
    deleted = await pair.check(lambda etags: [Operation("delete", {"RowKey": key}) for key in etags])
    assert isinstance(deleted, GroupWritten)
    assert await rows_of(pair.ours) == {}
