"""What happened over an hour, a day and a month, and which step is slow or failing now."""
