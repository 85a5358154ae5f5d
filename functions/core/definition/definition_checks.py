"""The checks of a workflow's definition. Each error names the option, the state and the fix.

`workflow_definition.py` adds the file, the workflow and the step to each error text.
"""

from __future__ import annotations

import dis
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import AliasChoices, AliasPath, BaseModel, ValidationError

from functions.core.definition.defined_step import MOST_STEPS, DefinedStep, spec_facts
from functions.core.definition.step_definition import BaseStep, Retry
from functions.core.error_texts import error_text
from functions.core.json_values import UnfitValueError, json_text
from functions.core.record import NAME_PATTERN, FailurePolicy, StepSpec, StepType

#: Resources that the application itself serves below `/api/`.
RESERVED_RESOURCES = frozenset({"docs", "health", "openapi", "ops", "services"})
#: Characters of a snapshot of all steps (JSON), which the order's row holds beside the payload.
MOST_SNAPSHOT_BYTES = 30_000
#: Fields of a submission beside the payload.
ENVELOPE_FIELDS = frozenset({"id", "reply_to", "correlation_id"})
#: Roles that need no assignment: the submitter of the task, and any operator.
BUILT_IN_ROLES = ("Submitter", "Operator")

_NAME = re.compile(NAME_PATTERN)
_ROLE = re.compile(r"[A-Z][A-Za-z0-9.-]{0,31}")
_MOST_SECONDS = 365 * 86_400
_MOST_DEFAULT_BYTES = 8 * 1024

_EVERY_TYPE = frozenset({"needs", "when"})
_OF_REQUESTS = frozenset({"request", "result", "for_each", "at_once", "complete_within", "on_failure"})
_OF_AGENTS = _OF_REQUESTS | {"undo", "idempotent", "agent"}
_OPTIONS = {
    StepType.ACTIVITY: _EVERY_TYPE | _OF_AGENTS | {"retry"},
    StepType.QUEUE: _EVERY_TYPE | _OF_AGENTS,
    StepType.WORKFLOW: _EVERY_TYPE | _OF_REQUESTS | {"workflow"},
    StepType.EVENT: _EVERY_TYPE | {"event", "role", "on_timeout", "complete_within", "on_failure"},
    StepType.TIMER: _EVERY_TYPE | {"until"},
}


class DefinitionError(ValueError):
    """A definition cannot work. The text names the file, the workflow, the step, the option and the fix."""


class OptionError(ValueError):
    """An option of a definition that cannot work. The text names the option and the fix."""


def defined_step(step: BaseStep[Any]) -> DefinedStep:
    """Return the checked form of a step. Raises `OptionError`."""
    given = {name: value for name, value in step.options.items() if value is not None}
    allowed = _OPTIONS[step.step_type]
    for name in sorted(given.keys() - allowed):
        options = ", ".join(sorted(allowed))
        raise OptionError(f"{name}: {type(step).__name__} has no such option: use {options}")
    check_name("name", step.name)
    inputs = ["the payload", "the results", *(["the item"] if "for_each" in given else [])]
    if "when" in given:
        check_function("when", given["when"], inputs)
    spec = StepSpec(name=step.name, type=step.step_type, needs=_needs(given))
    common = DefinedStep(spec=spec, when=given.get("when"))
    if step.step_type is StepType.EVENT:
        return _event_step(common, given)
    if step.step_type is StepType.TIMER:
        check_function("until", given.get("until"), inputs)
        return replace(common, spec=replace(spec, complete_within=0), until=given["until"])
    return _with_request(common, given, inputs)


