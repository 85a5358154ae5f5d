"""Refused requests, each with the extension's HTTP status, and payloads that are too large.

Durable history is for ids and outcomes, not for documents.
"""

from __future__ import annotations

import json
import logging
from typing import ClassVar

_log = logging.getLogger(__name__)

#: Bytes above which a payload is logged as a warning; Azure Storage moves those above 60 KB to blobs.
WARNING_SIZE = 48 << 10
#: The largest payload in bytes: the limit of messages of the Durable Task Scheduler.
MAXIMUM_SIZE = 1 << 20
#: The largest custom status in bytes of UTF-16: the Durable extension's limit.
MAXIMUM_CUSTOM_STATUS = 16 << 10


class RefusedError(Exception):
    """A request that cannot be carried out; the text names the cause."""

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
    """An instance of that id is live."""

    status = 409


class GoneError(RefusedError):
    """The instance is finished, so nothing can be sent to it."""

    status = 410


class NotFinishedError(RefusedError):
    """The instance is not finished, so it cannot be purged."""

    status = 412


class UnsupportedRequestError(RefusedError):
    """The request belongs to a feature that the local host does not support."""

    status = 501


class PayloadTooLargeError(Exception):
    """A payload is larger than any storage provider accepts."""


def check_size(text: str | None, what: str) -> None:
    """Warn of a large payload; `what` names it. Raises PayloadTooLargeError above the maximum."""
    size = len(text) if text is not None else 0
    if size > MAXIMUM_SIZE:
        raise PayloadTooLargeError(f"{what} has {size} bytes; at most {MAXIMUM_SIZE} are allowed")
    if size > WARNING_SIZE:
        _log.warning("%s has %d bytes; keep payloads in Durable history below %d", what, size, WARNING_SIZE)


def check_custom_status(status: object) -> None:
    """Check a custom status. Raises PayloadTooLargeError."""
    size = len(json.dumps(status, ensure_ascii=False).encode("utf-16-le", "surrogatepass"))
    if size > MAXIMUM_CUSTOM_STATUS:
        raise PayloadTooLargeError(
            f"The custom status has {size} bytes in UTF-16; at most {MAXIMUM_CUSTOM_STATUS} are allowed"
        )
