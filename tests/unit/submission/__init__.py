"""Tests of the admission of orders."""
