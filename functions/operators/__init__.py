"""The operators' API: task lists, task pages, actions. Start with `operator_routes.py`."""
