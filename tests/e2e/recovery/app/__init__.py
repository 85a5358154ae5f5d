"""The application with the tests' workflows."""
