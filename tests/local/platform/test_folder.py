"""The data folder belongs to one platform at a time, and `reset` empties it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from local.platform import FolderInUseError, StartRefusedError, reset
from local.platform import folder as folder_module
from local.platform.folder import held


async def test_a_second_platform_on_the_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    """The refusal names the folder and the process that holds it."""
    async with held(tmp_path):
        with pytest.raises(
            FolderInUseError, match=r"in use by a running platform \(process \d+\)"
        ) as refusal:
            async with held(tmp_path):
                pass
    assert str(tmp_path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


async def test_the_folder_is_free_again_afterwards(tmp_path: Path) -> None:
    """A platform that has stopped does not block the next one."""
    for _ in range(2):
        async with held(tmp_path / "new"):
            pass


@pytest.mark.process
async def test_the_folder_stays_held_while_a_part_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that outlives its platform, as an Azurite that is still saving may, keeps others out."""
    monkeypatch.setattr(folder_module, "_LEAVING_WITHIN", 0.1)
    async with held(tmp_path) as lock:
        part = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, pass_fds=(lock,))
    (tmp_path / "lock").write_text("999999999")  # the platform itself is gone
    with pytest.raises(FolderInUseError):
        async with held(tmp_path):
            pass
    await part.communicate()
    async with held(tmp_path):
        pass


async def test_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    """With the reason, and the option that chooses another."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StartRefusedError, match=r"notes.txt cannot be used \(.+\).*--data"):
        async with held(tmp_path / "notes.txt"):
            pass


async def test_reset_makes_no_folder(tmp_path: Path) -> None:
    """A wrong name leaves nothing behind."""
    assert await reset(tmp_path / "typo") == []
    assert _names_in(tmp_path) == []


async def test_reset_deletes_the_parts_state_and_says_so(tmp_path: Path) -> None:
    """Every part's folder is deleted, and its size printed; a file of the developer's stays."""
    for part in ("azurite", "servicebus", "host"):
        (tmp_path / part).mkdir()
    (tmp_path / "host" / "durable.db").write_bytes(b"x" * 1234)
    (tmp_path / "notes.txt").write_text("mine")
    deleted = await reset(tmp_path)
    assert len(deleted) == 3
    assert f"{tmp_path / 'host'} (1,234 bytes)" in deleted
    assert _names_in(tmp_path) == ["lock", "notes.txt"]


async def test_reset_with_nothing_to_delete_says_nothing(tmp_path: Path) -> None:
    """A second reset is harmless."""
    assert await reset(tmp_path / "never-used") == []


async def test_reset_is_refused_while_a_platform_runs(tmp_path: Path) -> None:
    """Data that is in use is not touched."""
    (tmp_path / "azurite").mkdir()
    async with held(tmp_path):
        with pytest.raises(FolderInUseError):
            await reset(tmp_path)
    assert (tmp_path / "azurite").exists()


def _names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
