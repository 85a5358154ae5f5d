"""What the HTTP applications share: callers and limits, request bodies, problem documents, destinations."""
