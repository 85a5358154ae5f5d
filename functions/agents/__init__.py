"""Agents: each wraps one remote service; the runner does for all of them what the pattern asks."""
