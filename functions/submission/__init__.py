"""Submission: a message of the queue becomes a task, in one transaction."""
