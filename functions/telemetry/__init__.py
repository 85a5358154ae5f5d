"""Telemetry: spans, metrics and log fields; exported where the settings say so, and else next to free."""
