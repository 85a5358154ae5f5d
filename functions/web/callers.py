"""Callers and their roles. `identification.py` identifies them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import Scope

from functions.web.problems import ProblemError


class Role(StrEnum):
    """The app roles of `infra/app-roles.json`. Steps may name other roles for their events."""

    #: Submits orders, and sees those that it submitted.
    SUBMITTER = "Submitter"
    #: Sees every task, and cannot act.
    READER = "Reader"
    #: Sees every task, and acts on tasks and rejected messages.
    OPERATOR = "Operator"


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller, by the `name` that is recorded; `has_every_role` includes those that only steps name."""

    name: str
    roles: frozenset[str]
    has_every_role: bool = False

    def may_see(self, submitter: str) -> bool:
        """Return whether this caller may see an order that `submitter` sent."""
        return self.has(Role.READER, Role.OPERATOR) or submitter == self.name

    def has(self, *roles: str) -> bool:
        """Return whether this caller has one of `roles`."""
        return self.has_every_role or not self.roles.isdisjoint(roles)

    def check(self, *roles: str) -> None:
        """Require one of `roles`. Raises `ProblemError` 403, which names them and the setting."""
        if not self.has(*roles):
            named = " or ".join(sorted(roles))
            text = f"The caller lacks the role {named}. Assign the app role in Entra ID (AUTH_MODE=easyauth)."
            raise ProblemError(HTTPStatus.FORBIDDEN, text)

    def check_bears(self, role: str, submitter: str) -> None:
        """Require a role for an order of `submitter`. Raises `ProblemError` 403."""
        self.check(role)
        if not self.bears(role, submitter):
            raise ProblemError(HTTPStatus.FORBIDDEN, "Only the submitter of the task can send this event.")

    def bears(self, role: str, submitter: str) -> bool:
        """Return whether this caller has a role for an order of `submitter`; a submitter for its own only."""
        return self.has(role) and (role != Role.SUBMITTER or submitter == self.name)


Identify = Callable[[Scope, Headers], Caller]


def identify_as(caller: Caller) -> Identify:
    """Identify the sender of every request as `caller`."""
    return lambda _scope, _headers: caller
