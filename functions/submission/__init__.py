"""Submission: a message of the queue or an event becomes a task. Start with `admission.py`."""
