"""An application of one function, for tests that need a host with something to run."""
