"""What stands before an HTTP application: who is let in, and how much each caller may ask for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fastapi import FastAPI

from functions.pattern.ports import Clock
from functions.web.access import Access
from functions.web.callers import Identify, Role
from functions.web.caps import CallerCaps, Caps
from functions.web.problems import documented_problems, install_problems

#: What any route behind a guard may answer, for the OpenAPI document.
GUARDED = documented_problems(401, 403, 429, 500)


@dataclass(frozen=True, slots=True)
class Guard:
    """How callers are known, and their caps."""

    identify: Identify
    caps: Caps
    clock: Clock

    def protect(
        self,
        app: FastAPI,
        *,
        reading: Collection[Role],
        writing: Collection[Role],
        open_paths: Collection[str] = (),
    ) -> None:
        """Take a stand before all that is in `app` by now; the roles and paths are those of `Access`."""
        app.add_middleware(CallerCaps, caps=self.caps, clock=self.clock)
        app.add_middleware(
            Access, identify=self.identify, reading=reading, writing=writing, open_paths=open_paths
        )
        install_problems(app)
