"""A function of the v1 programming model."""

from __future__ import annotations

import azure.functions as func


def main(req: func.HttpRequest) -> str:
    """Answer."""
    return req.method
