"""What a check finds, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckVerdict(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "FAILED"
    #: The kit could not look, and says what it needs for that.
    NOT_SEEN = "not seen"
    #: A command that the kit was given failed, so that it could not look.
    HINDERED = "hindered"


class CheckFailedError(Exception):
    """The Agent breaks a rule; the text says how it showed."""


class NotSeenError(Exception):
    """The kit can't look at this; the text says why."""


class CommandFailedError(Exception):
    """A command that the kit was given failed; the text says which, and how."""


class BrokerGoneError(Exception):
    """The queues can't be reached any more; the text says why."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The verdict of one check; `words` are its promise, or what broke it."""

    check: str
    verdict: CheckVerdict
    words: str
