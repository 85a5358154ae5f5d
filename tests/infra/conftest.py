"""Azure's published types, which are not part of the project."""

from __future__ import annotations

import os

import pytest

from tests.infra.azure.published import FOLDER


@pytest.fixture(scope="session")
def published() -> None:
    """Require the folder with Azure's types; where it may be absent, say that nothing was checked."""
    if FOLDER.is_dir():
        return
    reason = f"not checked: Azure's types and names, as {FOLDER} is absent (make azure-types)"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
