"""Shared by both APIs: callers, request bodies, problem documents, pages. Start with `access.py`."""
