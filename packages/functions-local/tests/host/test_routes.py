"""Route templates: what they match, which values they return, and their precedence."""

from __future__ import annotations

import pytest

from functions_local.app import AuthLevel, HttpTrigger
from functions_local.configuration import StartError
from functions_local.http.routes import RouteTable, RouteTemplate
from tests.host.doubles import function


def table(*routes: str, prefix: str = "api", methods: tuple[str, ...] = ("GET",)) -> RouteTable:
    """Make the routes of an app whose functions are named like their routes."""
    triggers = [HttpTrigger("req", route, frozenset(methods), AuthLevel.ANONYMOUS) for route in routes]
    return RouteTable([function(trigger, name=trigger.route) for trigger in triggers], prefix)


def found(routes: RouteTable, path: str, method: str = "GET") -> str | None:
    """Return the name of the route that answers."""
    match = routes.find(method, path)
    return match.route.function.name if match else None


@pytest.mark.parametrize(
    ("template", "path", "values"),
    [
        ("hello", "/hello", {}),
        ("hello", "/HELLO/", {}),
        ("hello", "/hello/x", None),
        ("hello/{name}", "/hello/bob", {"name": "bob"}),
        ("hello/{name}", "/hello", None),
        ("hello/{name?}", "/hello", {}),
        ("hello/{name?}", "/hello/bob", {"name": "bob"}),
        ("{name}.{kind}", "/a.b.txt", {"name": "a.b", "kind": "txt"}),
        ("files/{*path}", "/files/a/b/c.txt", {"path": "a/b/c.txt"}),
        ("files/{*path}", "/files", {}),
        ("files/{**path}", "/files/a", {"path": "a"}),
        ("{*path}", "/", {}),
        ("n/{id:int}", "/n/-5", {"id": "-5"}),
        ("n/{id:int}", "/n/five", None),
        ("n/{id:int}", "/n/99999999999", None),
        ("n/{id:int?}", "/n", {}),
        ("n/{id:min(3):max(5)}", "/n/4", {"id": "4"}),
        ("n/{id:min(3):max(5)}", "/n/6", None),
        ("n/{id:range(1,9)}", "/n/9", {"id": "9"}),
        ("s/{id:length(2)}", "/s/ab", {"id": "ab"}),
        ("s/{id:length(2,3)}", "/s/abcd", None),
        ("s/{id:minlength(2)}", "/s/a", None),
        ("s/{id:maxlength(2)}", "/s/abc", None),
        ("s/{id:alpha}", "/s/abc", {"id": "abc"}),
        ("s/{id:alpha}", "/s/a1", None),
        ("s/{id:bool}", "/s/TRUE", {"id": "TRUE"}),
        (
            "s/{id:guid}",
            "/s/6f9619ff-8b86-d011-b42d-00c04fc964ff",
            {"id": "6f9619ff-8b86-d011-b42d-00c04fc964ff"},
        ),
        ("s/{id:guid}", "/s/nope", None),
        ("s/{id:datetime}", "/s/2026-11-21", {"id": "2026-11-21"}),
        ("s/{id:double}", "/s/1.5", {"id": "1.5"}),
        (r"s/{id:regex(^\d{{3}}-[a-z]+$)}", "/s/123-ab", {"id": "123-ab"}),
        (r"s/{id:regex(^\d{{3}}-[a-z]+$)}", "/s/12-ab", None),
    ],
)
def test_template_matches_as_in_aspnet(template: str, path: str, values: dict[str, str] | None) -> None:
    """Literals, parameters, optional ones, constraints and catch-alls."""
    assert RouteTemplate.compile(template).match(path) == values


@pytest.mark.parametrize("template", ["a/{b", "a/{b:int(1)}", "a/{b:nonsense}", "a/b}"])
def test_wrong_template_is_refused_at_start(template: str) -> None:
    """The function and its route are named."""
    with pytest.raises(StartError, match="has the route"):
        table(template)


@pytest.mark.parametrize(
    ("path", "winner"),
    [
        ("/api/orders/batch", "orders/batch"),
        ("/api/orders/12", "orders/{id:int}"),
        ("/api/orders/x", "orders/{id}"),
        ("/api/orders/x/y", "orders/{*rest}"),
        ("/api/else", "{*rest}"),
        ("/api", "{*rest}"),
    ],
)
def test_more_specific_route_goes_first(path: str, winner: str) -> None:
    """Literal, constrained, plain, catch-all, in any order of definition."""
    routes = table("{*rest}", "orders/{*rest}", "orders/{id}", "orders/{id:int}", "orders/batch")
    assert found(routes, path) == winner


def test_method_chooses_among_routes_of_one_path() -> None:
    """If a more specific route does not accept the method, a later one answers."""
    specific = HttpTrigger("req", "a/b", frozenset({"POST"}), AuthLevel.ANONYMOUS)
    general = HttpTrigger("req", "a/{x}", frozenset({"GET"}), AuthLevel.ANONYMOUS)
    routes = RouteTable([function(specific, name="post"), function(general, name="get")], "api")
    assert found(routes, "/api/a/b", "POST") == "post"
    assert found(routes, "/api/a/b", "GET") == "get"
    assert found(routes, "/api/a/b", "PUT") is None


def test_encoded_slash_stays_part_of_the_value() -> None:
    """Other escapes are decoded."""
    match = table("a/{x}").find("GET", "/api/a/b%2Fc%20d")
    assert match is not None
    assert match.values == {"x": "b%2Fc d"}


def test_prefix_may_be_empty() -> None:
    """host.json's routePrefix "" puts routes at the root."""
    assert found(table("x", prefix=""), "/x") == "x"


@pytest.mark.parametrize("route", ["admin/x", "Runtime", "administration"])
def test_route_that_azure_reserves_is_refused(route: str) -> None:
    """Whatever the prefix: the function would start here and be in error there."""
    with pytest.raises(StartError, match=f"function {route} has the route '{route}', which Azure reserves"):
        table(route)


def test_two_functions_cannot_have_one_route() -> None:
    """Unless their methods differ: one of them would never be called."""
    with pytest.raises(StartError, match=r"functions .* have the same route"):
        table("a/{id}", "A/{ID}")
