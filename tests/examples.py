"""On how many examples properties are tried: on a third of them where exhaustive tests are left out.

Either way they are the same in every run, however slow the machine is.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from hypothesis import HealthCheck, event, settings

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


_REACHED: list[bool] = []


def reached(is_reached: bool) -> None:
    """Count the example; True if it reaches the rule that the property is about."""
    event("reaches the rule" if is_reached else "does not reach the rule")
    _REACHED.append(is_reached)


def reaching(share: float = 0.3) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a property, above `given`: it fails if too few of its examples reach its rule, so holds vacuously.

    Hypothesis takes some values from the modules that were imported before, which differ from run to run. Half the
    share is asked of the few quick examples, so that the luck of a run fails none.
    """

    def decorate(holds: Callable[..., None]) -> Callable[..., None]:
        @wraps(holds)
        def run(*args: Any, **more: Any) -> None:
            _REACHED.clear()
            holds(*args, **more)
            counted = f"{sum(_REACHED)} of {len(_REACHED)} examples reach the rule"
            assert _REACHED, counted
            assert sum(_REACHED) >= share * len(_REACHED) / (1 if settings().max_examples >= ALL else 2), counted

        return run

    return decorate
