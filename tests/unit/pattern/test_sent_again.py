"""What is sent once more has an id that its queue has not seen, and carries how often."""

from __future__ import annotations

from typing import Any

import pytest

from functions.pattern.rejected import Content, Labels
from functions.pattern.sent_again import Counts, resent


def _content(body: bytes = b"{}", **properties: Any) -> Content:
    return Content(body, Labels(subject="line", correlation_id="c-1", properties=properties))


def test_message_carries_its_counts_and_all_that_it_had() -> None:
    """One that waits anew has not failed yet."""
    content = _content(tenant="blue")
    assert Counts.of(content) == Counts()
    for counts in (Counts(2, 1), Counts(2, 1).once_failed(), Counts(2, 1).once_put_back()):
        _, content = counts.sent_with("m-1", content)
        assert Counts.of(content) == counts
    assert counts == Counts(put_back=3, attempts=0)
    assert resent("m-1", content, 1)[1] == _content(tenant="blue")


@pytest.mark.parametrize("count", ["9", -1, True, 1.0, None])
def test_what_is_no_count_counts_for_nothing(count: Any) -> None:
    """Whoever sends may write what he likes."""
    assert Counts.of(_content(**{"counted.attempts": count})) == Counts()


def test_properties_of_a_sender_are_no_counts() -> None:
    """Others count attempts, too."""
    assert Counts.of(_content(attempts=9, put_back=55)) == Counts()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("x" * 127 + "1", b"{}"), ("x" * 127 + "2", b"{}")),
        (("", b"1"), ("", b"2")),
        (("m-1.a1", b"{}"), ("m-1", b"{}")),
    ],
    ids=["long", "none", "alike"],
)
def test_two_messages_stay_two(one: tuple[str, bytes], other: tuple[str, bytes]) -> None:
    """Their queue would drop the second."""
    names = {
        Counts(put_back, attempts).sent_with(message_id, _content(body))[0]
        for message_id, body in (one, other)
        for put_back, attempts in ((0, 1), (1, 0), (1, 1))
    }
    names |= {
        resent(known_as, _content(body), times)[0] for known_as, body in (one, other) for times in (1, 2)
    }
    assert len(names | {one[0], other[0]}) == 12 - (one[0] == other[0])


@pytest.mark.parametrize("message_id", ["", "m-1", "x" * 128, "\U0001f600" * 64])
def test_each_time_has_an_id_of_its_own_that_service_bus_takes(message_id: str) -> None:
    """However often it is sent; its ids hold at most 128 UTF-16 code units."""
    counts, content, names = Counts(), _content(), [message_id]
    for _ in range(60):
        counts = counts.once_failed() if counts.attempts < 2 else counts.once_put_back()
        name, content = counts.sent_with(names[-1], content)
        names.append(name)
    assert len(set(names)) == 61
    assert max(len(each.encode("utf-16-le")) // 2 for each in names) <= 128
    assert all(each.startswith(message_id[:7]) for each in names)


def test_what_is_sent_twice_after_a_crash_has_one_id() -> None:
    """So its queue drops the second."""
    assert Counts(1, 2).sent_with("m-1", _content()) == Counts(1, 2).sent_with("m-1", _content())
