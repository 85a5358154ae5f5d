"""Messages on Service Bus: those of Agents behind queues (`agent_messages.py`), and the Scheduler's own."""
