"""Connection settings: a connection string, or a host name in Azure and a login."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions_local.configuration import AppSettings, StartError, how_to_set

if TYPE_CHECKING:
    from azure.identity.aio import DefaultAzureCredential


class ConnectionSettings:
    """The settings of all connections, and one login for those without a connection string."""

    def __init__(self, settings: AppSettings) -> None:
        self._settings = settings
        self._credential: DefaultAzureCredential | None = None

    def value(self, name: str, suffix: str = "") -> str | None:
        """Return a connection's setting, or one of its parts such as `__fullyQualifiedNamespace`."""
        values = self._settings.values
        return values.get(f"{name}{suffix}") or values.get(f"AzureWebJobs{name}{suffix}")

    def login(self) -> DefaultAzureCredential:
        """Return the developer's own Azure login."""
        if self._credential is None:
            # Imported here: the import takes a tenth of the start, and few local apps need it.
            from azure.identity.aio import DefaultAzureCredential as Credential  # noqa: PLC0415

            self._credential = Credential()
        return self._credential

    async def close(self) -> None:
        """Log out."""
        if self._credential is not None:
            await self._credential.close()


def missing(name: str, used_by: str) -> StartError:
    """Return the error for a connection without a setting."""
    return StartError(f"{used_by} needs the setting {name}: {how_to_set(name)}")


def malformed(name: str, used_by: str, reason: object) -> StartError:
    """Return the error for a setting that is no connection string."""
    return StartError(f"the setting {name}, used by {used_by}, is not a connection string: {reason}")
