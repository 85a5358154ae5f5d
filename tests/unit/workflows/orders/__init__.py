"""Tests of the workflow `orders`: they are removed with its folder."""
