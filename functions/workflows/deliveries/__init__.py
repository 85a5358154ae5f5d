"""Drone deliveries: five remote services, of which three can be undone."""
