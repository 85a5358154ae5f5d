"""A run: its command, its platform, its course, and what it prints."""
