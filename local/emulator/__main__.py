"""`python -m local.emulator`: writes the emulator's configuration anew."""

from __future__ import annotations

from pathlib import Path

from local.emulator.config import emulator_config

_HERE = Path(__file__).parent


def main() -> None:
    """Write `config.json` beside this file."""
    queues_file = _HERE.parent.parent / "infra" / "queues.json"
    target = _HERE / "config.json"
    target.write_text(emulator_config(queues_file), encoding="utf-8")
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
