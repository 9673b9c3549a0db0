"""Wheels of this checkout, and environments that have one installed and see nothing of the checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
FOLDERS = ("dags", "plugins", "expectations")
"""What Airflow and the package read from folders."""
SECONDS = 600


def copy_of_checkout(folder: Path) -> Path:
    """A clone with what is not committed yet of what a wheel is made of."""
    subprocess.run(["git", "clone", "-q", str(CHECKOUT), str(folder)], check=True)
    for name in ("spark", "pyproject.toml", *FOLDERS):
        subprocess.run(["cp", "-r", "-T", str(CHECKOUT / name), str(folder / name)], check=True)
    return folder


def wheel_of(folder: Path, version: str | None = None) -> Path:
    """Builds the wheel, with what is not committed yet, into the new folder; `version` in the place of its own."""
    source = copy_of_checkout(folder / "source")
    if version is not None:
        module = source / "spark" / "evenkeel" / "__init__.py"
        head, mark, _ = module.read_text().partition("__version__ = ")
        assert mark
        module.write_text(f'{head}{mark}"{version}"\n')
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder / "wheel"), str(source)]
    subprocess.run(words, check=True, timeout=SECONDS)
    subprocess.run(["rm", "-r", str(source)], check=True)
    (built,) = (folder / "wheel").glob("*.whl")
    return built


def environment_with(wheel: Path, folder: Path) -> Path:
    """A new environment with the wheel, and this one's packages behind it."""
    venv.create(folder, with_pip=False)
    install(wheel, folder)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    behind = folder / "lib" / version / "site-packages" / "behind.pth"
    behind.write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def install(wheel: Path, environment: Path) -> None:
    """Installs the wheel there, in the place of the one that is installed."""
    python = str(environment / "bin" / "python")
    words = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--force-reinstall"]
    subprocess.run([*words, str(wheel)], env=without_checkout(environment), check=True, timeout=SECONDS)


def without_checkout(home: Path) -> dict[str, str]:
    """This process's environment without what leads to the checkout, and with a home of Evenkeel's own."""
    ours = ("PYTHONPATH", "EVENKEEL_EXPECTATIONS", "EVENKEEL_SPARK")
    return {**{key: value for key, value in os.environ.items() if key not in ours}, "EVENKEEL_HOME": str(home)}


def of_wheel(environment: Path) -> dict[str, str]:
    """What Airflow has to be told to take DAGs, as a bundle, and the plugin of the wheel that is installed there."""
    share = environment / "share" / "evenkeel"
    bundle = {
        "name": "evenkeel",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(share / "dags")},
    }
    return {
        "AIRFLOW__CORE__DAGS_FOLDER": str(share / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(share / "plugins"),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": str(environment / "bin" / "python"),
    }
