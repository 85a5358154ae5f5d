"""The package starts on its own: unzipped into a separate folder, it processes an order."""

from __future__ import annotations

import shutil
import zipfile
from http import HTTPStatus
from pathlib import Path

import pytest

from local.platform import ANY_PORTS, Platform, PlatformOptions
from tests.e2e.caller import NEEDS_ORDERS, Caller
from tests.infra.package.package import ROOT, make_package

#: Records where the running application was imported from.
_TELL = """
from pathlib import Path
import functions.wiring
Path(__file__).with_name("origin").write_text(functions.wiring.__file__)
"""


#: What is served from files in the package: the console, the API's pages.
_SERVED = ("/api/ops", "/api/ops/console/main.js", "/api/docs", "/api/docs/docs.js")


@pytest.mark.process
@NEEDS_ORDERS
async def test_package_processes_an_order_and_serves_its_pages(tmp_path: Path) -> None:
    """It contains everything that it needs from this project."""
    make_package(tmp_path / "package.zip")
    app = tmp_path / "app"
    with zipfile.ZipFile(tmp_path / "package.zip") as archive:
        archive.extractall(app)
    shutil.copy(ROOT / "local.settings.sample.json", app)  # in Azure, settings are not in the package
    with (app / "function_app.py").open("a", encoding="utf-8") as entry:
        entry.write(_TELL)
    queues = ROOT / "infra" / "queues.json"  # nor are queues
    options = PlatformOptions(
        ports=ANY_PORTS, data=tmp_path / "data", app=app, queues=queues, in_memory_storage=True
    )
    async with Platform(options) as platform, Caller.of(platform) as caller:
        assert await caller.put("packaged") == HTTPStatus.ACCEPTED
        await caller.until_state("packaged", "Processed")
        for path in _SERVED:
            async with caller.session.get(path) as answer:
                assert answer.status == HTTPStatus.OK, path
    assert Path((app / "origin").read_text(encoding="utf-8")).is_relative_to(app)
