"""Sizes from which on a payload is a mistake: Durable history is for ids and outcomes, not for documents."""

from __future__ import annotations

import json
import logging

logger = logging.getLogger(__name__)

#: Bytes from which on a payload is worth a warning; Azure Storage moves those above 60 KB to blobs.
WARNING_SIZE = 48 << 10
#: Bytes that no payload may exceed; the Durable Task Scheduler's messages end there.
MAXIMUM_SIZE = 1 << 20
#: Bytes in UTF-16 that a custom status may have (limit of the Durable extension).
MAXIMUM_CUSTOM_STATUS = 16 << 10


class PayloadTooLargeError(Exception):
    """A payload is larger than any back end takes."""


def check_size(text: str | None, what: str) -> None:
    """Warn of a large payload; `what` names it. Raises PayloadTooLargeError above the maximum."""
    size = len(text) if text is not None else 0
    if size > MAXIMUM_SIZE:
        raise PayloadTooLargeError(f"{what} has {size} bytes; at most {MAXIMUM_SIZE} are allowed")
    if size > WARNING_SIZE:
        logger.warning(
            "%s has %d bytes; keep what crosses Durable history below %d", what, size, WARNING_SIZE
        )


def check_custom_status(status: object) -> None:
    """Check a custom status. Raises PayloadTooLargeError."""
    size = len(json.dumps(status, ensure_ascii=False).encode("utf-16-le", "surrogatepass"))
    if size > MAXIMUM_CUSTOM_STATUS:
        raise PayloadTooLargeError(
            f"The custom status has {size} bytes in UTF-16; at most {MAXIMUM_CUSTOM_STATUS} are allowed"
        )
