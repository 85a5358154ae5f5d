"""The data folder (`.local/`): used by one platform at a time, and emptied by `reset`."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from local.platform.parts import HOSTS, FolderInUseError, StartRefusedError

#: The state of the parts, each in its own folder below the data folder.
PART_FOLDERS = ("azurite", "servicebus", *HOSTS, "scheduler", "agents", "supervisor", "in-memory")
_LOCK_FILE = "lock"
#: Seconds within which the watchdog of a killed platform has stopped its parts.
_LEAVING_WITHIN = 8.0
_POLL = 0.05


@asynccontextmanager
async def held(folder: Path) -> AsyncIterator[int]:
    """Lock `folder`, created if it is missing, and yield the lock's file descriptor for the parts to inherit.

    The lock is the kernel's (`flock`), and is released only when every process that inherited it is gone: a
    folder to which Azurite still writes stays locked, even if the platform that started it was killed.

    Raises `FolderInUseError`, or `StartRefusedError` when the folder cannot be created.
    """
    lock = _open_lock(folder)
    try:
        await _acquire(lock, folder)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield lock
    finally:
        os.close(lock)


async def reset(folder: Path) -> list[str]:
    """Delete a platform's state below `folder`; return what was deleted. Raises `FolderInUseError`."""
    if not await asyncio.to_thread((folder / _LOCK_FILE).exists):  # no platform was ever here
        return []
    async with held(folder):
        return await asyncio.to_thread(_delete_parts, folder)


def _open_lock(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StartRefusedError(
            f"The data folder {folder} cannot be used ({error.strerror}). Choose another with --data."
        ) from error


async def _acquire(lock: int, folder: Path) -> None:
    deadline = asyncio.get_running_loop().time() + _LEAVING_WITHIN
    while not _try_lock(lock):
        holder = os.pread(lock, 20, 0).decode() or "unknown"
        if _is_alive(holder) or asyncio.get_running_loop().time() > deadline:
            raise FolderInUseError(
                f"The data folder {folder} is in use by a running platform (process {holder}). "
                f"Stop that one first, or choose another folder with --data."
            )
        await asyncio.sleep(_POLL)


def _try_lock(lock: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _is_alive(holder: str) -> bool:
    try:
        os.kill(int(holder), 0)
    except PermissionError:
        return True
    except (ProcessLookupError, ValueError):
        return False
    return True


def _delete_parts(folder: Path) -> list[str]:
    deleted = []
    for path in (folder / name for name in PART_FOLDERS):
        if path.exists():
            deleted.append(f"{path} ({_size(path):,} bytes)")
            shutil.rmtree(path)
    return deleted


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
