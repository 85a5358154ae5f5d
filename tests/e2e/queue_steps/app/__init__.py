"""An application with one workflow, whose step may take 30 days."""
