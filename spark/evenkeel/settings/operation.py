"""Environment variables with the configuration file behind them: how Evenkeel is run.

Each entry of `settings.entries` has an environment variable. A variable that is set wins; else the file that
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

    An empty variable counts as not set if the file has its entry. Raises SettingsError, when an entry is read, if the
    file cannot be read.
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
        """Return the variables of the entries in the file, except those that another variable replaces."""
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
