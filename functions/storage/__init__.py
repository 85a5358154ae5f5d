"""The state store on Table Storage: rows, transactions, one inbox per task. Start with `task_storage.py`."""
