"""The state store: Azure Table Storage."""
