"""Tests of the workflow `orders`."""
