"""A timer, which also runs at the start, and a queue out."""

from __future__ import annotations

import azure.functions as func

app = func.Blueprint()


@app.timer_trigger(schedule="0 0 0 1 1 *", arg_name="timer", run_on_startup=True)
@app.service_bus_queue_output(arg_name="$return", connection="Bus", queue_name="ticks")
def tick(timer: func.TimerRequest) -> str:
    """Send whether the timer is late."""
    return f"tick, past due: {timer.past_due}"
