"""What operators are shown of content from outside, as text: bounded, and harmless in a page."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, Field

#: Characters: an order's payload is shown whole.
_MOST_SHOWN = 64 * 1024
_BREAKS = "\n\r\t"


class ShownText(BaseModel):
    """A text, and whether there is `more` of it; null where it is not shown, with the reason in `why`."""

    text: Annotated[str | None, Field(examples=['{\n  "amount": "4.90",\n  "card": "(hidden)"\n}'])]
    more: bool = False
    why: str | None = None


def text_of(text: str) -> ShownText:
    """Show a text without what can't be printed, up to a bound."""
    shown = "".join(each if each.isprintable() or each in _BREAKS else "�" for each in text[:_MOST_SHOWN])
    return ShownText(text=shown, more=len(text) > _MOST_SHOWN)


def json_of(content: Any) -> ShownText:
    """Show JSON, a member to a line."""
    return text_of(json.dumps(content, ensure_ascii=False, indent=2))


def nothing_of(why: str) -> ShownText:
    """Say why something is not shown."""
    return ShownText(text=None, why=why)
