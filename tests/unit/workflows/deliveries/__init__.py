"""Tests of the workflow `deliveries`: they are removed with its folder."""
