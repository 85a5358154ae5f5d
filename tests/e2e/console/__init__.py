"""The console in a real browser, on the whole local platform."""
