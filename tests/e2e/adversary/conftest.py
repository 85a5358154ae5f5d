"""One Azurite, with a table for each test."""

from tests.integration.conftest import connection, service, storage, table  # noqa: F401
