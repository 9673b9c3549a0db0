"""The files below docker/ as tests read them: stages of the Dockerfile, services, objects of Kubernetes."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
DOCKER = CHECKOUT / "docker"
DOCKERFILE = DOCKER / "Dockerfile"
COMPOSE = DOCKER / "compose.yaml"
IN_S3 = DOCKER / "compose.s3.yaml"
NGINX = DOCKER / "nginx.conf"
HEALTH = DOCKER / "health.py"
VALUES = DOCKER / "kubernetes" / "airflow" / "values.yaml"
MANIFESTS = sorted((DOCKER / "kubernetes").glob("*.yaml"))
PAGE = CHECKOUT / "docs" / "how-to" / "containers.md"
IMAGES = ("agent", "airflow", "spark")
USER = 10001

HEALTH_IN_IMAGE = "/opt/evenkeel/health.py"
SHARE_IN_IMAGE = "/opt/evenkeel/venv/share/evenkeel"
LANDING_IN_IMAGE = "/var/lib/evenkeel/landing"
SPARK_PORT = "15002"
TLS_PORT = 15443


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the Dockerfile: its instructions with their arguments, lines that go on put together."""

    name: str
    base: str
    instructions: tuple[tuple[str, str], ...]

    def all_of(self, instruction: str) -> list[str]:
        """The arguments of every instruction of this kind."""
        return [rest for name, rest in self.instructions if name == instruction]

    def words(self, instruction: str) -> list[str]:
        """The words of the one instruction of this kind, given as JSON."""
        (found,) = self.all_of(instruction)
        words: list[str] = json.loads(found)
        return words

    def settings(self, instruction: str) -> dict[str, str]:
        """NAME=VALUE of all instructions of this kind."""
        pairs = (word.partition("=") for rest in self.all_of(instruction) for word in shlex.split(rest))
        return {name: value for name, _, value in pairs}

    def health_command(self) -> list[str]:
        """The words of HEALTHCHECK's command."""
        (found,) = self.all_of("HEALTHCHECK")
        words: list[str] = json.loads(found[found.index("[") :])
        return words


def stages() -> dict[str, Stage]:
    """The Dockerfile's stages by name."""
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found: dict[str, Stage] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = Stage(name, base, ())
        elif found:
            last = found[name]
            found[name] = Stage(last.name, last.base, (*last.instructions, (word, re.sub(r"\s+", " ", rest).strip())))
    return found


def in_yaml(path: Path) -> dict[str, Any]:
    """The one document of a YAML file."""
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def objects() -> list[dict[str, Any]]:
    """All objects of Kubernetes in all manifests."""
    return [found for path in MANIFESTS for found in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def containers(deployment: dict[str, Any]) -> list[dict[str, Any]]:
    """The containers of a Deployment, those that come first included."""
    pod = deployment["spec"]["template"]["spec"]
    return [*pod.get("initContainers", []), *pod["containers"]]


def values_of(found: object, *names: str) -> Iterator[Any]:
    """Every value that stands under one of these keys, at any depth."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key in names:
                yield value
            yield from values_of(value, *names)
    elif isinstance(found, list):
        for one in found:
            yield from values_of(one, *names)
