"""A message that an operator sends again has its attempts again."""

from __future__ import annotations

from typing import Any

from tests.unit.messages.test_batch import Desk, received


async def test_resent_message_has_its_attempts_again() -> None:
    """It was given up after ten; whoever sends it again has mended what was wrong, and one hiccup is one hiccup."""
    desk = Desk({b"bad": ZeroDivisionError()})
    message_id, properties = "m-7", dict[str, Any]()
    for _ in range(9):
        await desk.take(received(), received(b"bad", message_id, properties=properties))
        _, message_id, content, _ = desk.postbox.sent[-1]
        properties = dict(content.labels.properties)
    await desk.take(received(), received(b"bad", message_id, properties=properties))
    assert len(desk.given_up) == 1  # what is kept of it, and sent again, has these properties
    await desk.take(received(), received(b"bad", f"{message_id}.r1", properties=properties))
    assert len(desk.given_up) == 1
