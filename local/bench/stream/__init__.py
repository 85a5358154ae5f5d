"""Measures the event hub as a way in, beside the queue, and proves that each order is admitted once."""
