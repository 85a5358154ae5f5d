"""`python -m local verify`: proof that a deployment works, wherever it runs."""
