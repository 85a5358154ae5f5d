"""The Agents: remote calls, retries, and Agents behind queues. Start with `agent_call.py`."""
