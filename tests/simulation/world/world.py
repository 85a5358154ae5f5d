"""What all parts of a simulation share: time, chance, the fates of requests, the timeline, and defects."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import selectors
from collections import Counter
from collections.abc import Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from random import Random
from typing import Any, Protocol

from functions.pattern.errors import TransientError
from functions.pattern.readiness import NotDeployedError


class Owner(Protocol):
    """Whoever tasks belong to."""

    tasks: dict[asyncio.Task[Any], None]

    @property
    def is_up(self) -> bool:
        """Tell whether it has not crashed."""


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)


def owned_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any],
    context: Context | None = None,
    **more: Any,
) -> asyncio.Task[Any]:
    """Make a task of whoever its context names, or makes it; one of a dead host ends at once."""
    owner = OWNER.get()
    if context is not None:
        owner = context.get(OWNER, owner)
        context.run(OWNER.set, owner)
    task = asyncio.Task(coroutine, loop=loop, context=context, **more)
    if owner is not None:
        owner.tasks[task] = None
        task.add_done_callback(lambda done: owner.tasks.pop(done, None))
        if not owner.is_up:
            task.cancel()
    return task


class StuckError(Exception):
    """Everybody waits, and no timer is set: nothing can ever happen again."""


class _Leap(selectors.SelectSelector):
    """Waits for no file, but lets the time pass for which it would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Let the time pass."""
        if timeout is None:
            raise StuckError
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is in seconds, from 0 on; tasks belong to the host in whose context they are made."""

    def __init__(self) -> None:
        self._leap = _Leap()
        super().__init__(self._leap)
        self._clock_resolution = 1e-6
        self.set_task_factory(owned_task)
        self.set_exception_handler(self._note)
        #: What was raised where nobody could catch it.
        self.unhandled: list[str] = []

    def time(self) -> float:
        """Give the virtual time."""
        return self._leap.now

    def _note(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        self.unhandled.append(f"{context.get('message')}: {type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened, `at` a virtual time in seconds, to or by a host (or a service)."""

    at: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:12.3f}  {self.who:<10} {self.what}"


class Timeline:
    """Keeps every moment, and counts the kinds of faults."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.faults: Counter[str] = Counter()
        #: Kinds of faults that were drawn, and had an effect.
        self.kinds: set[str] = set()

    def add(self, at: float, who: str, what: str) -> None:
        """Add a moment."""
        self.moments.append(Moment(at, who, what))

    def naming(self, tasks: Collection[str]) -> Iterator[Moment]:
        """Give the moments whose text names any of these tasks."""
        any_of_them = "|".join(map(re.escape, sorted(tasks)))
        named = re.compile(rf"(?<![\w-])(?:{any_of_them})(?![\w-])")
        return (moment for moment in self.moments if named.search(moment.what))

    def about(self, tasks: Collection[str]) -> Iterator[Moment]:
        """Give these, and what befell whole hosts."""
        named = {id(moment) for moment in self.naming(tasks)}
        return (each for each in self.moments if each.what.startswith("**") or id(each) in named)

    @property
    def digest(self) -> str:
        """Give a short text that differs when anything did."""
        told = "\n".join(map(str, self.moments))
        return hashlib.sha256(told.encode()).hexdigest()[:16]


class Place(StrEnum):
    """A service outside of a host."""

    #: Table Storage.
    TABLES = "tables"
    #: Service Bus: sends, and the settlement of what was delivered.
    BUS = "bus"
    #: Durable Functions: starts, events, and the ends of episodes and activities.
    DURABLE = "durable"
    #: Remote services and the alert webhook.
    REMOTE = "remote"


class Mishap(Enum):
    """A fault of one request."""

    #: It never arrives.
    NOT_SENT = "request not sent"
    #: It is carried out, but its sender does not hear of it.
    ANSWER_LOST = "answer lost"
    #: The service is busy and refuses it.
    BUSY = "service busy"
    #: The host crashes before it is sent.
    CRASH_BEFORE = "crash before"
    #: The host crashes when it was carried out.
    CRASH_AFTER = "crash after"


@dataclass(frozen=True, slots=True)
class Fate:
    """How long a request takes there and back, in seconds, and what goes wrong: a mishap of a kind."""

    there: float = 0.002
    back: float = 0.002
    mishap: Mishap | None = None
    kind: str | None = None


class Fates(Protocol):
    """Decides."""

    def of(self, host: str, place: Place, what: str) -> Fate:
        """Decide what becomes of a request."""


class NotSentFault(Exception):  # noqa: N818 - each service's client has an error of its own for it
    """A request that never arrived."""


class AnswerLostFault(Exception):  # noqa: N818 - as above
    """A request that was carried out, or not: its sender can't know."""


class BusyFault(Exception):  # noqa: N818 - as above
    """A service that refuses for now."""


class CalmFates:
    """Requests take some time, and nothing else."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def of(self, host: str, place: Place, what: str) -> Fate:  # noqa: ARG002 - all are treated alike
        """Give each way some milliseconds."""
        return Fate(self._chance.uniform(0.0005, 0.02), self._chance.uniform(0.0005, 0.02))


#: The time at which every simulation begins: at midnight nothing is due that runs once a day.
START = datetime(2026, 1, 5, tzinfo=UTC)


class World:
    """Time is true here: hosts have clocks of their own. Chance has one stream for each of its uses."""

    def __init__(self, seed: int | str, loop: VirtualLoop, fates: Fates) -> None:
        self.seed = seed
        self.loop = loop
        self.fates = fates
        self.timeline = Timeline()
        self._streams: dict[str, Random] = {}

    def chance(self, use: str) -> Random:
        """Give the stream of one use: what one draws does not change what another gets."""
        if use not in self._streams:
            self._streams[use] = Random(f"{self.seed}/{use}")
        return self._streams[use]

    @property
    def now(self) -> datetime:
        """Give the true time."""
        return START + timedelta(seconds=self.loop.time())

    def timestamp(self) -> float:
        """Give the true time as seconds since 1970."""
        return self.now.timestamp()

    def tell(self, who: str, what: str) -> None:
        """Add to the timeline."""
        self.timeline.add(self.loop.time(), who, what)

    def fault(self, kind: str, who: str, what: str = "") -> None:
        """Count a fault that had an effect, and tell it."""
        self.timeline.faults[kind] += 1
        self.timeline.kinds.add(kind)
        self.tell(who, f"!! {kind} {what}")

    def met(self, kind: str) -> None:
        """Note that a kind of faults that was drawn had an effect."""
        self.timeline.kinds.add(kind)

    async def sleep_until(self, at: float) -> None:
        """Wait until a virtual time."""
        await asyncio.sleep(max(0.0, at - self.loop.time()))


#: What goes wrong around the application, and is logged with where it was met.
_EXPECTED = (TransientError, NotDeployedError)


class _Defects(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record of an error that should never be raised."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, _EXPECTED):
            self._found.append(f"{record.getMessage()}: {type(error).__name__}: {error}")


@contextmanager
def defects_in(found: list[str]) -> Iterator[None]:
    """Add what the block logs to `found`; nothing else is logged: the timeline tells what happened."""
    application, handler = logging.getLogger("functions"), _Defects(found)
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    application.addHandler(handler)
    application.propagate = False
    try:
        yield
    finally:
        application.propagate = True
        application.removeHandler(handler)
        logging.disable(disabled)
