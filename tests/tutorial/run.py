"""Runs all steps of a tutorial in a folder that looks like a checkout: the page's paths are relative to it."""

from pathlib import Path

from evenkeel.spark.code import source_root
from tests.tutorial.page import BrokenPage, Step, run

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = tuple(CHECKOUT / "docs" / "how-to" / f"{name}.md" for name in ("explain", "replay"))
"""The pages whose steps are run."""
RECORDING = CHECKOUT / "demo" / "generated" / "thrash"


def environment(engine_url: str) -> dict[str, str]:
    """What the steps are given: a Spark server that runs already, and this checkout's package."""
    return {
        "EVENKEEL_SPARK": engine_url,
        "EVENKEEL_EXPECTATIONS": str(CHECKOUT / "expectations"),
        "PYTHONPATH": str(source_root()),
        "PYTHONIOENCODING": "utf-8",
    }


def run_all(steps: list[Step], folder: Path, engine_url: str) -> list[list[str] | BrokenPage]:
    """What each step printed, or why it failed; those after it run all the same."""
    (folder / "demo").symlink_to(CHECKOUT / "demo")
    (folder / "build").mkdir()
    came: list[list[str] | BrokenPage] = []
    for step in steps:
        try:
            came.append(run(step, folder, environment(engine_url)))
        except BrokenPage as trouble:
            came.append(trouble)
    return came
