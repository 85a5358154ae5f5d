"""An app for the measurement of the Durable engine alone."""
