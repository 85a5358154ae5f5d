"""The commands of `python -m local` that run the platform; each returns the exit code.

A command that sends orders imports its modules after the start of the platform.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from local.platform import (
    INTERRUPTED,
    ROOT,
    Addresses,
    Platform,
    PlatformOptions,
    reset,
    until_stop_signal,
)


async def up(options: PlatformOptions) -> int:
    """Run the platform until it is stopped."""
    return await _on_platform(options, Platform.run_until_failure)


async def run(options: PlatformOptions) -> int:
    """Run the platform, show the progress of one order and what to try next, until it is stopped."""

    async def show_and_stay(platform: Platform) -> int:
        from rich.console import Console  # noqa: PLC0415 - faster start

        from local.callers.one_order import next_command, show_one_order  # noqa: PLC0415 - faster start

        url = platform.addresses.host
        await platform.unless_a_part_fails(show_one_order(url, Console()))
        print(f"\nNow submit one yourself:\n\n{next_command(url)}\n")
        print("Ctrl-C stops everything.", flush=True)
        await platform.run_until_failure()

    return await _on_platform(options, show_and_stay)


async def demo(options: PlatformOptions, orders: int, deliveries: int) -> int:
    """Run the platform for `orders` and `deliveries`. Return 0 only if all end as expected."""

    async def show(platform: Platform) -> int:
        addresses = platform.addresses
        return await platform.unless_a_part_fails(
            demo_at(addresses.host, orders, deliveries, addresses.service_bus_connection)
        )

    return await _on_platform(options, show, stopped=INTERRUPTED)


async def demo_at(url: str, orders: int, deliveries: int, service_bus: str | None = None) -> int:
    """Send orders and deliveries to a running application. Return 0 only if all end as expected."""
    from rich.console import Console  # noqa: PLC0415 - faster start

    from local.callers.demo import run_demo, summary  # noqa: PLC0415 - faster start

    console = Console()
    result = await run_demo(url, console, orders=orders, deliveries=deliveries, service_bus=service_bus)
    console.print(summary(result))
    return 0 if result.all_as_expected else 1


async def forget(data: Path) -> int:
    """Delete all state of a platform that is not running, and print what was deleted."""
    deleted = await reset(data)
    print("\n".join(f"deleted {what}" for what in deleted) or f"nothing to delete in {data}")
    return 0


async def _on_platform(
    options: PlatformOptions, work: Callable[[Platform], Awaitable[int]], *, stopped: int = 0
) -> int:
    """Run the platform for `work`, until its end, a failed part, or a signal (which returns `stopped`)."""
    platform = Platform(options)

    async def started() -> int:
        async with platform:
            _print_addresses(platform.addresses, options)
            return await work(platform)

    return await until_stop_signal(started(), stopped=stopped)


def _print_addresses(addresses: Addresses, options: PlatformOptions) -> None:
    ports = addresses.ports
    host = [
        ("host", f"{addresses.host}/api/docs", "the application: its requests"),
        ("", f"{addresses.operators}/api/ops", "the operators' console"),
    ]
    reset = "python -m local reset"
    if options.data != PlatformOptions().data:
        reset += f" --data {options.data}"
    kept = "tables in memory: the next start" if options.in_memory_storage else f"all state; `{reset}`"
    rows = [
        *(host if options.app.resolve() == ROOT else [("host", addresses.host, str(options.app))]),
        *((f"host-{number}", url, "the same") for number, url in enumerate(addresses.hosts[1:], 2)),
        ("broker", addresses.service_bus, "Service Bus"),
        ("", f"{addresses.admin}/queues", "its queues' figures"),
        ("azurite", addresses.table, f"tables; blobs on {ports.blob}, queues on {ports.queue}"),
        ("data", str(options.state), f"{kept} deletes it"),
    ]
    print()
    for part, address, what in rows:
        print(f"  {part:<8} {address:<31} {what}")
    print(f"\nready: {addresses.host}", flush=True)


async def lock_workflows() -> int:
    """Lock new versions of workflows. Returns 2 when a version that is locked has changed."""
    from local import version_locks  # noqa: PLC0415 - faster start

    new = version_locks.unlocked()
    faults = version_locks.lock()
    left = version_locks.unlocked()
    locked = [f"{name} is locked now: commit its versions.lock" for name in new if name not in left]
    print("\n".join([*locked, *faults]) or "all versions of all workflows are locked, as they are")
    return 2 if faults else 0
