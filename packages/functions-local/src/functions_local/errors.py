"""The one error that ends a start: what the developer must put right, said in one line."""

from __future__ import annotations


class StartError(Exception):
    """The host cannot start; the text names what is wrong and how to mend it.

    `detail` holds a stack trace or the like, shown only with --verbose.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail
