"""What follows a change of a record: requests to Schedulers, notices to callers, alerts to operators."""
