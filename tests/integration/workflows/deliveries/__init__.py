"""Tests of the workflow `deliveries`."""
