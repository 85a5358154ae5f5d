"""Ingestion: an event of the hub becomes a task, in batches; nothing else is done here."""
