"""The settings of named keys refer to the secrets in which the Functions host keeps these keys."""

from __future__ import annotations

import pytest

from functions.web.named_keys import load_named_keys
from tests.infra.bicep.expressions import evaluate, expand
from tests.infra.bicep.values import Unresolved, at
from tests.infra.infrastructure import REPOSITORY, Environment, Infrastructure


@pytest.fixture(scope="module")
def environment() -> Environment:
    """Plan an environment with named keys: api.ada and operations.night-shift."""
    environments = Infrastructure(REPOSITORY).environments
    return next(each for each in environments if "namedKeys" in each.parameters)


def test_settings_have_the_names_that_the_application_reads(environment: Environment) -> None:
    """With the function and the name of the key."""
    names = [name for name in environment.settings if name.startswith("KEY_")]
    read = load_named_keys({name: f"the-secret-of-{name}" for name in names})
    assert {(each.function, each.name) for each in read} == {("api", "ada"), ("operations", "night-shift")}


def test_each_refers_to_the_secret_of_its_key_by_version(environment: Environment) -> None:
    """As the host names it (`KeyVaultSecretsRepository`): a dash of the key is written as -045."""
    vault = next(
        each for each in environment.deployment.deployments() if each.template.path.name == "vault.bicep"
    )
    bodies = expand(vault.template.resources["namedKey"].body, vault.value_of)
    secrets = [at(evaluate(*each), "name") for each in bodies]
    assert secrets == ["function--api--ada", "function--operations--night-045shift"]
    for number, name in enumerate(("KEY_API_ADA", "KEY_OPERATIONS_NIGHT_SHIFT")):
        reference = environment.settings[name]
        assert isinstance(reference, Unresolved)
        assert reference.text == (
            f"@Microsoft.KeyVault(SecretUri=${{namedKey[{number}].properties.secretUriWithVersion}})"
        )
