"""An operator's settings file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from evenkeel.errors import SettingsError
from evenkeel.settings.key import Value
from evenkeel.settings.reading import check_allowed, coerce, known_key


def read_overrides(path: str | Path) -> dict[str, Value]:
    """The overrides in a TOML file of plain `key = value` lines, typed and range-checked.

    `SettingsError` names the file, and the line where it is known, for a file that cannot be read or is no TOML, for a
    table, an unknown key, and a value of the wrong type or out of range.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {file} cannot be read: {error}") from None
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"settings file {file} is not TOML: {error}") from None
    overrides: dict[str, Value] = {}
    for name, value in given.items():
        place = f"settings file {file}{_line(text, name)}"
        if isinstance(value, dict):
            raise SettingsError(f"{place}: [{name}] is a table; write plain lines `key = value`")
        try:
            key = known_key(name)
            overrides[name] = coerce(key, value)
            check_allowed(key, overrides[name])
        except SettingsError as error:
            raise SettingsError(f"{place}: {error}") from None
    return overrides


def _line(text: str, name: str) -> str:
    pattern = re.compile(rf"""\s*\[?\s*["']?{re.escape(name)}["']?\s*[\]=]""")
    for number, line in enumerate(text.splitlines(), start=1):
        if pattern.match(line):
            return f", line {number}"
    return ""
