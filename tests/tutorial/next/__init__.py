"""The workflows of the tutorial and the recipes with the new definitions, one module for each code block.

At the switch they replace the code blocks in `docs/` (with `workflows` for `workflows_next`).
"""

from __future__ import annotations
