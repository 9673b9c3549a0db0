"""What `evenkeel verify` tells of a lake with a log, as tests ask for it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main

Told = Callable[..., dict[str, Any]]


def teller(lake: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    """Gives what `verify --depth chain --json` tells of the lake, with further words of the command."""

    def tell(*words: str) -> dict[str, Any]:
        code = main(["verify", "--lake", str(lake), "--depth", "chain", "--json", *words])
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert (code == 0) == found["sound"]
        return found

    return tell
