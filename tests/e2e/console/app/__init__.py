"""The application with the workflows of the console's tests."""
