"""Steps whose Agents are behind queues, with the test as the Agent, and a clock that the test advances."""
