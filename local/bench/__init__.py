"""`python -m local bench`: measures the processing of orders from end to end, and its cost, in one run."""
