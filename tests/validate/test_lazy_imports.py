"""Imports that wait for the first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel.spark.code import source_root

pytestmark = pytest.mark.slow


def test_a_module_that_is_put_off_loads_at_its_first_use_and_others_at_once(tmp_path: Path) -> None:
    (tmp_path / "later_one.py").write_text("import builtins\nbuiltins.loaded.append('later')\nvalue = 42\n")
    (tmp_path / "at_once.py").write_text("import builtins\nbuiltins.loaded.append('at once')\n")
    program = (
        "import builtins, sys\n"
        "builtins.loaded = []\n"
        f"sys.path[:0] = [{str(tmp_path)!r}, {str(source_root())!r}]\n"
        "from evenkeel.validate.suites import put_off\n"
        "before = list(sys.meta_path)\n"
        "with put_off('later_one', 'not_installed_at_all'):\n"
        "    import later_one, at_once\n"
        "assert sys.meta_path == before\n"
        "assert builtins.loaded == ['at once'], builtins.loaded\n"
        "assert later_one.value == 42\n"
        "assert builtins.loaded == ['at once', 'later'], builtins.loaded\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "then",
    [
        "import altair.vegalite, scipy.stats.distributions",
        *(pytest.param(then, marks=pytest.mark.exhaustive) for then in ("", "import sqlalchemy.orm")),
    ],
)
def test_great_expectations_loads_without_what_is_not_used_and_others_still_can_use_it(then: str) -> None:
    program = (
        f"import sys\nsys.path.insert(0, {str(source_root())!r})\n"
        "from evenkeel.validate.suites import load_great_expectations\n"
        "load_great_expectations()\n"
        "assert not {'altair.vegalite', 'scipy.stats._stats_py'} & set(sys.modules)\n"
        f"{then}\n"
        "import altair, scipy.stats\n"
        "assert altair.Chart is not None\n"
        "assert scipy.stats.norm.cdf(0) == 0.5\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
