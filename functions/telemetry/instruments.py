"""All metrics: their names and units, as `docs/telemetry.md` lists them."""

from __future__ import annotations

from opentelemetry.metrics import get_meter

METER = get_meter("functions")

#: Bounds of histograms, in seconds: from a remote call to an order that waits for hours.
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)

SUBMITTED = METER.create_counter("tasks.submitted", "{task}", "Orders recorded as tasks")
PROCESSED = METER.create_counter("tasks.processed", "{task}", "Tasks whose steps are all done")
COMPENSATED = METER.create_counter("tasks.compensated", "{task}", "Tasks whose steps are all undone")
ERRORS = METER.create_counter("tasks.errors", "{task}", "Tasks that entered Error")
RECOVERIES = METER.create_counter("tasks.recoveries", "{recovery}", "Recoveries of overdue tasks")
TASK_DURATION = METER.create_histogram(
    "task.duration", "s", "From submission to the end", explicit_bucket_boundaries_advisory=_SECONDS
)
STEP_DURATION = METER.create_histogram(
    "step.duration", "s", "From a start to its outcome", explicit_bucket_boundaries_advisory=_SECONDS
)
RETRIES = METER.create_counter("remote.retries", "{call}", "Retried calls of remote services")
FORGED_REPLIES = METER.create_counter(
    "replies.wrong_token", "{reply}", "Replies with another start id than the current request's"
)
EVENTS = METER.create_counter("events.taken", "{event}", "Events of the hub that were handled")
EVENT_AGE = METER.create_histogram(
    "events.age", "s", "Age of the oldest event of a batch", explicit_bucket_boundaries_advisory=_SECONDS
)
