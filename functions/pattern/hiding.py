"""Redacts values of secret fields in JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Stands in the place of a secret.
HIDDEN = "(hidden)"


@dataclass(frozen=True)
class Secrets:
    """Values of secret fields, as texts. `repr` does not show them."""

    values: frozenset[str] = field(default=frozenset(), repr=False)

    def without(self, content: Any) -> Any:
        """Return JSON in which `HIDDEN` replaces each text, number or name that equals one of the values.

        A value inside a longer text stays.
        """
        match content:
            case _ if not self.values:
                return content
            case dict():
                return {self.without(name): self.without(each) for name, each in content.items()}
            case list():
                return [self.without(each) for each in content]
            case str():
                return HIDDEN if content.strip() in self.values else content
            case int() | float() if not isinstance(content, bool) and str(content) in self.values:
                return HIDDEN
            case _:
                return content


NO_SECRETS = Secrets()
