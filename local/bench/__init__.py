"""`make bench`: measures the whole way of an order, and what it costs, in one run."""
