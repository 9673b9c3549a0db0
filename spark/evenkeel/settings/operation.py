"""The environment with the configuration file behind it: how Evenkeel is run, by variables of the same meaning.

Each entry of `settings.operation_entries` has an environment variable. A variable that is set wins; else the file that
EVENKEEL_CONFIG names counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

CONFIGURATION: Final = "EVENKEEL_CONFIG"


class OperatorEnvironment(Mapping[str, str]):
    """An environment, and behind it the entries of the configuration file that it names.

    A variable that is set to nothing counts as not set where the file has its entry. SettingsError, when an entry is
    asked for, where the file cannot be read.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._own = environment

    def __getitem__(self, name: str) -> str:
        if self._own.get(name) or not name.startswith("EVENKEEL_") or name == CONFIGURATION:
            return self._own[name]
        configured = self._configured()
        return configured[name] if name in configured else self._own[name]

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys((*self._own, *self._configured()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _configured(self) -> dict[str, str]:
        """The variables of the entries in the file, but for those that another variable replaces."""
        path = self._own.get(CONFIGURATION)
        if not path:
            return {}
        from evenkeel.settings.configuration_file import operation_in

        operation, _ = operation_in(path)
        return {
            variable.name: variable.text_of(value, Path(path))
            for variable, value in operation.by_variable()
            if not any(self._own.get(other) for other in variable.unless)
        }


ENVIRONMENT: Final = OperatorEnvironment()
"""This process's environment, with its configuration file behind it."""
