"""An application with only an Agent behind its queue, as another team might run it."""
