"""The operators' console: one page with its scripts and styles, which asks the operators' interface."""
