"""The state store on Table Storage: tasks, gates, rows, transactions. Start with `task_storage.py`."""
