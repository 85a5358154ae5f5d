"""Application settings: `local.settings.json` of the app folder, overlaid by the process environment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from functions_local.errors import StartError

LOCAL_SETTINGS = "local.settings.json"

_PLACEHOLDER = re.compile(r"%([^%]+)%")


@dataclass(frozen=True, slots=True)
class AppSettings:
    """What the app reads as its environment; a name that is set in the process wins over the file."""

    values: Mapping[str, str]

    @classmethod
    def load(cls, app_folder: Path, environment: Mapping[str, str]) -> AppSettings:
        """Read the file, if there is one, and lay the environment over it."""
        return cls({**_read_file(app_folder / LOCAL_SETTINGS), **environment})

    def export(self, environment: MutableMapping[str, str], app_folder: Path) -> None:
        """Put the settings where the app's own code looks for them, with those the Azure host always sets."""
        environment.update(self.values)
        environment.setdefault("FUNCTIONS_WORKER_RUNTIME", "python")
        environment.setdefault("AZURE_FUNCTIONS_ENVIRONMENT", "Development")
        environment["AzureWebJobsScriptRoot"] = str(app_folder)

    def resolve(self, text: str, *, used_by: str) -> str:
        """Replace each `%NAME%` by that setting, as Azure does in binding attributes.

        Raises StartError naming the setting that is missing and what uses it.
        """

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in self.values:
                raise StartError(f"{used_by} needs the setting {name}: {how_to_set(name)}")
            return self.values[name]

        return _PLACEHOLDER.sub(value, text)

    def disabled(self, function: str) -> bool:
        """Whether `AzureWebJobs.<function>.Disabled` (or its form with underscores) is set to true."""
        names = (f"AzureWebJobs.{function}.Disabled", f"AzureWebJobs_{function}_Disabled")
        return any(self.values.get(name, "").lower() in {"1", "true"} for name in names)


def how_to_set(name: str) -> str:
    """Say, for an error's text, where a missing setting belongs."""
    return f'add "{name}" to Values in {LOCAL_SETTINGS}, or set it in the environment'


def _read_file(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise StartError(f"{path} is not valid JSON: {error}") from error
    values = content.get("Values", {}) if isinstance(content, dict) else None
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise StartError(f'{path} must be an object whose "Values" are all strings')
    return values
