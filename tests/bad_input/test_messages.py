"""A message or a wish that is wrong in one member is refused in words, and nothing of it is carried out."""

import pytest

from evenkeel.errors import BadInput, EvenkeelError
from evenkeel.ingest.wish_intake import Maker, wish_row
from evenkeel.steering.queue.messages import read_message, read_report
from tests.bad_input.messages import bodies, wishes
from tests.bad_input.values import by_place

BODIES = {name: (kind, body) for name, kind, body in bodies()}
WISHES = dict(wishes())


@pytest.mark.parametrize("names", by_place(BODIES))
def test_a_body_that_is_no_message_is_refused(names: list[str], subtests: pytest.Subtests) -> None:
    for name in names:
        kind, body = BODIES[name]
        with subtests.test(name):
            with pytest.raises(EvenkeelError) as error:
                (read_report if kind == "report" else read_message)(body)
            assert str(error.value)


@pytest.mark.parametrize("names", by_place(WISHES))
def test_a_wish_that_is_none_is_refused(names: list[str], subtests: pytest.Subtests) -> None:
    for name in names:
        with subtests.test(name):
            with pytest.raises(BadInput) as error:
                wish_row(WISHES[name], "lab", Maker("olga", "2026-11-21T12:00:00+00:00"))
            assert str(error.value)
