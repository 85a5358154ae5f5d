"""Alerts for operators: each is a line of the log, and is posted where a webhook is set. Times are UTC.

A number of alerts are posted singly in a minute. One summary counts the others by cause. All instances share
one row: the start of the minute, the number of alerts that were posted singly, and by cause the numbers of
alerts that wait for the summary.

- The first `per_minute` alerts of a minute are posted singly. A failed attempt counts.
- Any other alert is counted in the row before its message is completed; a repeated message counts twice.
- A timer posts the summary when the minute is over, then removes the counts. A crash in between posts twice.
- Alerts are posted singly while the row cannot be read or written.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Literal

import aiohttp
from pydantic import AwareDatetime, BaseModel, ValidationError
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential
from yarl import URL

from functions.core.error_texts import error_class
from functions.messaging.message_format import read_message
from functions.messaging.rejected_messages import LostMessage
from functions.messaging.task_messages import AnnouncementMessage
from functions.storage.table_contract import RowChange, StorageError, Table, TransientStorageError, write
from functions.supervisor.sweep_progress import SUPERVISOR

type Facts = Mapping[str, str | int | None]
#: Posts an alert. Raises `WebhookError`.
type Post = Callable[[Alert], Awaitable[None]]

_log = logging.getLogger(__name__)

#: Seconds for the post of a queued alert, within the handling of its message (45 s).
_QUEUED_SECONDS = 35.0
#: Seconds for the post of an alert whose caller must finish within 12 seconds.
_POST_SECONDS = 6.0
_ATTEMPTS, _ATTEMPT_SECONDS = 4, 10
#: Hosts of incoming webhooks of Teams, and of the workflows that replace them.
_TEAMS_HOSTS = (".webhook.office.com", ".logic.azure.com")
_KEY = "alerts"
#: Seconds in which an alert must be counted. After them, it is posted singly.
_COUNT_SECONDS = 2.0
_MOST_TRIES = 5
#: Causes that a summary names. Further ones are counted together.
_MOST_CAUSES = 20
_OTHER_CAUSES = "other causes"


class WebhookError(Exception):
    """The webhook did not accept an alert. The text does not name its address, which is a secret."""


class AlertMinute(BaseModel):
    """The alerts since a time: the number posted singly, and the numbers of those that wait, by cause."""

    since: AwareDatetime
    single: int = 0
    waiting: Counter[str] = Counter()

    def is_over(self, now: datetime) -> bool:
        """Return whether the minute has passed."""
        return now >= self.since + timedelta(minutes=1)

    def with_alert(self, cause: str, now: datetime, most: int) -> tuple[AlertMinute, bool]:
        """Count an alert; return the minute after it, and whether the alert is one of the `most` single ones.

        The next minute starts when the summary of this one is posted, or at once if there is none.
        """
        if self.is_over(now) and not self.waiting:
            return AlertMinute(since=now).with_alert(cause, now, most)
        if self.single < most:
            return self.model_copy(update={"single": self.single + 1}), True
        is_named = cause in self.waiting or len(self.waiting) < _MOST_CAUSES
        waiting = self.waiting + Counter([cause if is_named else _OTHER_CAUSES])
        return self.model_copy(update={"waiting": waiting}), False

    def without(self, posted: AlertMinute, now: datetime) -> AlertMinute:
        """Return the minute without the counts of a posted summary, unless another instance removed them."""
        if self.since != posted.since:
            return self
        return AlertMinute(since=now, waiting=self.waiting - posted.waiting)


@dataclass(frozen=True, slots=True)
class Alert:
    """An event for operators, with facts by name. `subject` separates causes, such as queues."""

    event: str
    facts: Facts
    subject: str | None = None

    @property
    def cause(self) -> str:
        """Return the text under which a summary counts the alert."""
        return self.event if self.subject is None else f"{self.event}: {self.subject}"

    @property
    def line(self) -> str:
        """Return the line of the log: the event, and its facts as JSON."""
        return f"{self.event} {json.dumps(self.facts)}"


def announced_alert(message: AnnouncementMessage) -> Alert:
    """Return the alert about a task, a gate or corrupt rows."""
    rows = "; ".join(f"{key} ({reason})" for key, reason in (message.rows or {}).items())
    facts: dict[str, str | int | None] = {
        "cause": message.cause,
        "task": message.id or None,
        "epoch": message.epoch,
        "workflow": message.workflow,
        "state": message.state,
        "gate": message.gate,
        "reason": message.reason,
        "rows": rows or None,
        "at": message.at.isoformat(),
    }
    reason = error_class(message.reason or "", message.id or None)
    subject = ": ".join(filter(None, (message.cause, message.workflow, message.gate, reason)))
    return Alert("operator alert", {name: each for name, each in facts.items() if each is not None}, subject)


def lost_alert(lost: LostMessage) -> Alert:
    """Return the alert about a message that no function handles any more."""
    return Alert("message lost", asdict(lost), lost.queue)


def summary_alert(minute: AlertMinute) -> Alert:
    """Return the summary of the alerts of a minute that were not posted singly."""
    causes = "; ".join(f"{cause} ({count})" for cause, count in minute.waiting.most_common())
    facts: Facts = {"alerts": minute.waiting.total(), "since": minute.since.isoformat(), "causes": causes}
    return Alert("more alerts", facts)


def document(alert: Alert, *, for_teams: bool) -> dict[str, Any]:
    """Return the JSON of an alert that is posted."""
    if not for_teams:
        return {"event": alert.event, **alert.facts}
    title = {"type": "TextBlock", "text": alert.event.capitalize(), "weight": "Bolder", "size": "Medium"}
    lines = [_text_runs(name, fact) for name, fact in alert.facts.items() if fact is not None]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [title, *lines],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _text_runs(name: str, fact: str | int) -> dict[str, Any]:
    """Return a fact as text runs, in which Teams reads no Markdown: ids may contain underscores."""
    label = {"type": "TextRun", "text": f"{name.replace('_', ' ')}: ", "weight": "Bolder"}
    return {"type": "RichTextBlock", "inlines": [label, {"type": "TextRun", "text": str(fact)}]}


class Alerts:
    """Logs alerts and posts them, singly within the limit of a minute, otherwise in its summary.

    Without `post`, they are logged only. `now` returns the time (UTC).
    """

    def __init__(self, post: Post | None, table: Table, per_minute: int, now: Callable[[], datetime]) -> None:
        self._post, self._table, self._per_minute, self._now = post, table, per_minute, now
        self._changing = asyncio.Lock()  # the instance does not compete with itself
        #: The minute of the latest summary, whose counts may still be in the row.
        self._posted: AlertMinute | None = None

    async def take(self, body: bytes) -> None:
        """Log a message of the queue `operator-alerts`, and post or count it.

        Raises `MessageError` for a message of another schema, and `WebhookError` if the alert was neither
        posted nor counted: the queue delivers the message again.
        """
        alert = announced_alert(read_message(AnnouncementMessage, body))
        _log.error("%s", alert.line)
        await self._post_or_count(alert, _QUEUED_SECONDS)

    async def alert_lost(self, lost: LostMessage) -> None:
        """Post the loss of a message, which is recorded and logged. It raises nothing."""
        await self._post_recorded(lost_alert(lost))

    async def alert_rejected(self, queue: str, reason: str, *, task: str | None, step: str | None) -> None:
        """Log and post that a message of a queue is rejected; the message is recorded. It raises nothing."""
        facts = {"queue": queue, "task": task, "step": step, "reason": reason}
        alert = Alert("message rejected", facts, queue)
        _log.error("%s", alert.line)
        await self._post_recorded(alert)

    async def post_summary(self) -> None:
        """Post the summary of a minute that is over. It raises nothing: the next run of the timer posts."""
        if self._post is None:
            return
        try:
            minute, _ = await self._read()
            if minute is None or not minute.waiting or not minute.is_over(self._now()):
                return
            if self._posted is None or self._posted.since != minute.since:
                await _post_within(self._post, summary_alert(minute), _POST_SECONDS)
                self._posted = minute
            posted, now = self._posted, self._now()
            await self._change(lambda newest: (newest.without(posted, now), None))
        except (WebhookError, StorageError) as error:
            _log.warning("the summary of alerts is not posted yet: %s", error)

    async def _post_recorded(self, alert: Alert) -> None:
        try:
            await self._post_or_count(alert, _POST_SECONDS)
        except WebhookError as error:
            _log.warning("%s is neither posted nor counted: %s", alert.line, error)

    async def _post_or_count(self, alert: Alert, seconds: float) -> None:
        """Post an alert singly within the limit. An alert that is not accepted is counted."""
        if self._post is None:
            return
        try:
            if not await self._count(alert.cause, self._per_minute):
                return
        except (StorageError, TimeoutError) as error:
            _log.warning("an alert is not counted: %s", error)
        try:
            await _post_within(self._post, alert, seconds)
        except WebhookError as error:
            _log.warning("%s is not posted: %s", alert.line, error)
            try:
                await self._count(alert.cause, 0)
            except (StorageError, TimeoutError):
                raise error from None

    async def _count(self, cause: str, most: int) -> bool:
        """Count an alert; return whether it is one of the `most` alerts that are posted singly."""
        now = self._now()
        async with asyncio.timeout(_COUNT_SECONDS):
            return await self._change(lambda minute: minute.with_alert(cause, now, most))

    async def _change[T](self, change: Callable[[AlertMinute], tuple[AlertMinute, T]]) -> T:
        """Change the row by compare-and-swap. Without a row, a minute begins."""
        async with self._changing:
            for _ in range(_MOST_TRIES):
                minute, etag = await self._read()
                after, result = change(minute or AlertMinute(since=self._now()))
                row = {"Minute": after.model_dump_json()}
                changed = RowChange("insert" if etag is None else "update", _KEY, row, etag or "*")
                if await write(self._table, SUPERVISOR, [changed]):
                    return result
        raise TransientStorageError(f"row {_KEY}: other instances changed it {_MOST_TRIES} times")

    async def _read(self) -> tuple[AlertMinute | None, str | None]:
        """Return the minute and the ETag of its row. A corrupt row is replaced: the log has its alerts."""
        row = await self._table.read(SUPERVISOR, _KEY)
        if row is None:
            return None, None
        try:
            return AlertMinute.model_validate_json(str(row.get("Minute"))), str(row["odata.etag"])
        except ValidationError as error:
            _log.warning("row %s is corrupt and is replaced: %s", _KEY, error.errors()[0]["type"])
            return None, str(row["odata.etag"])


async def _post_within(post: Post, alert: Alert, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await post(alert)
    except TimeoutError:
        raise WebhookError(f"the alert webhook did not answer within {seconds:g} s") from None


class Webhook:
    """Posts alerts to a secret address. Without `alert_format`, the host of the address decides the format.

    `first_wait` (seconds) is the wait before the second attempt; it doubles.
    """

    def __init__(
        self,
        address: str,
        alert_format: Literal["generic", "teams"] | None,
        *,
        session: Callable[[], aiohttp.ClientSession],
        first_wait: float = 1,
    ) -> None:
        self._url = URL(address, encoded=True)  # a signature in it stays as it is
        is_teams = (self._url.host or "").rstrip(".").lower().endswith(_TEAMS_HOSTS)
        self.is_for_teams = is_teams if alert_format is None else alert_format == "teams"
        self._session = session
        self._retrying = AsyncRetrying(
            retry=retry_if_exception_type(WebhookError),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(first_wait),
            reraise=True,
        )

    async def post(self, alert: Alert) -> None:
        """Post an alert in up to 4 attempts of 10 seconds. Raises `WebhookError`."""
        await self._retrying.copy()(self._attempt, document(alert, for_teams=self.is_for_teams))

    async def _attempt(self, content: Mapping[str, Any]) -> None:
        timeout = aiohttp.ClientTimeout(total=_ATTEMPT_SECONDS)
        try:
            async with self._session().post(
                self._url, json=content, allow_redirects=False, timeout=timeout
            ) as response:
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise WebhookError(f"the alert webhook cannot be reached: {type(error).__name__}") from None
        if status >= HTTPStatus.MULTIPLE_CHOICES:
            raise WebhookError(f"the alert webhook answered {status}")
