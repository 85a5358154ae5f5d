"""An application that is an Agent behind its queue and nothing else, as another team might run it."""
