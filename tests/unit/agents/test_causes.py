"""What a service said when it refused, and what went wrong before the time was over, is told to operators."""

from __future__ import annotations

import asyncio

import pytest

from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.texts import excerpt
from tests.fakes.remote_service import Answer, RemoteServiceFake
from tests.unit.agents.test_remote import _put
from tests.unit.conftest import MakeRemote


async def test_refusal_says_what_the_service_said(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """The text is not changed."""
    service.answers = [Answer(422, (b'{"detail":\n "card 4111 1111 1111 1111 is\x00blocked"}',))]
    with pytest.raises(PermanentError) as refusal:
        await _put(make_remote())
    assert (
        str(refusal.value) == 'payment answered 422: {"detail":\n "card 4111 1111 1111 1111 is\x00blocked"}'
    )


async def test_refusal_without_a_word_is_its_status(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """There is nothing to add."""
    service.answers = [Answer(404, (b"",))]
    with pytest.raises(PermanentError) as refusal:
        await _put(make_remote())
    assert str(refusal.value) == "payment answered 404"


@pytest.mark.parametrize("body", [b"x" * 30_000, "文".encode() * 9_000, b"\xff" * 30_000])
def test_what_a_service_said_is_bounded(body: bytes) -> None:
    """In characters, in whichever script; what may be of a character that was cut is one."""
    assert len(excerpt(body)) == 500
    assert excerpt(body).endswith("…")


async def test_time_that_is_over_says_the_last_fault(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """Not only that it is over."""
    service.answers = [Answer(503), Answer(hangs=True)]
    with pytest.raises(TransientError) as late:
        await asyncio.wait_for(_put(make_remote(), within=2), 30)
    assert str(late.value) == "payment did not do it by complete-by (payment answered 503)"
