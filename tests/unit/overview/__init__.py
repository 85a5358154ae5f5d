"""Tests of the overview, gates, alerts and rejected messages of operators, over a table in memory."""
