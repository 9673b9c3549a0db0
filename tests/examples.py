"""On how many examples properties are tried: on a third of them where exhaustive tests are left out.

Either way they are the same in every run, however slow the machine is.
"""

from typing import Any

from hypothesis import HealthCheck, settings

ALL, QUICK = 60, 20
_SAME = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}


def load_profile(*, is_quick: bool) -> None:
    """Sets the number of examples; for the beginning of a run, before any test file is imported."""
    name = "quick" if is_quick else "all"
    settings.register_profile(name, max_examples=QUICK if is_quick else ALL, **_SAME)  # type: ignore[arg-type]
    settings.load_profile(name)


def at_most(number: int, **more: Any) -> settings:
    """Settings of a property that is tried on so many examples, or on a third of them."""
    return settings(max_examples=number * settings().max_examples // ALL, **more)
