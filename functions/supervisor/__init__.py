"""The Supervisor: finds tasks whose complete-by time has passed and requests their recovery."""
