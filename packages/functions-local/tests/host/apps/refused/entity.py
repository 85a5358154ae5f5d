"""A Durable entity."""

from __future__ import annotations

import azure.durable_functions as df

app = df.Blueprint()


@app.entity_trigger(context_name="context")
def counter(context: df.DurableEntityContext) -> None:
    """Count."""
    context.set_state(1)
