"""The parameter file that azd fills in, and the app roles for sign-in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from functions.web.callers import Role
from tests.infra.application import REGISTRATIONS
from tests.infra.bicep.builtins import BUILTINS
from tests.infra.bicep.expressions import evaluate
from tests.infra.bicep.template import Declaration, Template, read_template
from tests.infra.bicep.values import Unresolved, Value
from tests.infra.infrastructure import REPOSITORY, Infrastructure

_FILE = REPOSITORY / "infra" / "main.bicepparam"


#: The functions in parameter files, as if no environment variable were set.
_FUNCTIONS: dict[str, Value] = {
    **BUILTINS,
    "readEnvironmentVariable": lambda name, *default: default[0] if default else Unresolved(name),
    "bool": lambda text: text == "true",
    "int": int,
}


@pytest.fixture(scope="module")
def main() -> Template:
    """Read the template of the parameter file."""
    return read_template(REPOSITORY / "infra" / "main.bicep")


@pytest.fixture(scope="module")
def assigned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Declaration]:
    """Read the file; its assignments are read as variables, because the grammar knows only templates."""
    text = re.sub(r"(?m)^param ", "var ", _FILE.read_text()).replace("using 'main.bicep'", "")
    path: Path = tmp_path_factory.mktemp("parameters") / "main.bicep"
    path.write_text(text)
    return read_template(path).variables


def test_file_names_parameters_of_the_template(main: Template, assigned: dict[str, Declaration]) -> None:
    """Every assigned parameter exists in the template."""
    assert assigned.keys() <= main.parameters.keys()


def test_parameters_without_a_default_are_read_from_azd(
    main: Template, assigned: dict[str, Declaration]
) -> None:
    """Required parameters come from the variables that azd always sets."""
    needed = {name for name, declared in main.parameters.items() if declared.value is None}
    assert {name: _unset(assigned[name]) for name in needed} == {
        "environmentName": Unresolved("AZURE_ENV_NAME"),
        "location": Unresolved("AZURE_LOCATION"),
    }


def test_unset_parameters_have_the_default_of_the_template(
    main: Template, assigned: dict[str, Declaration]
) -> None:
    """Without any `azd env set`, the file deploys what the template does by itself."""
    defaults = {
        name: evaluate(declared.value, _FUNCTIONS.get)
        for name, declared in main.parameters.items()
        if declared.value is not None and name in assigned
    }
    assert {name: _unset(assigned[name]) for name in defaults} == defaults


def test_app_roles_are_those_of_the_application() -> None:
    """Submitter, Operator and those that steps of registered workflows name, for people and for programs."""
    roles = Infrastructure(REPOSITORY).json("infra/app-roles.json")
    steps = [step for each in REGISTRATIONS for version in each.versions for step in version.shape.steps]
    assert {role["value"] for role in roles} == {*Role, *(step.role for step in steps if step.role)}
    assert all(set(role["allowedMemberTypes"]) == {"Application", "User"} for role in roles)
    assert len({role["id"] for role in roles}) == len(roles)


def _unset(declared: Declaration) -> Value:
    assert declared.value is not None
    return evaluate(declared.value, _FUNCTIONS.get)
