"""Errors of the core. Retry decisions are made on their type, never on their text."""

from __future__ import annotations

from functions.pattern.identity import TaskId
from functions.pattern.states import FaultKind


class PatternError(Exception):
    """Something went against the pattern's rules."""


class SettingsError(Exception):
    """A setting is missing or wrong; the text is one line that names it and the fix."""


class DefinitionError(PatternError):
    """A workflow's definition can't work; the text names the workflow, the step and the fix."""


class PayloadTooLargeError(PatternError):
    """An order's payload, as it would be stored, is larger than a row may hold."""


class UnfitOrderError(PatternError):
    """An order has more items, or texts to find it by, than a task can have; or its items can't be told."""


class UnwritableError(PatternError):
    """A task's rows can't be written: the store refuses them, and would again."""

    def __init__(self, task: TaskId, code: str) -> None:
        """Keep `code`, the store's reason, which names no value."""
        super().__init__(f"the rows of task {task} can't be written: {code}")
        self.task = task
        self.code = code


class UnreadableError(PatternError, ValueError):
    """A row can't be read, and could not be read again: it is damaged, or a later version wrote it."""

    def __init__(self, key: str, reason: str) -> None:
        """Keep the row's key, and why it can't be read."""
        super().__init__(f"row {key} can't be read: {reason}")
        self.key = key
        self.reason = reason


class IllegalTransitionError(PatternError):
    """A record was asked to go where no rule leads; it is a defect, and is never written."""


class TransientError(PatternError):
    """A remote service failed in a way that may pass: worth another try within complete-by."""

    def __init__(
        self, message: str, *, retry_after: float | None = None, fault: FaultKind | None = None
    ) -> None:
        """Keep `retry_after`, the seconds after which the service asked to be called again, and the fault."""
        super().__init__(message)
        self.retry_after = retry_after
        self.fault = fault


class NotSentError(TransientError):
    """No request has left for the remote service: to call it again repeats nothing."""


class PermanentError(PatternError):
    """A remote service refused, and would refuse again: no retry can help."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        """Keep `status`, the HTTP status of the refusal, where there was one."""
        super().__init__(message)
        self.status = status


class UnusableAnswerError(PermanentError):
    """A remote service answered that it did it, but the answer can't be used as the step's result."""


def as_error(result: BaseException) -> Exception:
    """Give what was raised as an error: work that was cancelled is not done either."""
    if isinstance(result, Exception):
        return result
    return TransientError(f"interrupted: {type(result).__name__}")
