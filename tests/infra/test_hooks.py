"""azd's hooks: the key of the sample services is made once; what was deployed is verified when asked."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.infra.infrastructure import REPOSITORY, Infrastructure

pytestmark = pytest.mark.process

_SECONDS = 20
_HOOKS = yaml.safe_load((REPOSITORY / "azure.yaml").read_text(encoding="utf-8"))["hooks"]

#: Stands for azd: writes down what it is asked to do, and knows what was deployed by this or another machine.
_AZD = """#!/bin/sh
echo "$*" >> "$AZD_CALLS"
case "$*" in
  "env get-value SAMPLE_SERVICES_KEY_MADE") test -n "$AZD_DEPLOYED" && echo "$AZD_DEPLOYED" || exit 1 ;;
  "env refresh --no-prompt") test -n "$AZD_DEPLOYED" || exit 1 ;;
esac
"""


def _calls(hook: str, folder: Path, **environment: str) -> list[str]:
    """Run a hook as azd does, and return the calls of azd that set something."""
    azd, calls = folder / "azd", folder / "calls"
    azd.write_text(_AZD)
    azd.chmod(0o755)
    calls.touch()
    own = {"PATH": f"{folder}:{os.environ['PATH']}", "AZD_CALLS": str(calls), "AZD_DEPLOYED": ""}
    posix = _HOOKS[hook]["posix"]
    command = [posix["shell"], REPOSITORY / posix["run"]]
    subprocess.run(command, env=own | environment, check=True, timeout=_SECONDS)
    return [line for line in calls.read_text().splitlines() if line.startswith("env set ")]


def test_key_is_made_at_random_the_first_time(tmp_path: Path) -> None:
    """Of 32 bytes; a second environment has another."""
    [first] = _calls("preprovision", tmp_path)
    [_, second] = _calls("preprovision", tmp_path)
    assert re.fullmatch(r"env set SAMPLE_SERVICES_KEY [0-9a-f]{64}", first)
    assert first != second


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"SAMPLE_SERVICES_KEY_MADE": "all"}, id="provisioned from here"),
        pytest.param({"AZD_DEPLOYED": "all"}, id="provisioned from another machine"),
        pytest.param(
            {"SAMPLE_SERVICES_KEY_MADE": "split", "ROLES_SPLIT": "True"}, id="an app for each role, from here"
        ),
        pytest.param(
            {"SAMPLE_SERVICES_KEY_MADE": "all", "AZD_DEPLOYED": "split", "ROLES_SPLIT": "true"},
            id="roles were split from another machine",
        ),
        pytest.param({"SAMPLE_SERVICES_KEY": "chosen"}, id="chosen by somebody, or left by a failed attempt"),
        pytest.param({"SAMPLE_SERVICES": "False"}, id="without sample services"),
    ],
)
def test_key_that_exists_is_kept(environment: dict[str, str], tmp_path: Path) -> None:
    """So provisioning again changes nothing."""
    assert _calls("preprovision", tmp_path, **environment) == []


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"SAMPLE_SERVICES_KEY_MADE": "all", "ROLES_SPLIT": "true"}, id="roles are split"),
        pytest.param({"AZD_DEPLOYED": "split", "ROLES_SPLIT": "false"}, id="roles are put together"),
        pytest.param({"SAMPLE_SERVICES_KEY_MADE": "", "SAMPLE_SERVICES": "True"}, id="samples are new"),
    ],
)
def test_key_is_made_for_new_vaults(environment: dict[str, str], tmp_path: Path) -> None:
    """They would have no secret under its name, and the deployment would stop."""
    [made] = _calls("preprovision", tmp_path, **environment)
    assert made.startswith("env set SAMPLE_SERVICES_KEY ")


def test_templates_tell_whose_vaults_have_the_key() -> None:
    """In the words that the hook compares."""
    environments = Infrastructure(REPOSITORY).environments
    told = {each.name: each.deployment.outputs()["SAMPLE_SERVICES_KEY_MADE"] for each in environments}
    assert (told["defaults"], told["split: app"], told["without samples"]) == ("all", "split", "")


def test_key_is_forgotten_when_the_vault_has_it(tmp_path: Path) -> None:
    """A key that was passed again would be a new version in the vault."""
    assert _calls("postprovision", tmp_path, SAMPLE_SERVICES_KEY="made") == ["env set SAMPLE_SERVICES_KEY "]


#: Stands for az, and for the project's Python: write down what they are asked.
_TOLD = r"""#!/bin/sh
echo "$*" "with ${VERIFY_KEY:-no key}, ${VERIFY_OPERATOR_KEY:-no other} and ${VERIFY_TOKEN:-no token}" \
  >> "$TOLD"
case "$*" in *"--name func-1 "*) echo default-key ;; *"--name func-1-su "*) echo operators-key ;; esac
case "$1" in account) echo a-token ;; esac
"""


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        pytest.param({}, [], id="nobody asked"),
        pytest.param({"VERIFY": "true"}, ["with default-key, no other and no token"], id="function keys"),
        pytest.param(
            {"VERIFY": "True", "VERIFY_KEY": "adas"}, ["with adas, no other and no token"], id="own key"
        ),
        pytest.param(
            {"VERIFY": "true", "SIGN_IN_CLIENT_ID": "id"},
            ["with default-key, no other and a-token"],
            id="sign-in",
        ),
        pytest.param(
            {"VERIFY": "true", "AZURE_OPERATORS_FUNCTION_NAME": "func-1-su"},
            ["with default-key, operators-key and no token"],
            id="an app for each role",
        ),
    ],
)
def test_deployment_is_verified_when_asked(
    environment: dict[str, str], told: list[str], tmp_path: Path
) -> None:
    """With the keys and tokens that the deployment takes; the outcome is the hook's."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    for program in (tmp_path / "az", python):
        program.write_text(_TOLD)
        program.chmod(0o755)
    own = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "TOLD": str(tmp_path / "told"),
        "AZURE_FUNCTION_NAME": "func-1",
        "AZURE_RESOURCE_GROUP": "rg-1",
        "AZURE_OPERATORS_FUNCTION_NAME": "func-1",
        "SERVICE_APP_URI": "https://func-1.example.com",
        "OPERATORS_APP_URI": "https://func-2.example.com",
    }
    posix = _HOOKS["postdeploy"]["posix"]
    command = [posix["shell"], REPOSITORY / posix["run"]]
    subprocess.run(command, cwd=tmp_path, env=own | environment, check=True, timeout=_SECONDS)
    lines = (tmp_path / "told").read_text().splitlines() if (tmp_path / "told").exists() else []
    asked = "-m local verify --url https://func-1.example.com --operators-url https://func-2.example.com "
    verified = [line for line in lines if line.startswith(asked)]
    assert [line[line.index("with ") :] for line in verified] == told
    assert bool(lines) == bool(told)


def test_each_hook_is_there_for_windows_too() -> None:
    """There, azd runs that instead."""
    for hook in _HOOKS.values():
        assert (REPOSITORY / hook["windows"]["run"]).is_file()
        assert hook["windows"]["run"] == hook["posix"]["run"].replace(".sh", ".ps1")
