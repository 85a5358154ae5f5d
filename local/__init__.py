"""Runs this application on one machine, without Azure and without Docker. Never deployed."""
