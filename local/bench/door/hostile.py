"""Batches of the most bytes that are designed to be slow to refuse."""

from __future__ import annotations

from collections.abc import Mapping

from functions.api.drafts import MOST_PARTS
from functions.api.models import MAX_BATCH_BYTES
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


def _faulty(*orders: int, item: bytes = b"{}") -> bytes:
    return _listed([b'{"items":[' + b",".join([item] * items) + b"]}" for items in orders])


#: Between two floats, so that to convert it takes hundreds of steps.
_NUMBER = b"2.2250738585072011360574097967091319759e-308"

#: From 41 digits on, to convert it as it is takes four times as long.
_MORE_DIGITS = b"2.22507385850720113605740979670913197593481954635164564802342610972482222202107694551e-308"

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
    "as many faults in three orders": _faulty(*[MOST_PARTS - 2] * 3),
    "as many faults as are listed, five times": _faulty(*[2_498] * 5, item=b'{"a":0}'),
    "as many faults as are told, of 500 orders": _faulty(*[17] * 500),
    "numbers between floats": _filled(_NUMBER),
    "numbers of more digits": _filled(_MORE_DIGITS),
    "whole numbers between floats": _filled(b"%d" % (2**1023 + 2**970)),
    "digits that are no number": _filled(_DIGITS),
    "one order of numbers": _listed([b'{"a":[' + b",".join([b"1.7976931348623157e-308"] * 39_900) + b"]}"]),
}
