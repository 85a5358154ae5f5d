"""All kinds of replies that are wrong: those of `docs/schemas/messages/refused`, and what they can't show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from functions.pattern.agent_messages import AgentReply, AgentRequest, done
from tests.contract.schemas import FOLDER, examples, messages

#: What the golden messages reply to.
_SHOWN = AgentRequest.model_validate_json(json.dumps(examples()[0][0]))
_REASONS: dict[str, str] = json.loads((FOLDER / "messages" / "refused" / "reasons.json").read_bytes())
_LARGE = "large"
_TOO_LARGE = {_LARGE: "result: has 25011 bytes; at most 24576 can be sent"}
#: They can't be parsed; the parser names the line and the column.
_NOT_JSON = "not JSON ("


@dataclass(frozen=True, slots=True)
class RefusedReply:
    """A reply that is refused, and how the reason begins."""

    name: str
    reason: str

    @property
    def names_its_task(self) -> bool:
        """It can be read as far as that."""
        return self.name != "reply-cut-off.json"

    @property
    def tells_of_an_end(self) -> bool:
        """Only its result is wrong: its step is done."""
        return self.name.startswith(("reply-result-", _LARGE)) and "beside" not in self.reason

    def to(self, request: AgentRequest) -> bytes:
        """Write it as the reply to a request."""
        if self.name == _LARGE:
            return done(request, {"text": "x" * 25_000}).model_dump_json().encode()
        text = messages("refused")[self.name].decode()
        return text.replace(_SHOWN.task_id, request.task_id).replace(_SHOWN.token, request.token).encode()


REFUSED = tuple(
    RefusedReply(name, _NOT_JSON if reason.startswith(_NOT_JSON) else reason)
    for name, reason in (_REASONS | _TOO_LARGE).items()
)


def ignored(request: AgentRequest) -> Iterator[tuple[AgentReply, str]]:
    """Give replies that are read and count for nothing, and what the log says of them."""
    for changes, why in (
        ({"token": "f" * 32}, "it carries another token than the request"),
        ({"epoch": 2}, "its epoch has not begun"),
        ({"step": "refund"}, "the task has no such step"),
        ({"task_id": f"{request.task_id}-0"}, "there is no such task"),
    ):
        reply = done(request, {}).model_copy(update=changes)
        yield reply, f"task {reply.task_id} step {reply.step}: a reply counts for nothing: {why}"
