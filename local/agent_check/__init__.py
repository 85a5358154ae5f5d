"""Proves that an Agent, in any language, keeps the rules of `docs/agents.md`: the kit plays the Scheduler."""
