"""The files of an export against its own manifest, as an auditor would look at them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def damaged_files(folder: Path) -> list[str]:
    """Files that are missing, changed, or not listed in `export.json`; none where all is as it was written."""
    listed = json.loads((folder / "export.json").read_text(encoding="utf-8"))["files"]
    there = {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file() and file != folder / "export.json"
    }
    both = listed.keys() & there.keys()
    return sorted((listed.keys() ^ there.keys()) | {name for name in both if there[name] != listed[name]["sha256"]})
