"""Policies by what Azure publishes; what the folder lacks is not checked, and the tests name it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from tree_sitter import Node

from tests.infra.azure.kql import Read, read_query, read_stages
from tests.infra.azure.published import listed, newest_version, resource_type
from tests.infra.azure.types import faults_of, unknown_read
from tests.infra.bicep.template import named, text_of, walk
from tests.infra.bicep.values import Value, at, items_of
from tests.infra.infrastructure import Infrastructure
from tests.infra.policies import Policy
from tests.infra.policies.settings import DURABLE_CONNECTION, HOST

_DEPLOYED_TO = re.compile(r"^targetScope = '(\w+)'", re.MULTILINE)
_SCOPES = {"managementGroup": 2, "subscription": 4, "resourceGroup": 8}
_EXTENSION = 16


def resources_fit_their_types(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each property exists and has an allowed value, and that none is missing."""
    for environment in infrastructure.environments:
        for resource in environment.resources:
            published = resource_type(f"{resource.type}@{resource.api_version}")
            for fault in faults_of(resource.body, published) if published else ():
                yield f"{environment.name}: {resource.title}{fault}"


def resources_are_where_they_may_be(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each resource can be deployed to the scope of its template, or onto another resource."""
    for environment in infrastructure.environments:
        for resource in environment.resources:
            published = resource_type(f"{resource.type}@{resource.api_version}")
            target = _DEPLOYED_TO.search(resource.template.read_text(encoding="utf-8"))
            scope = _EXTENSION if resource.at("scope") else _SCOPES[target[1] if target else "resourceGroup"]
            if published and not published.entry["writableScopes"] & scope:
                yield f"{environment.name}: {resource.title} can't be deployed there"


def properties_that_are_read_exist(infrastructure: Infrastructure) -> Iterator[str]:
    """Require it of each `resource.property` in an expression, also of a resource that exists already."""
    for template in infrastructure.templates:
        for path in map(_path, walk(template.root)):
            resource = template.resources.get(path[0]) if len(path) > 1 else None
            published = resource_type(resource.source) if resource else None
            missing = unknown_read(path[1:], published) if published else None
            if missing:
                yield f"{template.path.name}: {'.'.join(path)} has no {missing}"


def versions_are_the_newest(infrastructure: Infrastructure) -> Iterator[str]:
    """Require the newest stable API version of the folder."""
    for name in resource_types(infrastructure):
        kind, version = name.split("@")
        newest = newest_version(kind)
        if newest and newest != version:
            yield f"{kind} is used in version {version}, and the newest stable one is {newest}"


def queries_name_tables_and_columns(infrastructure: Infrastructure) -> Iterator[str]:
    """Require it of the query files, and of what the workbook and the alerts add to them."""
    tables = listed("log-tables")
    if tables is None:
        return
    files = sorted((infrastructure.folder / "infra/queries").glob("*.kql"))
    queries = {path.stem: read_query(path.read_text(encoding="utf-8"), tables) for path in files}
    for name, read in chain(queries.items(), _continued(infrastructure, queries)):
        for each in read.unknown:
            yield f"query {name}: {each} does not exist"


def metrics_exist(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each metric of an alert or of the workbook exists, with its aggregation and dimensions."""
    for kind, metric, aggregation, dimensions in _metrics_used(infrastructure):
        known = {name.lower(): metrics for name, metrics in (listed("metrics") or {}).items()}
        found = known.get(kind.lower(), {}).get(metric)
        if found is None:
            yield from [f"{kind} has no metric {metric}"] if known else []
            continue
        if aggregation is not None and aggregation not in found["aggregations"]:
            yield f"metric {metric} has no aggregation {aggregation}"
        for name in set(dimensions) - set(found["dimensions"]):
            yield f"metric {metric} has no dimension {name}"


def settings_of_the_host_exist(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that host, worker and extensions know each setting that is not ours, on Flex Consumption."""
    known, theirs_by_name = listed("app-settings"), HOST | {DURABLE_CONNECTION}
    if known is None:
        return
    for environment in infrastructure.environments:
        for name in environment.settings.keys() & known["not_on_flex"]:
            yield f"{environment.name}: {name} means nothing on Flex Consumption"
        theirs = [name for name in environment.settings if name in theirs_by_name or "__" in name]
        for name in theirs:
            ours = name.startswith(("StateStore__", "AgentStore__"))
            if not ours and name not in known["names"] and not _matches(name, known["patterns"]):
                yield f"{environment.name}: nothing reads the setting {name}"


AZURE_POLICIES = (
    resources_fit_their_types,
    resources_are_where_they_may_be,
    properties_that_are_read_exist,
    versions_are_the_newest,
    queries_name_tables_and_columns,
    metrics_exist,
    settings_of_the_host_exist,
)

#: The list of names that a policy needs besides the types.
NAMES: dict[Policy, str] = {
    queries_name_tables_and_columns: "log-tables",
    metrics_exist: "metrics",
    settings_of_the_host_exist: "app-settings",
}


def resource_types(infrastructure: Infrastructure) -> list[str]:
    """Return the type and version of every resource in the templates, deployed by them or not."""
    sources = (each.source for template in infrastructure.templates for each in template.resources.values())
    return sorted(set(sources))


def _path(node: Node) -> list[str]:
    """Return the names of `one.two.three`, without indexes; empty when it does not begin with a name."""
    match node.type:
        case "identifier":
            return [text_of(node)]
        case "member_expression":
            owner, name = named(node)
            before = _path(owner)
            return [*before, text_of(name)] if before else []
        case "subscript_expression":
            return _path(named(node)[0])
        case _:
            return []


def _continued(infrastructure: Infrastructure, queries: dict[str, Read]) -> Iterator[tuple[str, Read]]:
    """Yield what the workbook and the log alerts make of the queries."""
    for item in infrastructure.json("infra/workbook/workbook.json")["items"]:
        found = re.match(r"<([\w-]+)>(.*)", item["content"].get("query", ""), re.DOTALL)
        if found:
            yield f"{found[1]} in the workbook", read_stages(found[2], Read((), queries[found[1]].columns))
    for alert in infrastructure.json("infra/modules/watching/alerts.json")["log"]:
        asked = [each["name"] for each in alert["dimensions"]] + (
            [alert["column"]] if alert["column"] else []
        )
        stages = f"| project {', '.join(asked)}" if asked else ""
        yield (
            f"{alert['query']} in {alert['name']}",
            read_stages(stages, Read((), queries[alert["query"]].columns)),
        )


def _metrics_used(infrastructure: Infrastructure) -> Iterator[tuple[str, str, str | None, list[str]]]:
    """Yield namespace, metric, aggregation and dimensions."""
    for alert in infrastructure.each("Microsoft.Insights/metricAlerts"):
        for each in items_of(alert.at("properties", "criteria", "allOf")):
            names = [str(at(dimension, "name")) for dimension in items_of(at(each, "dimensions"))]
            yield (
                _text(each, "metricNamespace"),
                _text(each, "metricName"),
                _text(each, "timeAggregation"),
                names,
            )
    for item in infrastructure.json("infra/workbook/workbook.json")["items"]:
        for each in item["content"].get("metrics", []):
            split = [each["splitBy"]] if each.get("splitBy") else []
            yield each["namespace"], each["metric"].rpartition("--")[2], None, split


def _text(value: Value, name: str) -> str:
    return str(at(value, name))


def _matches(name: str, patterns: list[str]) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)
