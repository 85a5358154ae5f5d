"""Messages off queues."""
