"""An app for measurements: five steps whose Agents do nothing, on the application's own wiring."""
