"""Faults of a configuration file: those of its models, of the witnesses of the log and of recordings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evenkeel.errors import SettingsError
from evenkeel.settings.configuration_file import (
    ConfigurationFault,
    FaultyConfiguration,
    fault_at,
    faults_in,
    operation_in,
)
from evenkeel.settings.entries import without
from evenkeel.settings.resolving import FaultPath
from evenkeel.sources.configuration import read_configuration
from evenkeel.sources.recordings import missing_in
from evenkeel.transparency.witnesses import witnesses_of


def configuration_faults(file: Path) -> list[ConfigurationFault]:
    """Return the faults of a file in the order of its lines; SettingsError if it cannot be read."""
    besides = (*_witness_faults(file), *_recording_faults(file))
    faults = [*faults_in(file), *(fault_at(file, path, text) for path, text in besides)]
    return sorted(faults, key=lambda fault: (fault.line or 0, fault.entry))


def _witness_faults(file: Path) -> Iterator[tuple[FaultPath, str]]:
    try:
        lines = operation_in(str(file))[0].log.witnesses or []
    except FaultyConfiguration:
        return
    if len(set(lines)) < len(lines):
        yield ("log", "witnesses"), "A witness is named twice: name each once"
    for place, path in ((line, ("log", "witnesses", index)) for index, line in enumerate(lines)):
        try:
            witnesses_of(place, "")
        except SettingsError as error:
            words = [place, *place.replace("=", " ").replace(",", " ").split()]
            yield path, without(f"The witness cannot be read: {str(error).partition('cannot be read: ')[2]}", words)


def _recording_faults(file: Path) -> Iterator[tuple[FaultPath, str]]:
    try:
        sources = read_configuration(file)
    except SettingsError:
        return
    for source in sources:
        if source.live is None and source.zone is None and (fault := missing_in(source.recording)):
            yield ("clusters", str(source.cluster), "recording"), fault
