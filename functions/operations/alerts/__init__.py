"""What comes to operators unasked: alerts, dead letters, and queues on which messages wait too long."""