def _with_request(common: DefinedStep, given: Mapping[str, Any], inputs: list[str]) -> DefinedStep:
    for_each, at_once = given.get("for_each"), given.get("at_once")
    if for_each is not None:
        check_function("for_each", for_each, inputs[:1])
        at_once = given.get("at_once", 16)
        if type(at_once) is not int or not 1 <= at_once <= MOST_STEPS:
            raise OptionError(f"at_once: {at_once!r} is out of bounds: use an integer from 1 to {MOST_STEPS}")
    elif at_once is not None:
        raise OptionError("at_once: the step has no for_each: add for_each, or remove at_once")
    check_function("request", given.get("request"), inputs)
    undo = given.get("undo", False)
    if not isinstance(undo, bool):
        check_function("undo", undo, [*inputs[:2], "its own result", *inputs[2:]])
    idempotent = given.get("idempotent", True)
    if not isinstance(idempotent, bool):
        raise OptionError(f"idempotent: {idempotent!r} is no flag: use True or False")
    for name in ("complete_within", "result"):
        if not idempotent and name not in given:
            raise OptionError(f"{name}: required with idempotent=False: add it")
    if "result" in given:
        check_model("result", given["result"])
    if "retry" in given and not isinstance(given["retry"], Retry):
        raise OptionError(f"retry: {given['retry']!r} is no Retry: use Retry(first=…, factor=…, longest=…)")
    has_agent = common.spec.type is not StepType.WORKFLOW
    agent, workflow = given.get("agent", common.spec.name) if has_agent else "", given.get("workflow", "")
    check_name("agent" if has_agent else "workflow", agent if has_agent else workflow)
    spec = replace(
        common.spec,
        agent=agent,
        complete_within=check_seconds("complete_within", given.get("complete_within", 30)),
        idempotent=idempotent,
        undo=undo is not False,
        on_failure=_policy("on_failure", given.get("on_failure")),
        workflow=workflow,
        at_once=at_once,
    )
    return replace(
        common,
        spec=spec,
        request=given["request"],
        undo=None if isinstance(undo, bool) else undo,
        for_each=for_each,
        model=given.get("result"),
        retry=given.get("retry"),
    )


def _event_step(common: DefinedStep, given: Mapping[str, Any]) -> DefinedStep:
    if "complete_within" not in given:
        raise OptionError("complete_within: required for an EventStep: add it, in seconds")
    check_model("event", given.get("event"))
    role, on_timeout, default = given.get("role", "Operator"), given.get("on_timeout"), None
    _check_role(role)
    if isinstance(on_timeout, Mapping):
        try:
            default = json_text("default", dict(on_timeout), _MOST_DEFAULT_BYTES)
            given["event"].model_validate_json(default)
        except (ValidationError, UnfitValueError) as error:
            raise OptionError(f"on_timeout: the default body does not fit: {error_text(error)}") from None
        on_timeout = None
    if on_timeout is not None and "on_failure" in given:
        raise OptionError("on_failure: an EventStep fails only by its timeout: use on_timeout alone")
    policy = _policy("on_timeout", on_timeout) or _policy("on_failure", given.get("on_failure"))
    spec = replace(
        common.spec,
        complete_within=check_seconds("complete_within", given["complete_within"]),
        on_failure=policy or FailurePolicy.COMPENSATE,
        default=default,
        role=role,
    )
    return replace(common, spec=spec, model=given["event"])


def _check_role(role: object) -> None:
    if not isinstance(role, str) or _ROLE.fullmatch(role) is None:
        raise OptionError(f"role: {role!r} is no role: use Submitter, Operator or one like {_ROLE.pattern}")
    if role.lower() == "reader":
        raise OptionError("role: a Reader cannot act: use another role")
    for built_in in BUILT_IN_ROLES:
        if role != built_in and role.lower() == built_in.lower():
            raise OptionError(f"role: {role!r} differs from a built-in role by case: use {built_in!r}")


def _needs(given: Mapping[str, Any]) -> frozenset[str]:
    needs = given.get("needs", ())
    if not isinstance(needs, list | tuple | set | frozenset):
        raise OptionError(f"needs: {needs!r} is no list: use a list of steps, such as needs=[CARD]")
    for each in needs:
        if not isinstance(each, str | BaseStep):
            raise OptionError(f"needs: {each!r} is no step: use steps or their names")
    return frozenset(each if isinstance(each, str) else each.name for each in needs)


