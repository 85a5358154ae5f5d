"""Service Bus and Event Hubs: senders and clients."""
