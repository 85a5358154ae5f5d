"""The console's first page: counts, the last hour, queues, circuit breakers and the Supervisor."""
