"""The operators' API: lists and pages of tasks, and actions. `operator_routes.py` joins all of its routes."""
