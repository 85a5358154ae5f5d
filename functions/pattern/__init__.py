"""The core of Scheduler Agent Supervisor: pure Python, no I/O, no clock, nothing of Azure."""
