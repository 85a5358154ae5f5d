"""The faults of a run: `lanes` injects them in their order, `proxy` is where partitions take place."""
