"""The Scheduler: a Durable orchestrator that runs a task's steps in order, and its activities."""
