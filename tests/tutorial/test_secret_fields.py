"""The tutorial's secret fields are hidden, and can be read by whoever needs them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, SecretStr

from functions.pattern.hiding import HIDDEN
from functions.pattern.secret_fields import SecretFields
from tests.tutorial.project import shown


def test_secret_fields_are_hidden_and_can_be_used() -> None:
    """As the page shows them."""
    [listing] = [block.text for block in shown() if "writeOnly" in block.text]
    names: dict[str, Any] = {
        "Annotated": Annotated,
        "BaseModel": BaseModel,
        "Field": Field,
        "SecretStr": SecretStr,
    }
    exec(compile(listing, "page", "exec", dont_inherit=True), names)  # noqa: S102 - the page's own
    sent = {"card": "4111 1111", "pin": 7}
    assert SecretFields(names["Payer"]).hide(sent).content == {"card": HIDDEN, "pin": HIDDEN}
    payer = names["Payer"].model_validate(sent)
    assert payer.card.get_secret_value() == sent["card"]
    assert payer.model_dump(mode="json")["card"] == "*" * 10
