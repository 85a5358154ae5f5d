"""The Agents: remote calls, retries, gates, and Agents behind queues. Start with `agent_call.py`."""
