"""What the workflows' sample services share; sample services are not for production."""
