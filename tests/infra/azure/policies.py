"""Policies by the types and names that Azure publishes; types that the folder lacks are not checked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from tests.infra.azure.kql import Read, read_query, read_stages
from tests.infra.azure.published import listed, newest_version, resource_type, resource_types
from tests.infra.azure.types import faults_of, unknown_read
from tests.infra.bicep.template import Template, named, text_of, walk
from tests.infra.bicep.values import at, items_of
from tests.infra.infrastructure import Environment, Infrastructure
from tests.infra.policies import Policy, of_environments, of_templates, policy
from tests.infra.policies.settings import DURABLE_CONNECTION, HOST

_DEPLOYED_TO = re.compile(r"^targetScope = '(\w+)'", re.MULTILINE)
_SCOPES = {"managementGroup": 2, "subscription": 4, "resourceGroup": 8}
_EXTENSION = 16


@of_environments
def resources_fit_their_types(environment: Environment) -> Iterator[str]:
    """Require existing properties with allowed values, none missing, and an allowed scope."""
    for resource in environment.deployment.resources:
        published = resource_type(f"{resource.type}@{resource.api_version}")
        if published is None:
            continue
        yield from (f"{resource.title}{fault}" for fault in faults_of(resource.body, published))
        target = _DEPLOYED_TO.search(resource.template.read_text(encoding="utf-8"))
        scope = _EXTENSION if resource.at("scope") else _SCOPES[target[1] if target else "resourceGroup"]
        if not published.entry["writableScopes"] & scope:
            yield f"{resource.title} can't be deployed to this scope"


@of_templates
def properties_that_are_read_exist(template: Template) -> Iterator[str]:
    """Require that each `resource.property` in an expression exists, also of an existing resource."""
    for path in map(_path, walk(template.root)):
        resource = template.resources.get(path[0]) if len(path) > 1 else None
        published = resource_type(resource.source) if resource else None
        missing = unknown_read(path[1:], published) if published else None
        if missing:
            yield f"{'.'.join(path)} has no {missing}"


@policy
def versions_are_the_newest(infrastructure: Infrastructure) -> Iterator[str]:
    """Require the newest stable API version of the folder."""
    for name in resource_types(infrastructure):
        kind, version = name.split("@")
        newest = newest_version(kind)
        if newest and newest != version:
            yield f"{kind} is used in version {version}, and the newest stable one is {newest}"


@policy
def queries_name_tables_and_columns(infrastructure: Infrastructure) -> Iterator[str]:
    """Require existing tables and columns in the query files, and in the workbook and the alerts."""
    tables = listed("log-tables")
    files = sorted((infrastructure.folder / "infra/queries").glob("*.kql")) if tables is not None else []
    queries = {path.stem: read_query(path.read_text(encoding="utf-8"), tables or {}) for path in files}
    for query, further in [(name, "") for name in queries] + _continued(infrastructure):
        if query in queries:
            read = read_stages(further, Read((), queries[query].columns)) if further else queries[query]
            yield from (f"query {query} {further}: {each} does not exist" for each in read.unknown)


@policy
def metrics_exist(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each metric of an alert or of the workbook exists, with its aggregation and dimensions."""
    published = {name.lower(): metrics for name, metrics in (listed("metrics") or {}).items()}
    for kind, metric, aggregation, dimensions in _metrics_used(infrastructure) if published else ():
        found = published.get(kind.lower(), {}).get(metric, {"aggregations": [], "dimensions": []})
        if aggregation not in {*found["aggregations"], None} or not found["aggregations"]:
            yield f"{kind} has no metric {metric} with the aggregation {aggregation}"
        for name in set(dimensions) - set(found["dimensions"]):
            yield f"metric {metric} has no dimension {name}"


@of_environments
def settings_of_the_host_exist(environment: Environment) -> Iterator[str]:
    """Require that host, worker and extensions read each setting that is not ours, on Flex Consumption."""
    published = listed("app-settings") or {}
    for name in environment.settings if published else ():
        is_ours = name not in HOST | {DURABLE_CONNECTION} and "__" not in name
        is_ours |= name.startswith(("StateStore__", "AgentStore__"))
        is_read = name in published["names"] or any(re.search(each, name) for each in published["patterns"])
        if name in published["not_on_flex"] or not (is_ours or is_read):
            yield f"nothing reads the setting {name} on Flex Consumption"


#: The list of names that a policy needs besides the types.
NAMES: dict[Policy, str] = {
    queries_name_tables_and_columns: "log-tables",
    metrics_exist: "metrics",
    settings_of_the_host_exist: "app-settings",
}


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


def _continued(infrastructure: Infrastructure) -> list[tuple[str, str]]:
    """Return the queries of the workbook and of the log alerts, each with the stages that are added."""
    items = infrastructure.json("infra/workbook/workbook.json")["items"]
    texts = [re.match(r"<([\w-]+)>(.*)", each["content"].get("query", ""), re.DOTALL) for each in items]
    declared = infrastructure.json("infra/modules/watching/alerts.json")
    alerts = [*declared["log"], *declared["hub"]]
    columns = [[*(each["name"] for each in alert["dimensions"]), alert["column"]] for alert in alerts]
    return [(found[1], found[2]) for found in texts if found] + [
        (alert["query"], f"| project {', '.join(filter(None, named_columns))}")
        for alert, named_columns in zip(alerts, columns, strict=True)
        if any(named_columns)
    ]


def _metrics_used(infrastructure: Infrastructure) -> Iterator[tuple[str, str, str | None, list[str]]]:
    """Yield namespace, metric, aggregation and dimensions."""
    alerts = "Microsoft.Insights/metricAlerts"
    for alert in (each for environment in infrastructure.environments for each in environment.of(alerts)):
        for each in items_of(alert.at("properties", "criteria", "allOf")):
            names = [str(at(dimension, "name")) for dimension in items_of(at(each, "dimensions"))]
            kind, metric, aggregation = (
                str(at(each, name)) for name in ("metricNamespace", "metricName", "timeAggregation")
            )
            yield kind, metric, aggregation, names
    for item in infrastructure.json("infra/workbook/workbook.json")["items"]:
        for each in item["content"].get("metrics", []):
            split = [each["splitBy"]] if each.get("splitBy") else []
            yield each["namespace"], each["metric"].rpartition("--")[2], None, split
