"""A writer of a log that is killed at one of its writes."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from evenkeel.transparency.storage import FolderStorage
from tests.transparency.logs import KilledWriter


@contextmanager
def killed_at(change: int) -> Iterator[None]:
    """What runs inside is killed before its write number `change`, from 0, unless it makes fewer."""
    writes: list[str] = []
    put = FolderStorage.put

    def dying(self: FolderStorage, name: str, data: bytes) -> None:
        if len(writes) == change:
            raise KilledWriter
        writes.append(name)
        put(self, name, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FolderStorage, "put", dying)
        try:
            yield
        except KilledWriter:
            return
    assert change >= len(writes), "the kill was caught"
