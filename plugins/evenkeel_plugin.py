"""Evenkeel in Airflow: the desk, a navigation entry that leads to it, and a link from every task.

Every Airflow process imports this file, so it imports only Airflow's own base class; the API server alone loads the
page itself. If the page cannot be loaded, Airflow starts without it and the log gives the reason in one line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

log = logging.getLogger(__name__)

PREFIX = "/evenkeel"


class EvenkeelPlugin(AirflowPlugin):
    """The page, its entry in the navigation, and the link from tasks to their cycle's report."""

    name = "evenkeel"

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The page, behind Airflow's own login."""
        return _or_nothing(_page)

    @cached_property
    def external_views(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Return the entry in the navigation's menu *Browse*, if there is a desk: a plain link, as it has no
        `url_route`.

        With a `url_route` Airflow would show the desk in a frame, in which links to task logs do not work. At the top
        level Airflow 3.3.2 makes a button of an entry without one, and a click on it does nothing.
        """
        return _or_nothing(_entry) if self.fastapi_apps else []

    @cached_property
    def operator_extra_links(self) -> list[Any]:  # type: ignore[override]
        """The link from each task of the pipeline to the report of its run's cycles."""
        return _or_nothing(_link)


def _page() -> list[dict[str, Any]]:
    from evenkeel_page.app import make_app

    return [{"app": make_app(), "url_prefix": PREFIX, "name": "Evenkeel"}]


def _entry() -> list[dict[str, Any]]:
    from evenkeel_page.link import airflow_path

    return [{"name": "Evenkeel", "href": f"{airflow_path()}{PREFIX}/", "destination": "nav", "category": "browse"}]


def _link() -> list[Any]:
    from evenkeel_page.link import CycleReportLink

    return [CycleReportLink()]


def _or_nothing(load: Callable[[], list[Any]]) -> list[Any]:
    try:
        return load()
    except Exception as error:  # whatever is wrong with our page, Airflow has to start
        log.error("Evenkeel's page is left out: %s: %s", type(error).__name__, error)
        return []
