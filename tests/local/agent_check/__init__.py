"""`python -m local agent-check`, and the samples of Agents."""
