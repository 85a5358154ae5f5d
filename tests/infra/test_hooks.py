"""azd's hooks: the key of the sample services is created once; a deployment is verified on request."""

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

#: Replaces azd: records its calls, and returns the state of a deployment from this or another machine.
_AZD = """#!/bin/sh
echo "$*" >> "$CALLS"
case "$*" in
  "env get-value SAMPLE_SERVICES_KEY_MADE") test -n "$AZD_DEPLOYED" && echo "$AZD_DEPLOYED" || exit 1 ;;
  "env refresh --no-prompt") test -n "$AZD_DEPLOYED" || exit 1 ;;
esac
"""

#: Replaces az, and the project's Python: records its calls with the keys and the token.
_AZ = r"""#!/bin/sh
echo "$*" "with ${VERIFY_KEY:-no key}, ${VERIFY_OPERATOR_KEY:-no other} and ${VERIFY_TOKEN:-no token}" \
  >> "$CALLS"
case "$*" in *"--name func-1 "*) echo default-key ;; *"--name func-1-su "*) echo operators-key ;; esac
case "$1" in account) echo a-token ;; esac
"""


def _calls(hook: str, folder: Path, **environment: str) -> list[str]:
    """Run a hook as azd does, and return the calls of the replaced programs."""
    (folder / ".venv/bin").mkdir(parents=True, exist_ok=True)
    for name, text in {"azd": _AZD, "az": _AZ, ".venv/bin/python": _AZ}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    calls = folder / "calls"
    calls.touch()
    own = {"PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(calls), "AZD_DEPLOYED": ""}
    posix = _HOOKS[hook]["posix"]
    command = [posix["shell"], REPOSITORY / posix["run"]]
    subprocess.run(command, cwd=folder, env=own | environment, check=True, timeout=_SECONDS)
    return calls.read_text().splitlines()


def _set(hook: str, folder: Path, **environment: str) -> list[str]:
    return [line for line in _calls(hook, folder, **environment) if line.startswith("env set ")]


def test_key_is_random_the_first_time_and_deleted_when_the_vault_has_it(tmp_path: Path) -> None:
    """It has 32 bytes; a second environment has another. A key passed again would be a new version."""
    [first] = _set("preprovision", tmp_path)
    [_, second] = _set("preprovision", tmp_path)
    assert re.fullmatch(r"env set SAMPLE_SERVICES_KEY [0-9a-f]{64}", first)
    assert first != second
    deleted = _set("postprovision", tmp_path, SAMPLE_SERVICES_KEY="made")
    assert deleted[2:] == ["env set SAMPLE_SERVICES_KEY "]


_HERE, _ELSEWHERE = "SAMPLE_SERVICES_KEY_MADE", "AZD_DEPLOYED"


@pytest.mark.parametrize(
    ("environment", "is_created"),
    [
        ({_HERE: "all"}, False),
        ({_ELSEWHERE: "all"}, False),
        ({_HERE: "split", "ROLES_SPLIT": "True"}, False),
        ({_HERE: "all", _ELSEWHERE: "split", "ROLES_SPLIT": "true"}, False),
        ({"SAMPLE_SERVICES_KEY": "chosen, or left by a failed attempt"}, False),
        ({"SAMPLE_SERVICES": "False"}, False),
        ({_HERE: "all", "ROLES_SPLIT": "true"}, True),
        ({_ELSEWHERE: "split", "ROLES_SPLIT": "false"}, True),
        ({_HERE: "", "SAMPLE_SERVICES": "True"}, True),
    ],
    ids=str,
)
def test_key_is_created_for_new_vaults_only(
    environment: dict[str, str], tmp_path: Path, *, is_created: bool
) -> None:
    """A new vault has no secret under its name; provisioning an existing one again changes nothing.

    It may have been provisioned from here or from another machine; split roles have other vaults.
    """
    keys = _set("preprovision", tmp_path, **environment)
    assert [key.startswith("env set SAMPLE_SERVICES_KEY ") for key in keys] == [True] * is_created


def test_templates_output_the_vaults_with_the_key() -> None:
    """In the words that the hook compares."""
    environments = Infrastructure(REPOSITORY).environments
    outputs = {each.name: each.deployment.outputs()["SAMPLE_SERVICES_KEY_MADE"] for each in environments}
    assert (outputs["defaults"], outputs["split: app"], outputs["without samples"]) == ("all", "split", "")


_SPLIT = {"AZURE_OPERATORS_FUNCTION_NAME": "func-1-su"}


@pytest.mark.parametrize(
    ("environment", "keys"),
    [
        ({}, None),
        ({"VERIFY": "true"}, "default-key, no other and no token"),
        ({"VERIFY": "True", "VERIFY_KEY": "adas"}, "adas, no other and no token"),
        ({"VERIFY": "true", "SIGN_IN_CLIENT_ID": "id"}, "default-key, no other and a-token"),
        ({"VERIFY": "true", **_SPLIT}, "default-key, operators-key and no token"),
    ],
    ids=["not requested", "function keys", "own key", "sign-in", "an app for each role"],
)
def test_deployment_is_verified_on_request(
    environment: dict[str, str], keys: str | None, tmp_path: Path
) -> None:
    """With the keys and tokens of the deployment; the exit code is the hook's."""
    deployed = {
        "AZURE_FUNCTION_NAME": "func-1",
        "AZURE_RESOURCE_GROUP": "rg-1",
        "AZURE_OPERATORS_FUNCTION_NAME": "func-1",
        "SERVICE_APP_URI": "https://func-1.example.com",
        "OPERATORS_APP_URI": "https://func-2.example.com",
    }
    calls = _calls("postdeploy", tmp_path, **(deployed | environment))
    command = "-m local verify --url https://func-1.example.com --operators-url https://func-2.example.com "
    verified = [line.partition("with ")[2] for line in calls if line.startswith(command)]
    assert verified == ([keys] if keys else [])
    assert bool(calls) == bool(keys)


def test_each_hook_exists_for_windows_too() -> None:
    """There, azd runs that instead."""
    for hook in _HOOKS.values():
        assert (REPOSITORY / hook["windows"]["run"]).is_file()
        assert hook["windows"]["run"] == hook["posix"]["run"].replace(".sh", ".ps1")
