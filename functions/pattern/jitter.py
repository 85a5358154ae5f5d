"""Waits that differ, so that what failed together does not come back together."""

from __future__ import annotations

import hashlib
from datetime import timedelta

#: A wait is longer by up to this part of it.
_MOST = 0.25
_DIGEST_BYTES = 4


def lengthened(wait: timedelta, of: str) -> timedelta:
    """Lengthen a wait by up to a quarter: by as much each time for one text, by other amounts for others.

    Source: Amazon Builders' Library, "Timeouts, retries and backoff with jitter".
    """
    digest = hashlib.sha256(of.encode()).digest()[:_DIGEST_BYTES]
    return wait * (1 + _MOST * int.from_bytes(digest) / float(256**_DIGEST_BYTES))
