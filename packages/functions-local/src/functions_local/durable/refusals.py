"""What the engine refuses: requests, each with the extension's HTTP status, and payloads that are too large.

Durable history is for ids and outcomes, not for documents.
"""

from __future__ import annotations

import json
import logging
from typing import ClassVar

logger = logging.getLogger(__name__)

#: Bytes from which on a payload is worth a warning; Azure Storage moves those above 60 KB to blobs.
WARNING_SIZE = 48 << 10
#: Bytes that no payload may exceed; the Durable Task Scheduler's messages end there.
MAXIMUM_SIZE = 1 << 20
#: Bytes in UTF-16 that a custom status may have (limit of the Durable extension).
MAXIMUM_CUSTOM_STATUS = 16 << 10


class RefusedError(Exception):
    """A request that can't be carried out; the text says why."""

    status: ClassVar[int]


class BadRequestError(RefusedError):
    """Unknown orchestrator, illegal instance id, payload that is not JSON or too large, bad filter."""

    status = 400


class UnknownInstanceError(RefusedError):
    """There is no instance of that id."""

    status = 404

    def __init__(self, instance: str) -> None:
        super().__init__(f"No instance with ID '{instance}' was found.")


class AlreadyExistsError(RefusedError):
    """An instance of that id is alive."""

    status = 409


class GoneError(RefusedError):
    """The instance is finished, so nothing can be sent to it."""

    status = 410


class NotFinishedError(RefusedError):
    """The instance is not finished, so it can't be purged."""

    status = 412


class NotBuiltError(RefusedError):
    """The request belongs to a feature that the local host does not have."""

    status = 501


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
