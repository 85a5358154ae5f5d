"""The Scheduler: one activity runs a task's steps. Start with `run.py`; `receivers.py` records replies."""
