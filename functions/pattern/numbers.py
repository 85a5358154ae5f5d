"""Numbers that callers write as text: digits of ASCII, without what Python alone takes for a part of them."""

from __future__ import annotations

import re

from pydantic import BeforeValidator

#: Nothing is given back to be matched in another way: that would take the square of the text's length.
_NUMBER = re.compile(r"[+-]?+(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?+\d++)?+", re.ASCII)


def _plain(given: object) -> object:
    if isinstance(given, str) and not _NUMBER.fullmatch(given):
        raise ValueError("a number in digits, such as 4.90")
    return given


#: Annotates a number that may come as text: `1_0`, digits of other scripts and blanks are refused.
PLAIN_NUMBER = BeforeValidator(_plain)
