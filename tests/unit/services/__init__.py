"""Sample services."""
