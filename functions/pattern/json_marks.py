"""What JSON is made of, by its bytes alone: what it would cost to parse is known before it is parsed."""

from __future__ import annotations

from itertools import accumulate

#: The bytes that are neither a mark nor the end of a text.
_NEITHER = bytes({*range(256)} - {*b'"[]{},'})

#: How much deeper each byte leads.
_STEPS = tuple((each in b"[{") - (each in b"]}") for each in range(256))


def marks_of(body: bytes, most: int) -> bytes:
    """Give the brackets and commas outside of texts, up to one more than `most`.

    Of what is no JSON, these are the marks before its first fault at least.
    """
    if b"\\" in body:
        # Of a row of them, pairs stand for themselves; one that is left escapes what follows.
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two texts at most have no mark between them, and each has two ends: no more is looked at.
    parts = body.translate(None, _NEITHER).split(b'"', 4 * most + 3)
    return b"".join(parts[::2])[: most + 1]


def depth_of(marks: bytes) -> int:
    """Tell how deep objects and lists lie in each other."""
    return max(accumulate(map(_STEPS.__getitem__, marks)), default=0)
