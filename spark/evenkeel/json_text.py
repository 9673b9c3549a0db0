"""JSON that comes from outside, read in one place: all that can be wrong with the text is one error."""

from __future__ import annotations

import json
from typing import Any


class NotJson(ValueError):
    """A text that is not JSON, or is nested too deep to be read. `msg`: the fault without its place in the text."""

    def __init__(self, text: str, msg: str) -> None:
        super().__init__(text)
        self.msg = msg


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text, of any type; `NotJson` for any other text, also for bytes that are not UTF-8."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise NotJson(str(error), error.msg) from None
    except RecursionError:
        raise NotJson(TOO_DEEP, TOO_DEEP) from None
    except ValueError as error:
        raise NotJson(str(error), str(error)) from None


TOO_DEEP = "its members are nested too deep"
