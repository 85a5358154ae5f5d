"""Measures the door alone: what takes orders from callers, until they are durable on their queue."""
