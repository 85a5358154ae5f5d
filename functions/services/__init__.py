"""The sample services of the workflows, not for production. Start with `service.py`."""
