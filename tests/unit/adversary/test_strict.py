"""The strict parser, and what it makes of replies."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from functions.api.application import _BATCH_LIMIT
from functions.messages.reading import NotAMessageError
from functions.pattern.states import ProcessState, StepState
from functions.pattern.strict_json import NotJsonError, parse_json
from functions.scheduler.refused_replies import read_reply
from functions.web.bodies import parse_body
from functions.web.problems import ProblemError
from tests.fakes.workflows import TASK
from tests.unit.scheduler.test_refused_replies import RIGHT
from tests.unit.scheduler.test_replies import TOKEN, Bench


async def _take(bench: Bench, body: str, message_id: str = "m-1") -> None:
    await bench.taker.take(message_id, body.encode(), bench.schedulers)


def _many_names(size: int) -> bytes:
    """An object of about so many bytes, one of whose names is there twice."""
    names = ",".join(f'"{number:x}":0' for number in range(size // 9))
    return b'{"0":0,' + names.encode() + b"}"


def test_a_name_given_twice_among_many_costs_no_more_than_reading_them() -> None:
    """A reply of 256 KB (the most on Service Bus) that repeats one name: the host's event loop stands still."""
    body = _many_names(250_000)
    begun = time.process_time()
    with pytest.raises(NotJsonError):
        parse_json(body)
    assert time.process_time() - begun < 1


def test_one_order_body_with_a_name_twice_is_refused_at_once() -> None:
    """48 KiB, the most of one order: it takes a thousand times the time of a good one."""
    body = _many_names(48 * 1024)
    begun = time.process_time()
    with pytest.raises(ProblemError):
        parse_body(body)
    assert time.process_time() - begun < 0.1


def test_one_batch_body_with_a_name_twice_is_refused_at_once() -> None:
    """A thirtieth of what a batch may hold: the time grows with the square (a tenth took more than 95 s)."""
    body = _many_names(_BATCH_LIMIT.most_bytes // 30)
    begun = time.process_time()
    with pytest.raises(ProblemError):
        parse_body(body, _BATCH_LIMIT.most_depth)
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    "result",
    ['{"amount": 1' + "0" * 5_000 + "}", '{"deep": ' + "[" * 11_000 + "]" * 11_000 + "}"],
    ids=["a number of 5,001 digits", "nested 11,000 levels"],
)
async def test_done_with_a_number_of_many_digits_is_known_done(result: str) -> None:
    """Issue, point 3: a `completed` reply of the right token whose result can't be recorded is known done.

    It is JSON; Python refuses to make an int of it, so nothing at all of the reply is read: not its task either.
    """
    bench = Bench()
    await _take(bench, json.dumps(RIGHT)[:-1] + f', "result": {result}}}')
    assert bench.rejections.about[0].task == TASK
    assert bench.state is StepState.UNRECORDED
    assert bench.store.record(TASK).task.process_state is ProcessState.ERROR


def test_a_number_too_large_is_refused_however_it_is_written() -> None:
    """`1e400` is refused, because other languages read it as Infinity; the same number in digits is taken."""
    written = json.dumps(RIGHT)[:-1] + ', "result": {"amount": %s}}'
    with pytest.raises(NotAMessageError):
        read_reply((written % "1e400").encode())
    with pytest.raises(NotAMessageError):
        read_reply((written % ("1" + "0" * 400)).encode())


async def test_task_id_with_a_line_end_is_nobodys_task(caplog: pytest.LogCaptureFixture) -> None:
    """`$` matches before a line end: what comes after it is a row key and a log line of its own."""
    bench = Bench()
    wrong: dict[str, Any] = RIGHT | {"task_id": f"{TASK}\n", "step": "pick"}
    await _take(bench, json.dumps(wrong))
    assert bench.rejections.about[0].task in {None, TASK}
    assert all("\n" not in message for message in caplog.messages)


async def test_token_as_the_message_id_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """`docs/agents.md`: the message id of a reply is "any"; the token is unique for each request."""
    bench = Bench()
    await _take(bench, json.dumps(RIGHT | {"more": 1}), TOKEN)
    assert TOKEN not in caplog.text
    assert [each.message_id for each in bench.rejections.all] != [TOKEN]


@pytest.mark.parametrize("token", ["t" * 100, 'a"quoted"\\token-of-it', "token\twith a tab in it", "tok\u200ben-with-no-width"])
async def test_token_as_a_name_is_not_told(token: str, caplog: pytest.LogCaptureFixture) -> None:
    """However it is shown: cut, escaped or cleaned."""
    bench = Bench()
    await _take(bench, json.dumps(RIGHT | {"token": token, token: 1}))
    told = caplog.text + str(bench.refusals.alerts) + str(bench.rejections.all)
    assert token[:30] not in told
    assert token.replace("\t", " ").replace("\u200b", " ") not in told


async def test_token_is_not_told_by_a_reply_without_one(caplog: pytest.LogCaptureFixture) -> None:
    """It was misplaced: as the name of a field, or in a reply that is no object."""
    bench = Bench()
    without = {name: value for name, value in RIGHT.items() if name != "token"}
    await _take(bench, json.dumps(without | {TOKEN: 1}))
    assert TOKEN not in caplog.text
