"""Spans, metrics and log fields. Start with `instruments.py`; without an exporter they cost little."""
