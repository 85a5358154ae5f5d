"""The checks: each is a function, its name is the line of the report, its docstring what it proves."""
