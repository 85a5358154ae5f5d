"""What is sent once more has an id that the queue has not seen, and that says how often."""

from __future__ import annotations

import pytest

from functions.pattern.message_ids import MessageId, resent_as


@pytest.mark.parametrize(
    "foreign", ["", "m-1", "m.a", "m.p.a", "m.a-3", "m.a1.", "m.a1x", "m.p100", "a1", "m.r1", "x\n.y"]
)
def test_foreign_id_counts_for_nothing(foreign: str) -> None:
    """Whoever sends may call a message what he likes."""
    assert MessageId.read(foreign) == MessageId(foreign)


def test_counts_are_read_again() -> None:
    """A message that waits anew has not failed yet."""
    once = MessageId.read(str(MessageId("m").once_put_back().once_failed().once_failed()))
    assert once == MessageId("m", put_back=1, attempts=2)
    assert str(once.once_put_back()) == "m.p2"


@pytest.mark.parametrize("known_as", ["m", "m.p1", "m.a9", "m.p55.a3", "m.r1", "x" * 128, f"{'x' * 119}.a1"])
def test_what_is_sent_again_begins_anew_under_ids_of_its_own(known_as: str) -> None:
    """The queue would drop it under any id of its last ten minutes; 128 characters are an id's most."""
    resent = {resent_as(known_as, times) for times in (1, 2, 99)}
    begun = {MessageId.read(each) for each in resent | {resent_as(resent_as(known_as, 1), 1)}}
    assert {(each.put_back, each.attempts) for each in begun} == {(0, 0)}
    names = [str(name) for each in begun for name in (each, each.once_put_back(), each.once_failed())]
    assert len({known_as, *names}) == 13
    assert max(len(str(MessageId(each.first, 55, 10))) for each in begun) <= 128
