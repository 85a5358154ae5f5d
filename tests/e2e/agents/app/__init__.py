"""The Agent `payment`, alone."""
