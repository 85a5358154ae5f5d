"""The state store on Table Storage: rows, transactions, an inbox for each task; open `task_storage.py`."""
