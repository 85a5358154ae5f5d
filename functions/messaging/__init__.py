"""Service Bus and Event Hubs: message formats, senders, receivers. Start with `message_format.py`."""
