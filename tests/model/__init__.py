"""Exhaustive search of the pure core: every state that a few of each can reach, in every order.

Two runs of Schedulers, two Supervisors, an operator, a remote service, duplicates, crashes and one late call.
"""
