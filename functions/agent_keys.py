"""The keys that Agents show their remote services, from the settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field, SecretStr, create_model

from functions.settings import Environment


def agent_key_setting(agent: str) -> str:
    """Name the setting that holds the key for the service behind an Agent, such as `PAYMENT_KEY`."""
    return f"{agent.upper().replace('-', '_')}_KEY"


def load_agent_keys(agents: Iterable[str]) -> dict[str, SecretStr | None]:
    """Read the key for the remote service behind each Agent; None where the service asks for none."""
    names = {agent.replace("-", "_"): agent for agent in agents}
    fields: dict[str, Any] = {
        name: (SecretStr | None, Field(None, validation_alias=agent_key_setting(agent)))
        for name, agent in names.items()
    }
    read = create_model("AgentKeys", __base__=Environment, **fields)()
    return {agent: getattr(read, name) for name, agent in names.items()}
