"""The operators' API: lists and pages of tasks, and actions. `task_routes.py` has all of its routes."""
