"""The OpenAPI document names every route, and sources, settings and packages hold no secret."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from jsonschema_rs import validator_for

from functions.api.pages import api_document
from functions.workflows.registry import load_registrations
from tests.fakes.application import wired
from tests.house.documents import ROOT

type Operation = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def applications() -> list[FastAPI]:
    """Return the callers' application and the operators', with every workflow that is registered."""
    wiring = wired(load_registrations())
    return [wiring._callers(), wiring._operators()]


@pytest.fixture(scope="module")
def document(applications: list[FastAPI]) -> dict[str, Any]:
    """Return the document of both."""
    return api_document("Test", *applications)


@pytest.fixture(scope="module")
def shipped() -> dict[str, Any]:
    """Return the document with a workflow of the tests: other workflows need not have an example."""
    wiring = wired()
    return api_document("Test", wiring._callers(), wiring._operators())


def undocumented(application: FastAPI, document: dict[str, Any]) -> list[str]:
    """Return the routes of an application that the document omits."""
    served = [
        (method.lower(), context.path)
        for context in iter_route_contexts(application.routes)
        for method in context.methods or ()
    ]
    assert served
    return [f"{method} {path}" for method, path in served if method not in document["paths"].get(path, {})]


def test_every_route_is_in_the_document(applications: list[FastAPI], document: dict[str, Any]) -> None:
    """No route can be found only by reading the code."""
    assert [route for each in applications for route in undocumented(each, document)] == []


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    """Yield every operation with its name."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Follow a schema's reference into the document."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema


def test_every_request_has_an_example(shipped: dict[str, Any]) -> None:
    """The body has the model's example, and each part of the path has one."""
    for name, operation in operations(shipped):
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            assert resolved(schema, shipped)["examples"], name
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path":
                assert parameter["schema"]["examples"], (name, parameter["name"])


def _faults(schema: dict[str, Any], examples: list[Any], document: dict[str, Any]) -> list[str]:
    checking = validator_for({**schema, "components": document["components"]})
    return [str(fault) for example in examples for fault in checking.iter_errors(example)]


def test_each_example_of_a_model_is_valid_for_it(document: dict[str, Any]) -> None:
    """And so is each example of a field; an example names existing fields only."""
    checked = 0
    for name, model in document["components"]["schemas"].items():
        fields = model.get("properties", {})
        for schema in (model, *fields.values()):
            assert _faults(schema, schema.get("examples", []), document) == [], name
            checked += len(schema.get("examples", []))
        unknown = [each.keys() - fields for each in model.get("examples", []) if fields]
        assert not any(unknown), name
    assert checked > 5


def test_errors_are_problem_documents(document: dict[str, Any]) -> None:
    """The document describes them as they are sent (RFC 9457), with valid examples."""
    for name, operation in operations(document):
        types = {tuple(each["content"]) for status, each in operation["responses"].items() if status >= "400"}
        assert types == {("application/problem+json",)}, name
        for response in operation["responses"].values():
            for described in response["content"].values():
                examples = [described["example"]] if "example" in described else []
                assert _faults(described["schema"], examples, document) == [], name


def test_every_route_but_health_says_that_it_needs_a_key(document: dict[str, Any]) -> None:
    """Or a sign-in."""
    assert document["security"] == [{"functionKey": []}, {"signIn": []}]
    assert [name for name, each in operations(document) if each.get("security") == []] == ["get /api/health"]


#: A comparison in a Table Storage filter (OData), and whether its right side is a parameter.
_COMPARISON = re.compile(r"\b\w+ (?:eq|ne|gt|ge|lt|le) (@\w)?")


def _comparisons(code: str) -> list[bool]:
    """Return whether each comparison in a string is with a parameter."""
    nodes = ast.walk(ast.parse(code))
    texts = [each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return [bool(each[1]) for text in texts for each in _COMPARISON.finditer(text)]


def test_filters_compare_with_parameters_only() -> None:
    """So no value, whatever its source, is parsed as part of a filter."""
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "functions").rglob("*.py")]
    comparisons = [each for code in files for each in _comparisons(code)]
    assert comparisons != []
    assert all(comparisons)


def test_committed_settings_hold_no_secret() -> None:
    """Git ignores the developer's. The sample's storage is Azurite's, and the bus key a placeholder."""
    assert "local.settings.json" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    values = json.loads((ROOT / "local.settings.sample.json").read_text(encoding="utf-8"))["Values"]
    assert {values["AzureWebJobsStorage"], values["StateStore"]} == {"UseDevelopmentStorage=true"}
    assert "SharedAccessKey=SAS_KEY_VALUE;" in values["ServiceBusConnection"]
    assert [name for name in values if name.endswith("_KEY")] == []


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-local.txt", "requirements-dev.txt"])
def test_packages_are_pinned_with_their_hashes(name: str) -> None:
    """So pip installs exactly these files: with one hash given, it requires all of them."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    packages = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert packages != []
    pinned = re.compile(r"[\w.-]+(\[[\w,-]+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}")
    assert [line for line in packages if not pinned.match(line)] == []
