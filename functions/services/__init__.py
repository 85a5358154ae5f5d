"""Sample remote services, so that the workflows have somebody to talk to; never for production."""
