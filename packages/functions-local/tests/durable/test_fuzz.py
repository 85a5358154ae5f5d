"""Random orchestrations: the SDK's ids and the Shim's must agree, and results must be correct.

Only safe orchestrations are drawn: no activity that fails permanently inside task_all or task_any.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import azure.durable_functions as df
import pytest

from functions_local.durable import EngineOptions
from functions_local.durable.episode import EpisodeRunner
from functions_local.durable.instances import LiveInstance
from tests.durable.conftest import StartEngine
from tests.durable.sdk import SdkApp
from tests.durable.workflows import Steps

type Plan = dict[str, Any]


def _leaf(draw: random.Random, depth: int) -> Plan:
    match draw.choice(["activity", "retry", "retry", "timer"]):
        case "activity":
            return {"kind": "activity"}
        case "timer":
            return {"kind": "timer", "ms": draw.choice([0, 5, 40])}
        case _:
            attempts = draw.randint(1, 3)
            failures = draw.randint(0, attempts - 1) if depth else draw.randint(0, 3)
            return {
                "kind": "retry",
                "ms": draw.choice([1, 10, 30]),
                "attempts": attempts,
                "failures": failures,
            }


def _node(draw: random.Random, depth: int = 0) -> Plan:
    if depth < 2 and draw.random() < 0.45:
        children = [_node(draw, depth + 1) for _ in range(draw.randint(1, 4))]
        return {"kind": draw.choice(["all", "all", "any"]), "children": children}
    return _leaf(draw, depth)


def _task(context: df.DurableOrchestrationContext, plan: Plan, key: str) -> Any:
    match plan["kind"]:
        case "activity":
            return context.call_activity("fail_at_first", {"key": key, "failures": 0})
        case "retry":
            options = df.RetryOptions(plan["ms"], plan["attempts"])
            given = {"key": key, "failures": plan["failures"]}
            return context.call_activity_with_retry("fail_at_first", options, given)
        case "timer":
            return context.create_timer(context.current_utc_datetime + timedelta(milliseconds=plan["ms"]))
    children = [_task(context, child, f"{key}.{n}") for n, child in enumerate(plan["children"])]
    return context.task_all(children) if plan["kind"] == "all" else context.task_any(children)


def _plain(plan: Plan, value: Any) -> Any:
    if plan["kind"] == "any":
        return "any"
    if plan["kind"] == "all":
        return [_plain(child, item) for child, item in zip(plan["children"], value, strict=True)]
    return value


def _expected(plan: Plan, key: str) -> Any:
    match plan["kind"]:
        case "activity":
            return key
        case "retry":
            return key if plan["failures"] < plan["attempts"] else f"failed {key} #{plan['attempts']}"
        case "timer":
            return None
        case "any":
            return "any"
    return [_expected(child, f"{key}.{n}") for n, child in enumerate(plan["children"])]


def _fuzzed(context: df.DurableOrchestrationContext) -> Steps:
    results = []
    for number, plan in enumerate(context.get_input()):
        try:
            value = yield _task(context, plan, f"{context.instance_id}/{number}")
            results.append(_plain(plan, value))
        except Exception as error:  # noqa: BLE001 - the SDK raises nothing more precise
            results.append("failed " + str(error).split("RuntimeError: ")[1].split(" \n")[0])
    return results


def _failing_at_first(draw: random.Random) -> Callable[[dict[str, Any]], Any]:
    calls: Counter[str] = Counter()

    async def fail_at_first(given: dict[str, Any]) -> str:
        await asyncio.sleep(draw.random() * 0.01)
        key = given["key"]
        calls[key] += 1
        if calls[key] <= given["failures"]:
            raise RuntimeError(f"{key} #{calls[key]}")
        return str(key)

    return fail_at_first


@pytest.mark.parametrize("seed", range(4))
async def test_sdk_and_shim_agree(
    app: SdkApp, start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """60 random orchestrations for each seed, with messages in random order, end with correct results."""
    draw = random.Random(seed)  # noqa: S311 - a test that can be repeated
    run = EpisodeRunner.run

    async def run_reordered(runner: EpisodeRunner, instance: LiveInstance) -> None:
        draw.shuffle(instance.inbox)
        await run(runner, instance)

    monkeypatch.setattr(EpisodeRunner, "run", run_reordered)
    app.activity(_failing_at_first(draw))
    app.orchestrator(_fuzzed)
    engine = await start_engine(EngineOptions(50, 50))
    plans = {f"f{n}": [_node(draw) for _ in range(draw.randint(1, 5))] for n in range(60)}
    for instance, plan in plans.items():
        await engine.client.start_new("_fuzzed", instance, json.dumps(json.dumps(plan)))
    for instance, plan in plans.items():
        row = await engine.client.wait(instance, 60)
        expected = [_expected(part, f"{instance}/{n}") for n, part in enumerate(plan)]
        assert row.output is not None, (row, plan)
        assert json.loads(row.output) == expected, (row, plan)
