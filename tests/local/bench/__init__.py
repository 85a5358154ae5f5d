"""`python -m local bench`."""
