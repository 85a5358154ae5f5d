"""Tests of spans, metrics and log records, as an exporter would get them."""
