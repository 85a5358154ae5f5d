"""The page and its files: what is served, and with which headers."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func
import pytest

from functions.console.blueprint import console_application, console_blueprint
from tests.fakes.asgi import AsgiClient
from tests.unit.api.samples import problem


@pytest.fixture
def browser() -> AsgiClient:
    """Ask the application as a browser does."""
    return AsgiClient(console_application())


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("", "text/html; charset=utf-8"),
        ("/console/main.js", "text/javascript; charset=utf-8"),
        ("/console/theme.css", "text/css; charset=utf-8"),
        ("/console/icon.svg", "image/svg+xml"),
    ],
)
async def test_page_and_files_are_kept_from_harm(browser: AsgiClient, path: str, media_type: str) -> None:
    """By a policy that takes scripts, styles and data from us alone, and lets nobody frame the page."""
    answer = await browser.get(f"/api/ops{path}")
    assert (answer.status, answer.headers["content-type"]) == (200, media_type)
    assert answer.headers["content-security-policy"].split("; ") == [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"


async def test_file_that_is_known_is_not_sent_again() -> None:
    """Its tag says so; another tag gets the file."""
    app = console_application()
    tag = (await AsgiClient(app).get("/api/ops")).headers["etag"]
    known = await AsgiClient(app, {"If-None-Match": tag}).get("/api/ops")
    assert (known.status, known.body) == (304, b"")
    assert (await AsgiClient(app, {"If-None-Match": '"old"'}).get("/api/ops")).status == 200


@pytest.mark.parametrize("name", ["secret.js", "..%2Fapplication.py", "__init__.py"])
async def test_nothing_else_is_served(browser: AsgiClient, name: str) -> None:
    """Names are looked up among the files, never on the disk."""
    problem(await browser.get(f"/api/ops/console/{name}"), 404)


def test_page_and_files_need_no_key() -> None:
    """A browser can't send one with a script; the data behind them needs one."""
    app = df.DFApp()
    app.register_functions(console_blueprint())
    triggers = {each.get_function_name(): each.get_trigger() for each in app.get_functions()}
    assert {name: trigger.route for name, trigger in triggers.items()} == {
        "console_page": "ops",
        "console_files": "ops/console/{name}",
    }
    assert {trigger.auth_level for trigger in triggers.values()} == {func.AuthLevel.ANONYMOUS}
