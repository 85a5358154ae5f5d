"""Event Hubs: what is sent to the hub, and how far its readers are."""
