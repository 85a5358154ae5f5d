"""The workflows: a folder for each one, and `registry.py`, which lists them."""
