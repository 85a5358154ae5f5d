"""Batches of the largest allowed size that are slow to refuse.

`python -m tests.security.hostile` prints milliseconds of CPU to parse each body, to answer the request, and
the longest time during which no other request is served. The figures decide nothing: machines differ.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import process_time

from rich.console import Console
from rich.table import Table

from functions.http.bodies import MOST_VALUES, parse_body
from functions.http.problems import ProblemError
from functions.wiring import collect_garbage_rarely
from tests.unit.api.scene import Api

_BEGIN, _END = b'{"orders":[', b"]}"
_BATCH_DEPTH = 18
_MOST_BATCH_BYTES = 1024 * 1024
#: Between two doubles: to convert it takes hundreds of steps.
_NUMBER = b"2.22507385850720113605740979670913197593481954635164564802342610972482222202107694551e-308"
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class HostileBatch:
    """A body; `status` is the answer to the batch, `orders` those to its orders."""

    body: bytes
    status: int
    orders: frozenset[int] = frozenset()


def _batch(orders: Iterable[bytes]) -> bytes:
    return _BEGIN + b",".join(orders) + _END


def _filled(unit: bytes, most: int = _MOST_BATCH_BYTES) -> bytes:
    """Repeat a value in the batch until the body is full, or has `most` of it."""
    count = min(most, (_MOST_BATCH_BYTES - len(_BEGIN) - len(_END)) // (len(unit) + 1))
    return _batch([unit] * count)


def _keys(count: int) -> bytes:
    return b"{" + b",".join(b'"%010x":1' % number for number in range(count)) + b"}"


def _of_objects(count: int, orders: int) -> bytes:
    return _batch([b'{"items":[' + b",".join([b"{}"] * count) + b"]}"] * orders)


HOSTILE: Mapping[str, HostileBatch] = {
    "40,000 keys in one order": HostileBatch(_batch([_keys(MOST_VALUES - 10)]), 200, frozenset({413})),
    "69,000 keys": HostileBatch(_batch([_keys(69_000)]), 413),
    "500,000 lists, 15 deep": HostileBatch(_filled(b"[" * 15 + b"]" * 15), 413),
    "40,000 lists, 15 deep": HostileBatch(_filled(b"[" * 15 + b"]" * 15, 2_660), 422),
    "long numbers": HostileBatch(_filled(_NUMBER), 422),
    "long integers": HostileBatch(_filled(b"9" * 4_300), 400),
    "500,000 numbers": HostileBatch(_filled(b"0"), 413),
    "40,000 numbers, the last one infinite": HostileBatch(
        _batch([*[b"0"] * (MOST_VALUES - 10), b"1e999"]), 400
    ),
    "16,000 empty objects in each of two orders": HostileBatch(_of_objects(16_000, 2), 200, frozenset({422})),
    "17 empty objects in each of 500 orders": HostileBatch(_of_objects(17, 500), 200, frozenset({422})),
}


async def _figures(batch: HostileBatch) -> tuple[float, float, float]:
    """Measure the CPU seconds of the parser, of the answer, and of the longest step of the event loop."""
    client = Api().client
    await client.get("/api/health")
    begun = process_time()
    with suppress(ProblemError):
        parse_body(batch.body, _BATCH_DEPTH)
    parsed = process_time()
    answering = asyncio.create_task(client.post("/api/orders/batch", batch.body))
    longest, last = 0.0, parsed
    while not answering.done():
        await asyncio.sleep(0)
        now = process_time()
        longest, last = max(longest, now - last), now
    return parsed - begun, last - parsed, longest


async def _print_figures() -> None:
    collect_garbage_rarely()
    table = Table("batch of at most 1 MiB", "parse, ms", "answer, ms", "longest step, ms")
    for name, batch in HOSTILE.items():
        rounds = []
        for _ in range(_ROUNDS):
            rounds.append(await _figures(batch))
            gc.collect()
        table.add_row(name, *(f"{min(column) * 1000:.1f}" for column in zip(*rounds, strict=True)))
    Console(width=120).print(table)


if __name__ == "__main__":
    asyncio.run(_print_figures())
