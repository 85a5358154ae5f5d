"""The sample workflows end to end, one folder each."""
