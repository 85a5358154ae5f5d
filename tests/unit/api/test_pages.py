"""The API pages come from us alone: a page without inline script, its files, and the document."""

from __future__ import annotations

import re

import pytest

from functions.api.pages import pages_application
from tests.fakes.asgi import AsgiClient, HttpAnswer

DOCUMENT = {"openapi": "3.1.0", "paths": {}}


@pytest.fixture
def client() -> AsgiClient:
    """Ask for the pages of an empty document."""
    return AsgiClient(pages_application(DOCUMENT))


def links(page: HttpAnswer) -> list[str]:
    """Give what the page makes a browser load."""
    return re.findall(r'(?:src|href)="(?!data:)([^"]+)"', page.body.decode())


async def test_the_page_loads_nothing_but_files_of_ours(client: AsgiClient) -> None:
    """Each of them is there, so the page works without the internet."""
    page = await client.get("/api/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    answers = {link: (await client.get(link)).status for link in links(page)}
    assert answers == dict.fromkeys(answers, 200)
    assert "/api/docs/swagger-ui-bundle.js" in answers


async def test_strange_scripts_are_kept_out(client: AsgiClient) -> None:
    """By the Content-Security-Policy, which allows no inline script; the page has none."""
    page = await client.get("/api/docs")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script[^>]*>[^<]|\son\w+=", page.body.decode())


async def test_the_licence_goes_with_swagger_ui(client: AsgiClient) -> None:
    """As it asks for (Apache License 2.0, section 4)."""
    licence = await client.get("/api/docs/swagger-ui-license.txt")
    assert b"SmartBear" in licence.body
    assert b"TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in licence.body


async def test_a_file_that_is_known_is_not_sent_again() -> None:
    """Its tag says so."""
    app, path = pages_application(DOCUMENT), "/api/docs/swagger-ui-bundle.js"
    tag = (await AsgiClient(app).get(path)).headers["etag"]
    answer = await AsgiClient(app, headers={"If-None-Match": tag}).get(path)
    assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", tag)


@pytest.mark.parametrize("name", ["nothing.js", "..%2Fpages.py", "__init__.py", "a/b"])
async def test_nothing_else_is_served(client: AsgiClient, name: str) -> None:
    """A name is looked up, and never sought on the disk."""
    assert (await client.get(f"/api/docs/{name}")).status == 404


async def test_the_document_is_what_it_is(client: AsgiClient) -> None:
    """Unchanged."""
    assert (await client.get("/api/openapi.json")).json == DOCUMENT
