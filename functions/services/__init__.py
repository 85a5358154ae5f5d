"""The sample services of the workflows. They are not for production."""
