"""Failures of Table Storage in the core's terms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from azure.core.exceptions import AzureError

from functions.pattern.errors import TransientError


@contextmanager
def table_faults() -> Iterator[None]:
    """Turn what the SDK raises into `TransientError`: the SDK has retried already."""
    try:
        yield
    except AzureError as error:
        raise TransientError(f"Table Storage: {type(error).__name__}") from error
