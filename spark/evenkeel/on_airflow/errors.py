"""What can go wrong between Evenkeel and its Airflow."""

from __future__ import annotations

from evenkeel.errors import EvenkeelError


class AirflowError(EvenkeelError):
    """Airflow does not start, does not answer, or refuses a request; the text is fit for an operator."""


class Refused(AirflowError):
    """Airflow's REST API answered with an error; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class OutOfOrder(AirflowError):
    """A backfill's cycle was started before the one that it goes on from."""
