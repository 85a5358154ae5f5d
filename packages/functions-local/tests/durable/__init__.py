"""Tests of the Durable engine, against the unmodified azure-functions-durable SDK."""
