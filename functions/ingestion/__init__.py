"""Orders from an event hub, in batches. Start with `batch.py`."""
