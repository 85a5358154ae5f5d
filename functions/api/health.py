"""Whether the application can work, remembered for a moment: whoever asks often makes no more look-ups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from functions.pattern.errors import TransientError

#: Seconds for which what was found is told again.
_REMEMBERED = 1.0


class StoreHealth:
    """Looks whether the state store answers, once a second at most; all who ask meanwhile share a look."""

    def __init__(self, check: Callable[[], Awaitable[None]]) -> None:
        self._check = check
        self._look: asyncio.Task[str | None] | None = None
        self._over_at = 0.0

    async def check(self) -> None:
        """Look, or remember. Raises `TransientError` when the store does not answer, or did not just now."""
        look = self._look
        if look is None or (look.done() and asyncio.get_running_loop().time() >= self._over_at):
            self._look = look = asyncio.create_task(self._looked())
        fault = await asyncio.shield(look)
        if fault is not None:
            raise TransientError(fault)

    async def _looked(self) -> str | None:
        """Give why the store can't be used, None when it can."""
        self._over_at = asyncio.get_running_loop().time() + _REMEMBERED
        try:
            await self._check()
        except TransientError as fault:
            return str(fault)
        return None
