"""The definition of a workflow: its steps, options and checks. Start with `workflow_definition.py`."""
