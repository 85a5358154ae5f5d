"""The workflows: a folder each, and the registry that names them."""
