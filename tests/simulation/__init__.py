"""The whole application in one process, under virtual time, with services and faults that a seed decides.

What runs is the application itself: its functions, as `functions/wiring.py` joins them. Simulated are Table
Storage at azure-core's transport, Service Bus at its client, Durable Functions, HTTP at the session, clocks
and randomness.
"""
