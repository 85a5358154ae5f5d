"""The workflow `deliveries` end to end, with faults of services and hosts and with lost responses."""
