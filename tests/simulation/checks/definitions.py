"""The steps of a run's workflows by name, items under the name of their step."""

from __future__ import annotations

from collections.abc import Iterable

from functions.pattern.definition import Step
from functions.workflows.registration import Registration


class StepsByName:
    """Names of drawn steps are unique in a run."""

    def __init__(self, registrations: Iterable[Registration]) -> None:
        self._steps: dict[str, Step] = {}
        self._remedies: dict[str, str] = {}
        for registration in registrations:
            for version in registration.versions:
                for step in version.steps:
                    self._steps[step.name] = step
                    self._remedies[step.name] = step.on_failure or version.on_failure

    def knows(self, name: str) -> bool:
        """Tell whether there is such a step, or an item of it."""
        return name.partition(".")[0] in self._steps

    def step(self, name: str) -> Step:
        """Find the definition of a step, or of an item."""
        return self._steps[name.partition(".")[0]]

    def before(self, name: str) -> set[str]:
        """Name all steps that come before a step."""
        needs = self.step(name).needs
        return set(needs).union(*map(self.before, needs))

    def needed_by(self, name: str) -> frozenset[str]:
        """Name the steps that need a step."""
        own = name.partition(".")[0]
        return frozenset(each.name for each in self._steps.values() if own in each.needs)

    def remedy(self, name: str) -> str:
        """Tell what follows when a step is refused."""
        return self._remedies[name.partition(".")[0]]

    def may_fail(self, name: str) -> bool:
        """Tell whether its task goes on without it."""
        return self.step(name).on_failure == "continue"
