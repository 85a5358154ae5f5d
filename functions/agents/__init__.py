"""The Agents' side: remote calls, retries, circuit breakers, the REST Agent, Agents behind queues."""
