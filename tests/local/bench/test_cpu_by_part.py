"""Each sample of the host belongs to one part, that nearest to the top of its stack."""

from __future__ import annotations

import pytest

from local.bench.cpu_by_part import HostPart, cpu_shares

#: Stacks grow downwards: function, depth, first sample, samples.
_FRAMES = (
    ("all", 0, 0, 100),
    ("run (asyncio/events.py:1)", 1, 0, 90),
    ("flush (functions/store/state_store.py:1)", 2, 0, 50),
    ("parse (email/parser.py:1)", 3, 10, 40),
    ("episode (functions_local/durable/episode.py:1)", 2, 50, 20),
    ("invoke (functions_local/invocations.py:1)", 3, 50, 5),
    ("apply (functions/pattern/transitions.py:1)", 4, 50, 1),
)


def _graph() -> str:
    groups = (
        f'<g><title>{name}</title><rect y="{depth * 16}" fg:x="{first}" fg:w="{samples}"/></g>'
        for name, depth, first, samples in _FRAMES
    )
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:fg="http://github.com/jonhoo/inferno"'
    return f"<svg {spaces}><svg>{''.join(groups)}</svg></svg>"


def test_a_library_belongs_to_the_part_that_called_it() -> None:
    """And what no part called to the event loop; together they are all samples."""
    shares = cpu_shares(_graph())
    assert shares == pytest.approx(
        dict.fromkeys(HostPart, 0.0)
        | {HostPart.TABLES: 0.5, HostPart.DURABLE: 0.15, HostPart.INVOCATIONS: 0.04, HostPart.PATTERN: 0.01}
        | {HostPart.REST: 0.3}
    )
    assert sum(shares.values()) == pytest.approx(1)
