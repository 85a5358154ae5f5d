"""The Supervisor: requests the recovery of overdue tasks. Start with `task_sweep.py`."""
