"""A client of the sample remote services: makes them refuse, and reads their resources afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

import aiohttp

from local.callers.cases import SUSPENDED_ACCOUNT, Case, Submission
from local.callers.client import OrderRefusedError

_TIMEOUT = aiohttp.ClientTimeout(total=30)


class NoSampleServicesError(OrderRefusedError):
    """The application serves no sample services."""


class SampleServices:
    """Calls the sample services of the application at one address; with `headers` in each request."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @classmethod
    @asynccontextmanager
    async def at(cls, url: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[SampleServices]:
        """Open the services of the application at `url` for the block."""
        base_url = f"{url.rstrip('/')}/api/services/"
        async with aiohttp.ClientSession(base_url=base_url, timeout=_TIMEOUT, headers=headers) as session:
            yield cls(session)

    async def prepare(self, submission: Submission) -> None:
        """Make the services refuse what the submission's case needs. Raises `OrderRefusedError`."""
        match submission.case:
            case Case.SUSPENDED:
                await self._put(f"accounts/{SUSPENDED_ACCOUNT}", {"suspended": True})
            case Case.NO_DRONE:
                await self._put(f"drones/faults/{submission.id}", {"kind": "refuse"})
            case Case.ORDER | Case.NEAR | Case.FAR:
                pass

    async def what_stands(self, submission: Submission) -> str | None:
        """Return what a service still holds of a submission that should leave nothing, or `None`."""
        if submission.case not in {Case.SUSPENDED, Case.NO_DRONE}:
            return None
        await self._end_refusal(submission)
        for service in ("packages", "drones", "deliveries"):
            if await self._stands(f"{service}/{submission.id}"):
                return f"there is still something at {service}"
        return None

    async def _put(self, path: str, body: object) -> None:
        async with self._session.put(path, json=body) as response:
            if not response.ok:
                kind = NoSampleServicesError if response.status == HTTPStatus.NOT_FOUND else OrderRefusedError
                raise kind(
                    f"The sample services can't be set up: {response.status} {await response.text()}. "
                    "Is SAMPLE_SERVICES=1 set there? `--deliveries 0` does without them."
                )

    async def _end_refusal(self, submission: Submission) -> None:
        async with self._session.delete(f"drones/faults/{submission.id}") as response:
            response.raise_for_status()

    async def _stands(self, path: str) -> bool:
        async with self._session.get(path) as response:
            if response.status == HTTPStatus.NOT_FOUND:
                return False
            response.raise_for_status()
            return (await response.json())["undone_at"] is None
