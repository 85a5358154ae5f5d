"""The places at remote services that one run holds, for steps that it is about to start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from functions.agents.places import PLACE_SECONDS, CallPlace, Places
from functions.pattern.errors import TransientError
from functions.pattern.folding import Follow
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord


class RunPlaces:
    """The places of one run; `services` are by the Agents' names.

    A place is taken before a step's start is recorded: so its time begins when its Agent does.
    """

    def __init__(self, services: Mapping[str, Places]) -> None:
        self._services = services
        self._held: dict[StepName, CallPlace] = {}
        #: Which plan starts a step for which a place is held, until that is recorded, or known not to be.
        self._planned: dict[StepName, Follow] = {}
        #: Steps whose starts are recorded, and that have not ended.
        self._begun = set[StepName]()
        self._awaited: dict[StepName, bool] = {}
        self._again_at: dict[StepName, datetime] = {}

    @property
    def again_at(self) -> datetime | None:
        """Tell when to try again for the steps that found no place; None for none."""
        return min(self._again_at.values(), default=None)

    def has(self, record: TaskRecord, step: StepName) -> bool | datetime:
        """Tell whether a step has a place, and take it; asked again, nothing changes."""
        places = self._services.get(record.step(step).shape.agent)
        if places is None or step in self._held:
            return True
        if step in self._awaited:
            return False
        place = places.take_now()
        if place is not None:
            self._again_at.pop(step, None)
            self._held[step] = place
            return True
        if step not in self._again_at:
            self._awaited[step] = False
            return False
        return self._again_at[step]

    def lacks(self, step: StepName) -> bool:
        """Tell whether a step found no place."""
        return step in self._again_at

    def to_await(self) -> Sequence[StepName]:
        """Name the steps whose places are to be waited for, and each once."""
        names = [step for step, is_begun in self._awaited.items() if not is_begun]
        self._awaited.update(dict.fromkeys(names, True))
        return names

    async def find(self, record: TaskRecord, step: StepName, start: Callable[[], Awaitable[None]]) -> None:
        """Wait for the place of a step, and `start` it; when that starts another, the place is given back.

        Not for long, unless other steps of the run go on all the same: until those are late, nobody else
        looks at the task, so that a store that is away is waited for, too. Raises `TransientError` where
        none do.
        """
        while True:
            place = await self._wait_for(self._services[record.step(step).shape.agent], step)
            try:
                await start()
            except TransientError:
                if not self._begun:
                    raise
                if step in self._awaited:
                    return  # a step that began meanwhile has it waited for anew
                self._awaited[step] = True
            else:
                return
            finally:
                if place is not None and self._held.get(step) is place and step not in self._planned:
                    self._give_back(step)
            await asyncio.sleep(PLACE_SECONDS)

    async def _wait_for(self, places: Places, step: StepName) -> CallPlace | None:
        place = await places.take(PLACE_SECONDS)
        while place is None and self._begun:
            place = await places.take(PLACE_SECONDS)
        del self._awaited[step]
        if place is None:
            self._again_at[step] = places.next_turn()
        elif step in self._begun or step in self._held:  # another plan starts it, perhaps without a place
            place.release()
        else:
            self._held[step] = place
        return place

    @contextmanager
    def given(self, step: StepName) -> Iterator[None]:
        """Have a step's calls made in its place, and release it then."""
        place = self._held.pop(step, None)
        if place is None:
            yield
            return
        with place.given():
            yield

    def keep(self, plan: Follow, starts: Iterable[StepName], recorded: Collection[StepName]) -> None:
        """Give back what was taken for steps that the newest plan does not start, and that have not begun.

        The starts of earlier plans that are `recorded` are kept, too.
        """
        earlier = {step: by for step, by in self._planned.items() if step in recorded}
        self._planned = earlier | dict.fromkeys(starts, plan)
        for step in self._held.keys() - self._planned.keys() - set(recorded):
            self._give_back(step)

    def forget(self, plan: Follow) -> None:
        """Give back the places of steps that a plan was to start: it was not recorded, or nobody knows."""
        for step in [step for step, by in self._planned.items() if by is plan]:
            del self._planned[step]
            self._give_back(step)

    def begin(self, step: StepName) -> None:
        """Keep the place of a step whose start is recorded, until it ends; beside it, the others wait on."""
        self._begun.add(step)
        self._planned.pop(step, None)
        self._awaited.update(dict.fromkeys(self._again_at, False))
        self._again_at.clear()

    def end(self, step: StepName) -> None:
        """Give back the place of a step that has ended, also without a call."""
        self._begun.discard(step)
        self._give_back(step)

    def release(self) -> None:
        """Give back what was taken for steps that were not started after all."""
        while self._held:
            self._held.popitem()[1].release()

    def _give_back(self, step: StepName) -> None:
        """Give back the place of a step that is not under way."""
        if step in self._held and step not in self._begun:
            self._held.pop(step).release()
