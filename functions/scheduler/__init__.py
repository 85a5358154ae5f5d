"""The Scheduler: a Durable orchestrator that repeats one activity, which runs a task's steps."""
