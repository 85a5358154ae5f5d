"""The callers' API. Start with `orders.py`: a submission; `callers_application.py` joins all routes."""
