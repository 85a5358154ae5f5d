"""The record of a task and its rules, as pure functions without I/O or clock; open `record.py` first."""
