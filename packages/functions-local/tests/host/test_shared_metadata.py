"""A function that changes a message's properties changes that message's only."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest

from functions_local import cheaper_libraries


def test_properties_of_one_invocation_do_not_reach_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches have the same metadata; what the library parses is the function's to change."""
    service_bus = importlib.import_module("azure.functions.servicebus")
    meta = importlib.import_module("azure.functions.meta")
    for module, name in ((service_bus, "json"), (meta, "try_parse_datetime_with_formats")):
        monkeypatch.setattr(module, name, getattr(module, name))  # put back afterwards
    cheaper_libraries._make_message_batches_cheaper()
    bodies = meta.Datum(SimpleNamespace(string=["{}"]), "collection_string")
    metadata = {
        "UserPropertiesArray": meta.Datum("[{}]", "json"),
        "ApplicationPropertiesArray": meta.Datum('[{"tenant": "a"}]', "json"),
    }
    decode = service_bus.ServiceBusMessageInConverter.decode
    [first] = decode(bodies, trigger_metadata=metadata)
    assert first.application_properties == {"tenant": "a"}
    first.application_properties["tenant"] = "b"
    [second] = decode(bodies, trigger_metadata=metadata)
    assert second.application_properties == {"tenant": "a"}
