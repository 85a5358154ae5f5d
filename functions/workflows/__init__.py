"""The workflows, a folder each. Start with `registry.py`."""
