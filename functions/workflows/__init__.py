"""The workflows: one folder each, and the registry that names them."""
