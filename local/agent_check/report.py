"""What the kit prints: a line when a check has ended, and a table at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from local.agent_check.options import AgentCheckOptions
from local.agent_check.verdicts import CheckVerdict, Finding

_STYLES = {
    CheckVerdict.PASSED: "green",
    CheckVerdict.FAILED: "bold red",
    CheckVerdict.NOT_SEEN: "yellow",
    CheckVerdict.HINDERED: "bold yellow",
}
_BLIND = "Without --effects, effects were judged by the replies: the same key, the same result."


def show_progress(finding: Finding, console: Console) -> None:
    """Print one line."""
    console.print(_verdict(finding), Text(finding.check))


def show_report(findings: Sequence[Finding], options: AgentCheckOptions, console: Console) -> None:
    """Print a table, or a line for each check where nobody looks at a terminal; and what it comes to."""
    title = f"The Agent {options.agent} (the rules: docs/agents.md)"
    if console.is_terminal:
        table = Table("verdict", "check", "what it proves, or what was seen", title=title)
        for finding in findings:
            table.add_row(_verdict(finding), Text(finding.check), Text(finding.words))
        console.print(table)
    else:
        lines = (f"{each.verdict:8}  {each.check}: {each.words}" for each in findings)
        console.print(Text("\n".join([title, *lines])), soft_wrap=True)
    counts = Counter(finding.verdict for finding in findings)
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in CheckVerdict if counts[verdict])
    console.print(*([] if options.effects else [_BLIND]), total, sep="\n")


def _verdict(finding: Finding) -> Text:
    return Text(finding.verdict, style=_STYLES[finding.verdict])
