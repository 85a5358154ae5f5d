"""The operators' side: what they see and do (HTTP), what alerts them, and housekeeping."""
