"""The operators' console, as far as it can be judged without a browser."""
