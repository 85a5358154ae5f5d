"""The operators' side: HTTP interface, alerts, dead letters, housekeeping."""
