"""A request to an Agent is tried as long as it can be of use, and never until the host ends the function."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import azure.durable_functions as df
import pytest

from functions.agents.blueprint import queued_agents_blueprint
from functions.pattern.errors import TransientError
from tests.fakes.messages import received


class Agent:
    """Fails for a while, or hangs; stands in for one behind a queue."""

    name = "payment"

    def __init__(self, *, patience: float = 285, failures: int = 0, hangs: bool = False) -> None:
        self.patience = patience
        self.calls, self._failures, self._hangs = 0, failures, hangs

    async def take(self, message_id: str, body: bytes) -> None:  # noqa: ARG002 - the Agent's
        """Take a request."""
        self.calls += 1
        if self._hangs:
            await asyncio.sleep(60)
        if self.calls <= self._failures:
            raise TransientError("Service Bus is away")


def _function(agent: Any) -> Any:
    app = df.DFApp()
    app.register_functions(queued_agents_blueprint([agent]))
    [built] = app.get_functions()
    assert built.get_trigger().queue_name == "agent-payment-requests"
    return built.get_user_function()


async def test_request_outlives_an_outage_longer_than_its_first_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host renews it; the lock's 15 s are no bound, and what the Agent lets go at complete-by is done."""
    monkeypatch.setattr("functions.messages.queues._PART_OF_LOCK", 0.0)
    agent = Agent(failures=3)
    await _function(agent)(received())
    assert agent.calls == 4


async def test_request_is_given_back_before_the_host_ends_the_function() -> None:
    """With the process, and everything in it."""
    agent = Agent(patience=0.1, hangs=True)
    with pytest.raises(TransientError, match=r"not done within 0\.1 s"):
        await _function(agent)(received())


@pytest.mark.parametrize(("agents", "named"), [([Agent()], "payment"), ([], "none")])
def test_agents_that_are_served_here_are_named_at_start(
    caplog: pytest.LogCaptureFixture, agents: list[Any], named: str
) -> None:
    """With another ledger elsewhere, one queue would have two."""
    caplog.set_level(logging.INFO)
    queued_agents_blueprint(agents)
    assert f"Agents behind queues that are served here: {named}" in caplog.messages
