"""Secrets are hidden wherever they turn up, however they are written, in bounded time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from functions.pattern.hiding import HIDDEN, Secrets

SECRETS = Secrets(
    frozenset(
        {
            *("hunter2", "hunter2-and-more", "123", "4111111111111111", "hidden", "over-…-cut"),
            *("pässword", 'top/secret"\\9', "BEGIN\nKEY\tkey\x00END"),
        }
    )
)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("hunter2", HIDDEN),
        (" hunter2 ", HIDDEN),
        ("Bearer hunter2.", f"Bearer {HIDDEN}."),
        ("hunter2-and-more!", f"{HIDDEN}!"),
        ("said hunter2-and…", f"said {HIDDEN}…"),
        ("said hunte…", f"said {HIDDEN}…"),
        ("said hun…", "said hun…"),
        ("no hunt…: said hunter2-and… (and hunt…)", f"no {HIDDEN}…: said {HIDDEN}… (and {HIDDEN}…)"),
        ('{"key": "p\\u00e4sswo\\u0072d"}', f'{{"key": "{HIDDEN}"}}'),
        ('"{\\"key\\": \\"p\\\\u00E4ssword\\"}"', f'"{{"key": "{HIDDEN}"}}"'),
        ("said p\\u00e4sswo\\u00…", f"said {HIDDEN}…"),
        (r'"top\/secret\"\\9"', f'"{HIDDEN}"'),
        ("-- BEGIN  KEY key END --", f"-- {HIDDEN} --"),
        (r"-- BEGIN\nKEY\tkey\u0000END --", f"-- {HIDDEN} --"),
        ("(hidden) [email protected] said …word", "(hidden) [email protected] said …word"),
        ("over-…-cut", HIDDEN),
        ("123", HIDDEN),
        (123, HIDDEN),
        ("1234", "1234"),
        (4111111111111111, HIDDEN),
        ({"hunter2": ["a", "hunter2"]}, {HIDDEN: ["a", HIDDEN]}),
        ([True, None, 1.5], [True, None, 1.5]),
    ],
)
def test_secret_is_hidden_wherever_it_turns_up(content: Any, shown: Any) -> None:
    """Short ones only as a whole: they would be found everywhere."""
    assert SECRETS.without(content) == shown
    assert Secrets().without(content) == content


def test_short_secrets_alone_are_found_too() -> None:
    """Nothing is looked for inside texts then."""
    assert Secrets(frozenset({"12"})).without(["12", "123"]) == [HIDDEN, "123"]


def test_secrets_are_in_no_representation() -> None:
    """As of what holds them."""
    assert "hunter2" not in repr(SECRETS)


def test_long_secrets_do_not_block_the_process() -> None:
    """All that one order can hold: long ones and short texts, or many that begin alike."""
    begun = time.process_time()
    Secrets(frozenset({"k" * 24_000})).without(["…", "k…", "kkkkj…"] * 2_000)
    alike = Secrets(frozenset(f"{'k' * 100}{number}" for number in range(200)))
    assert alike.without("k" * 24_000) == "k" * 24_000
    assert alike.without(["…" * 16_000, "kkkj…" * 8_000]) == ["…" * 16_000, "kkkj…" * 8_000]
    assert alike.without(f"{'k' * 4_000}…") == f"{'k' * 3_900}{HIDDEN}…"
    assert time.process_time() - begun < 3
