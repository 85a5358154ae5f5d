"""The evidence of a run: `tables` reads the records, `settling` waits for the end, `judge` checks both."""
