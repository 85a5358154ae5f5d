"""The record of a task and its rules: pure functions, no I/O, no clock. Start with `record.py`."""
