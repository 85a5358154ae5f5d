"""The `$cbs` node: takes every token.

The local broker has no secrets to guard and serves this machine only.
"""

from __future__ import annotations

from .encoding import int32
from .links import Delivery, IncomingLink
from .requests import Request, answer_link, answer_message
from .values import Encodable

CBS_ADDRESS = "$cbs"
_ACCEPTED = 202


class CbsRequestLink(IncomingLink):
    """Takes put-token requests."""

    def take(self, delivery: Delivery) -> None:
        """Accept a token."""
        request = Request.read(delivery.payload)
        self.accept(delivery)
        link = answer_link(self.channel, CBS_ADDRESS, request.reply_to)
        if link is not None:
            properties: dict[str, Encodable] = {
                "status-code": int32(_ACCEPTED),
                "status-description": "Accepted",
            }
            link.answer(answer_message(request, properties, None))
