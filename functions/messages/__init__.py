"""What the functions that take messages off queues share: reading them, and trying again."""
