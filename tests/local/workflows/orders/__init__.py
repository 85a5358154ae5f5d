"""The demo and the workflow `orders`."""
