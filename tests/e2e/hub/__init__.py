"""Orders through the event hub, on real processes."""
