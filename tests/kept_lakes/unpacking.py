"""The kept lake for tests of other rooms."""

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).resolve().parent / "schema_1.tar.gz"


def kept_lake(folder: Path) -> Path:
    """The lake of version 1.0, unpacked below a folder."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "lake"
