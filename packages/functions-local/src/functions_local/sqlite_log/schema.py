"""What is in a log, and which words a developer reads who cannot have it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one part's log, and the part's own words."""

    #: SQL statements that make the tables in a new file, each with its semicolon.
    tables: str
    #: Above 0, and another for every change of the tables; kept in SQLite's `user_version`.
    version: int
    #: The file's name in a refusal, such as "data folder .local/servicebus".
    subject: str
    #: Who else may have the file, and what to do then; it follows "is in use by".
    other_owner: str
    #: What to do with a file of another version.
    remedy: str

    def refusal_of_owner(self) -> str:
        """Say that another process has the file."""
        return f"{self.subject} is in use by {self.other_owner}"

    def refusal_of_version(self, found: int) -> str:
        """Say that the file's tables are others than these."""
        return (
            f"{self.subject} was written by another version (schema {found}, this one has {self.version}): "
            f"{self.remedy}"
        )
