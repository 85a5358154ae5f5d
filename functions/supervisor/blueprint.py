"""The Supervisor's timers."""

from __future__ import annotations

import logging

import azure.durable_functions as df
import azure.functions as func

from functions.supervisor.full_sweep import FullSweep
from functions.supervisor.parts import SupervisorParts
from functions.supervisor.sweep import Sweep

_log = logging.getLogger(__name__)

#: Every day at three (UTC).
_DAILY = "0 0 3 * * *"


def supervisor_blueprint(parts: SupervisorParts, schedule: str) -> df.Blueprint:
    """Register the timers, which never raise; `schedule` (NCRONTAB) says when to sweep."""
    blueprint = df.Blueprint()

    @blueprint.function_name("supervisor")
    @blueprint.timer_trigger(arg_name="timer", schedule=schedule)
    async def supervisor(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host's signature
        await report_sweep(parts.sweep)

    @blueprint.function_name("full_sweep")
    @blueprint.timer_trigger(arg_name="timer", schedule=_DAILY)
    async def full(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host's signature
        await report_full_sweep(parts.full_sweep)

    return blueprint


async def report_sweep(sweep: Sweep) -> None:
    """Sweep, and log one line, or that it failed. Alert rules take the line for the sign of life."""
    try:
        report = await sweep.run()
    except Exception:  # noqa: BLE001 - a timer never raises; the next sweep tries again
        _log.exception("supervisor sweep failed")
        return
    needs_attention = report.failures or report.unfinished or report.damage
    _log.log(logging.WARNING if needs_attention else logging.INFO, "supervisor sweep %s", report)


async def report_full_sweep(full_sweep: FullSweep) -> None:
    """Sweep everything, and log one line: a warning when something had to be fixed."""
    try:
        report = await full_sweep.run()
    except Exception:  # noqa: BLE001 - a timer never raises; the next sweep tries again
        _log.exception("full sweep failed")
        return
    fixed = report.created or report.deleted
    needs_attention = fixed or report.failures or report.unfinished or report.damage
    _log.log(logging.WARNING if needs_attention else logging.INFO, "full sweep %s", report)
