"""Gets the client's source package of the installed version, and runs its live tests with our fixtures.

They take half an hour and more, so no other test run includes them. The argument is one of pytest's
expressions, such as `test_send or test_receive`; without one, all run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

#: Unsupported by the local broker: WebSockets, TLS, authorisation, fault injection by another program.
EXCLUDED = (
    *("over_websocket", "with_create_event_batch", "with_auth_error", "with_ssl_context"),
    *(
        "invalid_key",
        "invalid_policy",
        "invalid_credential",
        "named_key_credential",
        "invalid_proxy",
        "faultinjector",
    ),
)
_HERE = Path(__file__).parent


def main() -> int:
    """Return pytest's exit code."""
    wanted = [f"({sys.argv[1]})"] if len(sys.argv) > 1 else []
    chosen = " and ".join([*wanted, *(f"not {name}" for name in EXCLUDED)])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tests = _live_tests(folder)
        shutil.copy(_HERE / "fixtures.py", tests / "conftest.py")
        places = ("-c", "/dev/null", "--rootdir", str(tests), str(tests))
        options = ("-p", "no:cacheprovider", "--asyncio-mode=auto", "--timeout=300", "-q", "-rf")
        command = [sys.executable, "-m", "pytest", *places, *options, "-k", chosen]
        return subprocess.run(command, check=False).returncode


def _live_tests(folder: Path) -> Path:
    package = f"azure-eventhub=={version('azure-eventhub')}"
    get = ("download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary", "azure-eventhub")
    subprocess.run([sys.executable, "-m", "pip", *get, "--dest", folder, package], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    (found,) = folder.glob("*/tests/livetest")
    tests = Path(shutil.move(found, folder / "live"))
    shutil.copy(found.parent / "tracing_common.py", tests)
    return tests


if __name__ == "__main__":
    sys.exit(main())
