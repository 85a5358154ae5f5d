"""An app for the host that holds nothing but the engine's work."""
