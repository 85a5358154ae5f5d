"""The settings of the new application: those of `settings.py`, with the changes of the switch."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import NoDecode

from functions import settings as old_settings
from functions.core.plan import output_of
from functions.core.record import RuleSettings
from functions.core.step_definition import Retry
from functions.core.workflow_definition import WorkflowRegistry
from functions.pattern.errors import SettingsError
from functions.supervisor.intake_measurement import IntakeBounds

#: 80 % of the size of the queue `submissions`, which is 1 GiB.
_MOST_INTAKE_BYTES = 1024**3 * 8 // 10
#: The longest time that a circuit stays open, unless BREAKER_OPEN_SECONDS is longer.
_LONGEST_OPENING = timedelta(seconds=30)


def _retry_of(text: object) -> object:
    """Return the waits of a text such as `first=0.2,longest=10`."""
    read = old_settings.pairs(text)
    if not isinstance(read, dict):
        return read
    if not read.keys() <= {"first", "factor", "longest"}:
        raise ValueError("its parts are first, factor and longest")
    return Retry(**{name: float(value) for name, value in read.items()})


class Settings(old_settings.Settings):
    """The application's settings; times are in seconds.

    At the switch these are removed: `agents_pick_up_seconds`, `function_timeout_seconds` (replaced by
    `run_seconds`), `crowd_tasks`, `crowd_per_minute`, `crowd_hours` and `intake_most_waiting`.
    """

    run_seconds: float = Field(240, ge=30, le=86_400)
    """the seconds of one run, at least 30 fewer than host.json's functionTimeout"""
    defer_hours: float = Field(6, gt=0, le=168)
    """the hours for which a step waits behind a closed gate before it counts as overdue"""
    retry: Annotated[Retry, NoDecode, BeforeValidator(_retry_of)] = Retry()  # type: ignore[assignment]
    """the waits between attempts of a call, such as first=0.2,factor=2,longest=10"""

    @property
    def retention(self) -> timedelta:
        """Return the time for which finished tasks are kept."""
        return timedelta(days=self.retention_days)

    def rules(self, registry: WorkflowRegistry) -> RuleSettings:
        """Return the settings of the rules."""
        first_opening = timedelta(seconds=self.breaker_open_seconds)
        return RuleSettings(
            start_within=timedelta(seconds=self.pick_up_seconds),
            skew=timedelta(seconds=self.skew_seconds),
            threshold=self.supervisor_threshold,
            extended_waits=tuple(timedelta(seconds=wait) for wait in self.extended_waits),
            first_deferral=first_opening,
            longest_opening=max(_LONGEST_OPENING, first_opening),
            open_after=self.breaker_failures,
            defer_for=timedelta(hours=self.defer_hours),
            output=partial(output_of, registry=registry),
        )

    @property
    def intake_bounds(self) -> IntakeBounds:
        """Return the backlog of submissions above which new orders are rejected."""
        return IntakeBounds(timedelta(seconds=self.intake_most_seconds), _MOST_INTAKE_BYTES)


def load_settings() -> Settings:
    """Read the settings from the environment. Raises `SettingsError` for the first that is wrong."""
    try:
        settings = Settings()
    except ValidationError as error:
        name, fault = old_settings.faults_of(error)[0]
        meanings = {field.validation_alias: field.description for field in Settings.model_fields.values()}
        raise SettingsError(f"setting {name} {fault}: set it to {meanings.get(name)}") from None
    old_settings.load_settings()  # which checks settings against each other
    return settings
