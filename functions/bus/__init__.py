"""Service Bus: what is sent, and how."""
