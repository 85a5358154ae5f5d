"""Tests of the messages of the application."""
