"""The metrics that are counted where something happens: their names and units. `docs/telemetry.md` lists all.

Those that are read when they are exported are `breakers` and `overdue`.
"""

from __future__ import annotations

from opentelemetry.metrics import get_meter

METER = get_meter("functions")

#: Bounds of histograms, in seconds: from a remote call to an order that waits for hours.
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)

SUBMITTED = METER.create_counter("tasks.submitted", "{task}", "Orders recorded as tasks")
PROCESSED = METER.create_counter("tasks.processed", "{task}", "Tasks of which every step is done")
COMPENSATED = METER.create_counter("tasks.compensated", "{task}", "Tasks of which everything is undone")
ERRORS = METER.create_counter("tasks.errors", "{task}", "Tasks that came to wait for an operator")
RECOVERIES = METER.create_counter("tasks.recoveries", "{recovery}", "Tasks given to the next epoch")
TASK_DURATION = METER.create_histogram(
    "task.duration", "s", "From submission to the end", explicit_bucket_boundaries_advisory=_SECONDS
)
STEP_DURATION = METER.create_histogram(
    "step.duration", "s", "From dispatch to the outcome", explicit_bucket_boundaries_advisory=_SECONDS
)
RETRIES = METER.create_counter("remote.retries", "{call}", "Calls of remote services made again")
SWEEP_DURATION = METER.create_histogram(
    "sweep.duration", "s", "The Supervisor's sweeps", explicit_bucket_boundaries_advisory=_SECONDS
)
