"""The app's settings: `local.settings.json` and the process environment. Also how a settings file is read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOCAL_SETTINGS = "local.settings.json"

#: A string, to be kept, or a comment, which .NET's JSON readers skip; and a trailing comma.
_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')

_PLACEHOLDER = re.compile(r"%([^%]+)%")


class StartError(Exception):
    """The host cannot start; each line of the text names one fault and its fix.

    `detail` is a stack trace or similar text, printed only with --verbose.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class AppSettings:
    """The app's settings: `local.settings.json`, overridden by the process environment."""

    values: Mapping[str, str]

    @classmethod
    def load(cls, app_folder: Path, environment: Mapping[str, str]) -> AppSettings:
        """Read the file, if it exists, and apply the environment. Raises StartError when it is malformed."""
        path = app_folder / LOCAL_SETTINGS
        content = read_json(path) if path.exists() else {}
        if is_true(in_any_case(content, "IsEncrypted")):
            raise StartError(f"{path} is encrypted: run `func settings decrypt` in that folder")
        values = in_any_case(content, "Values") or {}
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise StartError(f'{path} must be an object whose "Values" are all strings')
        return cls({**values, **environment})

    def export(self, environment: MutableMapping[str, str], app_folder: Path, address: str) -> None:
        """Export the settings to `environment`, with the variables that the Azure host always sets.

        `address` is the host's own, such as `127.0.0.1:7071`.
        """
        environment.update(self.values)
        environment.setdefault("FUNCTIONS_WORKER_RUNTIME", "python")
        environment.setdefault("AZURE_FUNCTIONS_ENVIRONMENT", "Development")
        environment["AzureWebJobsScriptRoot"] = str(app_folder)
        environment["WEBSITE_HOSTNAME"] = address

    def resolve(self, text: str, *, used_by: str) -> str:
        """Replace each `%NAME%` with that setting, as Azure does in binding attributes.

        Raises StartError with the name of the missing setting and `used_by`.
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


def in_any_case(section: Mapping[str, Any], name: str) -> Any:
    """Return the value of that name, which .NET's JSON readers find in any case of its letters, or None."""
    return next((value for known, value in section.items() if known.lower() == name.lower()), None)


def is_true(value: object) -> bool:
    """Whether a value is true or the text `true` in any case, as .NET reads it."""
    return str(value).lower() == "true"


def how_to_set(name: str) -> str:
    """Return the part of an error message about where to add a missing setting."""
    return f'add "{name}" to Values in {LOCAL_SETTINGS}, or set it in the environment'


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object as .NET does: with a byte-order mark, comments and trailing commas.

    Raises StartError for any other content.
    """
    try:
        text = _STRING_OR_COMMENT.sub(_only_string, path.read_text(encoding="utf-8-sig"))
        content = json.loads(_STRING_OR_LAST_COMMA.sub(_only_string, text))
    except ValueError as error:
        raise StartError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise StartError(f"{path} must be a JSON object")
    return content


def _only_string(match: re.Match[str]) -> str:
    return match[1] or " "
