"""`python -m local cost`: what a million orders cost in Azure, by a run's counts and a list of prices."""
