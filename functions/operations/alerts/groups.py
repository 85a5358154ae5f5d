"""Groups the alerts about tasks by their cause, over all instances."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from functions.pattern.alert_groups import (
    AlertGroup,
    after_telling,
    due,
    joined,
    read_groups,
    written_groups,
)
from functions.pattern.error_class import error_class
from functions.pattern.errors import TransientError
from functions.pattern.messages import AnnouncementMessage
from functions.pattern.ports import Ports

_log = logging.getLogger(__name__)

#: Tells operators of a group, or raises `TransientError`.
type TellGroup = Callable[[AlertGroup], Awaitable[None]]


class AlertGroups:
    """What alerts wait to be told together; the first `singly` of a cause do not."""

    def __init__(self, ports: Ports, singly: int) -> None:
        self._ports = ports
        self._singly = singly

    async def is_told_alone(self, message: AnnouncementMessage) -> bool:
        """Tell whether an alert is told by itself; otherwise it is kept, to be told with others.

        It is when nothing can be kept: an alert is never lost for want of the store.
        """
        of = AlertGroup(
            workflow=message.workflow,
            state=str(message.state),
            reason=error_class(message.reason or "", message.id),
            since=self._ports.clock.now(),
        )
        task = f"{message.id} (epoch {message.epoch})"

        def join(content: bytes | None) -> tuple[bytes, bool]:
            groups, alone = joined(read_groups(content), of, task, self._singly)
            return written_groups(groups), alone

        try:
            return await self._ports.alert_groups.change(join)
        except TransientError as fault:
            _log.warning("an alert can't be grouped, and is told by itself: %s", fault)
            return True

    async def tell(self, tell: TellGroup) -> None:
        """Tell of the groups whose time is over. Raises `TransientError`: they come again."""
        for group in due(read_groups(await self._ports.alert_groups.read()), self._ports.clock.now()):
            await tell(group)
            now = self._ports.clock.now()

            def forget(content: bytes | None, told: AlertGroup = group) -> tuple[bytes, None]:
                return written_groups(after_telling(read_groups(content), told, now)), None  # noqa: B023 - at once

            await self._ports.alert_groups.change(forget)
