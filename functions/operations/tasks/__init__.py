"""What operators see of single tasks, and do to them: find, list, show, resubmit, undo."""
