"""Moves a shard of the state store to another of its accounts: `python -m local.move_shard SHARD ACCOUNT`.

The environment names the accounts, as for the application: `StateStore__0`, `StateStore__1` and so on.
Exit codes: 0: it is there. 1: a fault; run it again. 2: refused, nothing changed. 130: stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack

from functions.pattern.errors import SettingsError, TransientError
from functions.settings import Settings
from functions.store.accounts import load_accounts
from functions.store.connect import connect
from functions.store.shard_move import SETTLES, ShardMove
from functions.store.tables import TASKS_TABLE
from local.platform import INTERRUPTED

_FAILED, _REFUSED = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Move the shard that the command line names, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m local.move_shard",
        description="Moves a shard of the state store to another account, while the application runs. Its"
        f" tasks stand still for {SETTLES} s, and as long as it takes to compare its rows in both accounts.",
    )
    parser.add_argument("shard", type=int, help="its number, from 0")
    parser.add_argument("account", type=int, help="the number of the account, as in StateStore__1")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("functions.store").setLevel(logging.INFO)
    try:
        copied = asyncio.run(_move(chosen.shard, chosen.account))
    except KeyboardInterrupt:
        print("stopped on the way: run it again, or the shard may stay closed", file=sys.stderr)
        return INTERRUPTED
    except (SettingsError, ValueError) as refused:
        print(refused, file=sys.stderr)
        return _REFUSED
    except TransientError as fault:
        print(f"{fault}: run it again, or the shard may stay closed", file=sys.stderr)
        return _FAILED
    print(f"shard {chosen.shard} is in account {chosen.account}; {copied} rows were copied")
    return 0


async def _move(shard: int, account: int) -> int:
    async with AsyncExitStack() as stack:
        accounts = [connect(each) for each in load_accounts(os.environ, Settings())]
        for storage in accounts:
            await stack.enter_async_context(storage)
        tables = [storage.table(TASKS_TABLE) for storage in accounts]
        return await ShardMove(tables, pause=asyncio.sleep).move(shard, account)


if __name__ == "__main__":
    sys.exit(main())
