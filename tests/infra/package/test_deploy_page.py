"""`docs/deploy.md` and the pipeline have every option of the deployment, with its default."""

from __future__ import annotations

import json
import re

import yaml

from tests.infra.application import functions
from tests.infra.package.package import ROOT

_PAGE = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
_PARAMETERS = (ROOT / "infra/main.bicepparam").read_text(encoding="utf-8")

#: The options and their defaults; environment and region have none, and a hook of azd sets the key.
_CHOICES = dict(re.findall(r"readEnvironmentVariable\('([A-Z_]+)', '(.*?)'\)", _PARAMETERS))
assert _CHOICES.pop("SAMPLE_SERVICES_KEY") == ""

#: They would be secrets in the pipeline, which has none.
_SECRETS = {"ALERT_WEBHOOK_URL"}


def test_page_answers_a_fresh_readers_questions_in_order() -> None:
    """What it makes comes first, what to do when it fails last."""
    asked = ["What it makes", "What it costs", "One command", "Size", "Zones and regions"]
    asked += ["An app for each role", "Network", "Sign-in", "When it fails"]
    assert [each for each in re.findall(r"^## (.+)$", _PAGE, re.MULTILINE) if each in asked] == asked


def test_page_lists_every_option() -> None:
    """Each with its default, if it has one."""
    listed = dict(re.findall(r"^\| `([A-Z_]+)` \| (\S+) \|", _PAGE, re.MULTILINE))
    assert listed == {name: f"`{default}`" if default else "none" for name, default in _CHOICES.items()}


def test_pipeline_passes_on_every_option() -> None:
    """Otherwise it would reset a chosen value to its default."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/deploy.yml").read_text(encoding="utf-8"))
    passed = workflow["jobs"]["deploy"]["env"]
    wanted = {
        name: f"${{{{ vars.{name} || '{default}' }}}}" if default else f"${{{{ vars.{name} }}}}"
        for name, default in _CHOICES.items()
        if name not in _SECRETS
    }
    assert wanted
    assert {name: passed.get(name) for name in wanted} == wanted


def test_page_counts_the_groups_that_zones_are_paid_for() -> None:
    """HTTP, Durable, and each function with another trigger that is no Agent's; two of each are ready."""
    all_of_them = functions().items()
    own = [its for name, its in all_of_them if not name.startswith("agent_") or name == "agent_replies"]
    triggers = [each["type"] for its in own for each in its if "Trigger" in each["type"]]
    together = {"httpTrigger", "orchestrationTrigger", "activityTrigger"}
    groups = 2 + sum(trigger not in together for trigger in triggers)
    flowing = " ".join(_PAGE.split())
    assert f"for each of the {groups} groups of functions, and of each Agent" in flowing
    assert f"at least {2 * groups} instances instead of one" in flowing


def test_page_counts_the_alerts_that_are_paid_for() -> None:
    """Each log alert, and each metric alert once per queue."""
    alerts = json.loads((ROOT / "infra/modules/watching/alerts.json").read_text(encoding="utf-8"))
    logs, metrics = len(alerts["log"]), len(alerts["metric"])
    assert f"every 5 minutes ({logs}) and metric alert series ({metrics} for each queue)" in _PAGE
