"""The results of earlier steps, which the functions of a definition receive."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, overload

from functions.core.record import StepType


class BaseStep[R]:
    """A step of a workflow. `R` is the type of its result in `results[step]`."""

    step_type: ClassVar[StepType]

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name, self.options = name, MappingProxyType(dict(options))

    def __repr__(self) -> str:
        return f'{type(self).__name__}("{self.name}")'


class Results:
    """The results of the steps that a step needs, directly or not. A skipped or failed step has None."""

    def __init__(self, values: Mapping[str, Any], reader: str) -> None:
        self._values, self._reader = values, reader

    @overload
    def __getitem__[R](self, step: BaseStep[R]) -> R: ...
    @overload
    def __getitem__(self, step: str) -> Any: ...
    def __getitem__(self, step: BaseStep[Any] | str) -> Any:
        """Return the result of a step. Raises `KeyError` for a step that is not needed."""
        name = step if isinstance(step, str) else step.name
        if name not in self._values:
            raise KeyError(f'{self._reader} uses results["{name}"], which it does not need: add it to needs')
        return self._values[name]
