"""Requests that the engine refuses, each with the HTTP status that the Durable extension answers."""

from __future__ import annotations

from typing import ClassVar


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
