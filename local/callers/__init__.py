"""Sample callers of the API: they submit orders over HTTP, like any program, and follow them."""
