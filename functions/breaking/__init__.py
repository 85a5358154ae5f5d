"""The circuit breaker: a remote service that keeps failing is left alone, by every instance."""
