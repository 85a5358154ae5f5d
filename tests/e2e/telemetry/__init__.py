"""The application's telemetry, end to end: spans, metrics and log records at an OTLP endpoint."""
