"""An application that records which of its files an order enters."""
