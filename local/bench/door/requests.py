"""Sends requests to the door, many at a time, and times them."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus

import aiohttp

from local.callers.client import SAMPLE_ORDER

BATCH_SIZE = 500
JSON = {"Content-Type": "application/json"}
_ORDER = json.dumps(SAMPLE_ORDER, separators=(",", ":"))


@dataclass(slots=True)
class DoorAnswers:
    """What came back: the seconds that each request took, and all together, and the ids accepted."""

    whole_seconds: float = 0
    seconds: list[float] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    refused: int = 0

    @property
    def rate(self) -> float:
        """Orders accepted per second."""
        return len(self.accepted) / self.whole_seconds


@dataclass(frozen=True, slots=True)
class Sent:
    """A request, and how to read which orders its answer accepts."""

    method: str
    path: str
    body: bytes
    read: Callable[[bytes], tuple[list[str], int]]


#: Sends a request; gives the status and the body of the answer.
type Send = Callable[[Sent], Awaitable[tuple[int, bytes]]]


def over(session: aiohttp.ClientSession) -> Send:
    """Send requests over a session."""

    async def send(each: Sent) -> tuple[int, bytes]:
        async with session.request(each.method, each.path, data=each.body, headers=JSON) as answer:
            return answer.status, await answer.read()

    return send


async def send_all(send: Send, requests: Iterable[Sent], *, at_once: int) -> DoorAnswers:
    """Send requests, so many at a time. What is answered with no status of success counts as refused."""
    answers, left = DoorAnswers(), iter(requests)
    bodies: list[tuple[Sent, bytes]] = []

    async def send_some() -> None:
        for each in left:
            start = time.perf_counter()
            status, body = await send(each)
            answers.seconds.append(time.perf_counter() - start)
            if status < HTTPStatus.BAD_REQUEST:
                bodies.append((each, body))
            else:
                answers.refused += 1

    start = time.perf_counter()
    await asyncio.gather(*(send_some() for _ in range(at_once)))
    answers.whole_seconds = time.perf_counter() - start
    for each, body in bodies:  # read afterwards: the caller shares the cores with what is measured
        accepted, refused = each.read(body)
        answers.accepted += accepted
        answers.refused += refused
    return answers


def puts(count: int, prefix: str) -> Iterator[Sent]:
    """Make single orders, under new ids."""
    body = _ORDER.encode()
    for _ in range(count):
        yield Sent("PUT", f"{prefix}/{uuid.uuid4().hex}", body, _read_one)


def batches(count: int, *, with_ids: bool) -> list[Sent]:
    """Make batches with so many orders in all."""
    return [
        Sent("POST", "/api/orders/batch", _batch(with_ids=with_ids), _read_batch)
        for _ in range(count // BATCH_SIZE)
    ]


def _batch(*, with_ids: bool) -> bytes:
    orders = (f'{{"id":"{uuid.uuid4().hex}",{_ORDER[1:]}' if with_ids else _ORDER for _ in range(BATCH_SIZE))
    return f'{{"orders":[{",".join(orders)}]}}'.encode()


def _read_one(body: bytes) -> tuple[list[str], int]:
    return [json.loads(body)["id"]], 0


def _read_batch(body: bytes) -> tuple[list[str], int]:
    results = json.loads(body)["results"]
    accepted = [each["id"] for each in results if each["status"] == HTTPStatus.ACCEPTED]
    return accepted, len(results) - len(accepted)
