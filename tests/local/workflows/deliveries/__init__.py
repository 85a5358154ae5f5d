"""The demo and the workflow `deliveries`."""
