"""Rejected and dead-lettered messages: looked at, sent again, discarded."""