def _policy(name: str, value: object) -> FailurePolicy | None:
    return None if value is None else check_policy(name, value, tuple(FailurePolicy))


def check_policy(name: str, value: object, allowed: Iterable[FailurePolicy]) -> FailurePolicy:
    """Return a failure policy. Raises `OptionError`."""
    by_text = {str(policy): policy for policy in allowed}
    if not isinstance(value, str) or value not in by_text:
        choices = " or ".join(f'"{text}"' for text in by_text)
        raise OptionError(f"{name}: {value!r} is no policy: use {choices}")
    return by_text[value]


def check_name(option: str, value: object) -> None:
    """Check a name. Raises `OptionError`."""
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise OptionError(f"{option}: {value!r} is no name: use one that matches {NAME_PATTERN}")


def check_seconds(name: str, value: object) -> float:
    """Return a limit in seconds, above 0 and at most a year. Raises `OptionError`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST_SECONDS:
        raise OptionError(f"{name}: {value!r} is no time limit: use seconds above 0, at most {_MOST_SECONDS}")
    return value


def check_model(name: str, value: object) -> None:
    """Check a pydantic model class. Raises `OptionError`."""
    if not isinstance(value, type) or not issubclass(value, BaseModel):
        raise OptionError(f"{name}: {value!r} is no model: use a class that inherits from pydantic.BaseModel")


def check_function(name: str, value: object, inputs: list[str]) -> None:
    """Check that a function can be called with its inputs and returns at once. Raises `OptionError`."""
    arguments = f"({', '.join(inputs)})"
    if value is None:
        raise OptionError(f"{name}: it is missing: add a function of {arguments}")
    if not callable(value):
        raise OptionError(f"{name}: {value!r} is no function: use one of {arguments}")
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    if any(is_kind(each) for is_kind in kinds for each in (value, type(value).__call__)):
        raise OptionError(f"{name}: it must return its value: remove async and yield")
    try:
        signature = inspect.signature(value)
    except ValueError:  # some built-in functions have no signature
        return
    try:
        signature.bind(*inputs)
    except TypeError as fault:
        raise OptionError(f"{name}: it takes other arguments ({fault}): use {arguments}") from None


def check_workflow(workflow: Any, specs: Sequence[StepSpec]) -> None:
    """Check the fields of a `Workflow`, whose steps are checked. Raises `OptionError`."""
    check_name("name", workflow.name)
    check_name("resource", workflow.resource)
    if workflow.resource in RESERVED_RESOURCES:
        names = ", ".join(sorted(RESERVED_RESOURCES))
        raise OptionError(f'resource: "{workflow.resource}" is reserved ({names}): use another name')
    if type(workflow.version) is not int or workflow.version < 1:
        raise OptionError(f"version: {workflow.version!r} is no version: use an integer from 1 on")
    check_model("payload", workflow.payload)
    for name in sorted(ENVELOPE_FIELDS & sent_names(workflow.payload)):
        raise OptionError(f'payload: "{name}" is a field of the submission: rename the field')
    if workflow.output is not None:
        check_function("output", workflow.output, ["the payload", "the results"])
    if workflow.find_by is not None:
        check_function("find_by", workflow.find_by, ["the payload"])
    limits = {"cancel_within": workflow.cancel_within, "complete_within": workflow.complete_within}
    for name, seconds in limits.items():
        if seconds is not None:
            check_seconds(name, seconds)
    can_undo = any(spec.undo or spec.type is StepType.WORKFLOW for spec in specs)
    if workflow.cancel_within is not None and not can_undo:
        raise OptionError("cancel_within: no step has an undo: add undo=True to one")
    size = len(json.dumps([spec_facts(spec) for spec in specs]))
    if size > MOST_SNAPSHOT_BYTES:
        raise OptionError(
            f"steps: a snapshot of {size} characters, with at most {MOST_SNAPSHOT_BYTES}: shorten names"
        )


def check_overrides(workflows: Sequence[Any], step_seconds: Mapping[str, float]) -> None:
    """Check that the overrides of time limits name steps. Raises `DefinitionError`."""
    specs = ((each.name, spec) for each in workflows for spec in each.specs)
    known = {f"{name}.{spec.name}" for name, spec in specs if spec.type is not StepType.TIMER}
    for name in sorted(step_seconds.keys() - known):
        steps = ", ".join(sorted(known))
        raise DefinitionError(f"STEP_SECONDS: {name!r} is no step with complete_within: use one of {steps}")


def calling_file() -> str:
    """Return the file outside of this folder that defines a workflow, from the folder `functions` on."""
    frame, folder = inspect.currentframe(), __file__.removesuffix("definition_checks.py")
    while frame is not None and frame.f_code.co_filename.startswith(folder):
        frame = frame.f_back
    path = "" if frame is None else frame.f_code.co_filename.replace("\\", "/")
    _, found, rest = path.rpartition("/functions/")
    return f"functions/{rest}" if found else path.rpartition("/")[2]


def check_needs(steps: Mapping[str, DefinedStep]) -> None:
    """Check that all needs are defined, without a cycle, and that functions use results of needed steps only.

    Raises `OptionError`. A use that the code hides raises `KeyError` when the function is called.
    """
    for name, step in steps.items():
        for missing in sorted(step.spec.needs - steps.keys()):
            raise OptionError(f'step "{name}": needs: "{missing}" is not one of its steps: add it to steps')
    visible: dict[str, frozenset[str]] = {}
    try:
        for name in TopologicalSorter({name: step.spec.needs for name, step in steps.items()}).static_order():
            visible[name] = steps[name].spec.needs.union(*(visible[need] for need in steps[name].spec.needs))
    except CycleError as error:
        cycle = " → ".join(error.args[1])
        raise OptionError(f"needs: its steps need each other in a cycle ({cycle}): remove one need") from None
    for name, step in steps.items():
        functions = {"request": step.request, "undo": step.undo, "when": step.when, "until": step.until}
        for option, function in functions.items():
            for used in uses_of(function):
                if used not in visible[name]:
                    raise OptionError(f'step "{name}": {option} uses results["{used}"]: add needs=["{used}"]')


def uses_of(function: object) -> Iterator[str]:
    """Yield the step names that a function reads as `results[…]`: constants, and variables with steps."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_argcount < 2:  # noqa: PLR2004 - the payload and the results
        return
    parameter = code.co_varnames[1]
    enclosing = inspect.getclosurevars(function)  # type: ignore[arg-type]
    variables = {**enclosing.globals, **enclosing.nonlocals}
    read = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    for results, key, subscript in zip(read, read[1:], read[2:], strict=False):
        loaded = results.argval if isinstance(results.argval, tuple) else (results.argval,)
        is_subscript = subscript.opname == "BINARY_SUBSCR" or subscript.argrepr == "[]"  # from Python 3.14 on
        if not (is_subscript and results.opname.startswith("LOAD") and loaded[-1] == parameter):
            continue
        used = key.argval if key.opname == "LOAD_CONST" else variables.get(key.argval)
        if isinstance(used, str | BaseStep):
            yield used if isinstance(used, str) else used.name


def sent_names(payload: type[BaseModel]) -> frozenset[str]:
    """Return the names under which a submission may carry fields of a payload, aliases included."""
    aliases = [each.validation_alias for each in payload.model_fields.values()]
    aliases += [one for each in aliases if isinstance(each, AliasChoices) for one in each.choices]
    first = [each.path[0] if isinstance(each, AliasPath) else each for each in aliases]
    return frozenset({*payload.model_fields, *(each for each in first if isinstance(each, str))})
