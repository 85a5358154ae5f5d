"""Batches of the most bytes that are designed to be slow to refuse."""

from __future__ import annotations

from collections.abc import Mapping

from functions.api.models import MAX_BATCH_BYTES
from functions.pattern.messages import MAX_PAYLOAD_PARTS
from functions.web.bodies import MOST_MARKS

_BEGIN, _END = b'{"orders":[', b"]}"


def _filled(unit: bytes) -> bytes:
    count = (MAX_BATCH_BYTES - len(_BEGIN) - len(_END)) // (len(unit) + 1)
    return _listed([unit] * count)


def _listed(units: list[bytes]) -> bytes:
    return _BEGIN + b",".join(units) + _END


def _keys(count: int, end: bytes = b"}]}") -> bytes:
    pairs = b",".join(b'"%x":1' % number for number in range(count))
    return (_BEGIN + b"{" + pairs)[: MAX_BATCH_BYTES - len(end)] + end


def _faulty(*orders: int) -> bytes:
    return _listed([b'{"items":[' + b",".join([b"{}"] * items) + b"]}" for items in orders])


#: Between two floats, so that to convert it takes hundreds of steps.
_NUMBER = b"2.2250738585072011360574097967091319759e-308"

#: Nearly a number, in one of the largest orders that are taken.
_DIGITS = b'{"customer":"C","currency":"EUR","items":[{"sku":"T","quantity":1,"unit_price":"%sx"}]}' % (
    b"1" * 48_000
)

#: What they hold, by their names. Most of the last have as many brackets and commas as are parsed at all.
HOSTILE: Mapping[str, bytes] = {
    "lists 17 deep": _filled(b"[" * 15 + b"]" * 15),
    "400,000 keys": _keys(400_000),
    "empty lists": _filled(b"[]"),
    "as many keys as are parsed": _keys(MOST_MARKS - 10),
    "as many names given twice": _listed([b'{"a":1,"a":1}'] * (MOST_MARKS // 4 - 4)),
    "as many keys beside the orders": _BEGIN + b"{}]," + _keys(MOST_MARKS - 10)[len(_BEGIN) + 1 : -3] + b"}",
    "as many objects in one order": _faulty(13_000),
    "as many faults in three orders": _faulty(*[MAX_PAYLOAD_PARTS - 2] * 3),
    "numbers between floats": _filled(_NUMBER),
    "digits that are no number": _filled(_DIGITS),
    "one order of numbers": _listed([b'{"a":[' + b",".join([b"1.7976931348623157e-308"] * 39_900) + b"]}"]),
}
