"""Tests of starting, watching and stopping the parts of the local platform."""
