"""Messages on Service Bus and Event Hubs: formats, senders, handling. Start with `message_format.py`."""
