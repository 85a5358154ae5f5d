"""Test doubles: clock, store, queues, workflows."""
