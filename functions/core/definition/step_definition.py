"""The classes and options by which a workflow's steps are defined. `definition_checks.py` checks them.

Limits of time are in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Required, TypedDict, Unpack, overload

from pydantic import BaseModel

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


#: A request, a result or an output: a dict that JSON can hold.
type Json = Mapping[str, object]
#: `"compensate"`: undo everything; `"keep"`: stay in `Error`; `"continue"`: continue without the step.
type Policy = Literal["compensate", "keep", "continue"]
type StopPolicy = Literal["compensate", "keep"]
type Needs = Sequence[BaseStep[Any] | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Waits between the attempts of one call.

    The upper bound of the wait begins at `first` seconds, is multiplied by `factor`, and ends at `longest`
    seconds. Raises `ValueError` unless 0 < first <= longest <= 86400 and factor is from 1 to 10.
    """

    first: float = 0.2
    factor: float = 2
    longest: float = 10

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.longest <= 86_400:  # noqa: PLR2004 - a day
            values = f"first={self.first!r}, longest={self.longest!r}"
            raise ValueError(f"Retry: {values}: use 0 < first <= longest <= 86400 seconds")
        if not 1 <= self.factor <= 10:  # noqa: PLR2004 - as the docstring says
            raise ValueError(f"Retry: factor={self.factor!r}: use a number from 1 to 10")

    def longest_wait(self, attempt: int) -> float:
        """Return the upper bound of the wait after failed attempt `attempt` (from 1), in seconds."""
        return min(self.longest, self.first * float(self.factor) ** min(attempt - 1, 100))


class _CommonOptions(TypedDict, total=False):
    needs: Needs
    complete_within: float


class _AgentOptions(_CommonOptions, total=False):
    agent: str
    idempotent: bool


class _ModelOptions[P: BaseModel, T: BaseModel](_AgentOptions, total=False):
    request: Required[Callable[[P, Results], Json]]
    result: Required[type[T]]
    undo: bool | Callable[[P, Results, T | None], Json]


class _RequiredOptions[P: BaseModel, T: BaseModel](_ModelOptions[P, T], total=False):
    on_failure: StopPolicy | None


class _OptionalOptions[P: BaseModel, T: BaseModel](_ModelOptions[P, T], total=False):
    when: Callable[[P, Results], bool] | None
    on_failure: Policy | None


class _ItemOptions[P: BaseModel, T: BaseModel, I](_AgentOptions, total=False):
    for_each: Required[Callable[[P], Sequence[I]]]
    request: Required[Callable[[P, Results, I], Json]]
    result: Required[type[T]]
    at_once: int
    when: Callable[[P, Results, I], bool] | None
    undo: bool | Callable[[P, Results, T | None, I], Json]
    on_failure: Policy | None


class _OtherOptions(_AgentOptions, total=False):
    request: Required[Callable[..., Json]]
    for_each: Callable[[Any], Sequence[Any]] | None
    at_once: int
    when: Callable[..., bool] | None
    undo: bool | Callable[..., Json]
    on_failure: Policy | None


class Step[R](BaseStep[R]):
    """A step whose Agent calls the remote service within a run."""

    step_type = StepType.ACTIVITY

    @overload
    def __init__[P: BaseModel, T: BaseModel](
        self: Step[T], name: str, *, retry: Retry = ..., **options: Unpack[_RequiredOptions[P, T]]
    ) -> None: ...
    @overload
    def __init__[P: BaseModel, T: BaseModel](
        self: Step[T | None], name: str, *, retry: Retry = ..., **options: Unpack[_OptionalOptions[P, T]]
    ) -> None: ...
    @overload
    def __init__[P: BaseModel, T: BaseModel, I](
        self: Step[list[T | None]], name: str, *, retry: Retry = ..., **options: Unpack[_ItemOptions[P, T, I]]
    ) -> None: ...
    @overload
    def __init__(
        self: Step[Any], name: str, *, retry: Retry = ..., **options: Unpack[_OtherOptions]
    ) -> None: ...
    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, options)


class QueueStep[R](BaseStep[R]):
    """A step whose Agent takes its request from a queue and replies; `complete_within` includes both."""

    step_type = StepType.QUEUE

    @overload
    def __init__[P: BaseModel, T: BaseModel](
        self: QueueStep[T], name: str, **options: Unpack[_RequiredOptions[P, T]]
    ) -> None: ...
    @overload
    def __init__[P: BaseModel, T: BaseModel](
        self: QueueStep[T | None], name: str, **options: Unpack[_OptionalOptions[P, T]]
    ) -> None: ...
    @overload
    def __init__[P: BaseModel, T: BaseModel, I](
        self: QueueStep[list[T | None]], name: str, **options: Unpack[_ItemOptions[P, T, I]]
    ) -> None: ...
    @overload
    def __init__(self: QueueStep[Any], name: str, **options: Unpack[_OtherOptions]) -> None: ...
    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, options)


class _ChildOptions[P: BaseModel, T: BaseModel](_CommonOptions, total=False):
    workflow: Required[str]
    request: Required[Callable[[P, Results], Json]]
    result: Required[type[T]]


class WorkflowStep[R](BaseStep[R]):
    """A step that is a task of another workflow. Its request is the payload, and its result the output."""

    step_type = StepType.WORKFLOW

    @overload
    def __init__[P: BaseModel, T: BaseModel](
        self: WorkflowStep[T],
        name: str,
        *,
        on_failure: StopPolicy | None = None,
        **options: Unpack[_ChildOptions[P, T]],
    ) -> None: ...
    @overload
    def __init__[P: BaseModel, T: BaseModel](
        self: WorkflowStep[T | None],
        name: str,
        *,
        when: Callable[[P, Results], bool] | None = None,
        on_failure: Policy | None = None,
        **options: Unpack[_ChildOptions[P, T]],
    ) -> None: ...
    @overload
    def __init__(
        self: WorkflowStep[Any],
        name: str,
        *,
        workflow: str,
        request: Callable[..., Json],
        result: type[BaseModel] | None = None,
        for_each: Callable[[Any], Sequence[Any]] | None = None,
        at_once: int = 16,
        when: Callable[..., bool] | None = None,
        on_failure: Policy | None = None,
        **options: Unpack[_CommonOptions],
    ) -> None: ...
    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, options)


class EventStep[R](BaseStep[R]):
    """A step that waits for an event. The event's body is its result; `on_timeout` may be a default body."""

    step_type = StepType.EVENT

    @overload
    def __init__[T: BaseModel](
        self: EventStep[T],
        name: str,
        *,
        event: type[T],
        complete_within: float,
        needs: Needs = (),
        role: str = "Operator",
        on_timeout: StopPolicy | Json = "compensate",
    ) -> None: ...
    @overload
    def __init__[P: BaseModel, T: BaseModel](
        self: EventStep[T | None],
        name: str,
        *,
        event: type[T],
        complete_within: float,
        needs: Needs = (),
        role: str = "Operator",
        when: Callable[[P, Results], bool] | None = None,
        on_timeout: Policy | Json = "compensate",
        on_failure: Policy | None = None,
    ) -> None: ...
    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, options)


class _TimerOptions(TypedDict, total=False):
    until: Required[Callable[[Any, Results], datetime]]
    needs: Needs
    when: Callable[[Any, Results], bool] | None


class TimerStep(BaseStep[None]):
    """A step that is done at the time that `until` returns, with its time zone, at most a year ahead."""

    step_type = StepType.TIMER

    def __init__(self, name: str, **options: Unpack[_TimerOptions]) -> None:
        super().__init__(name, options)
