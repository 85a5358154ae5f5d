"""E-commerce orders: one remote step, the payment."""
