"""The changes that are made to find what tests do not notice."""

import ast

from devtools.mutants import changes

SOURCE = '''
LIMIT = 5

def over(figure: int = 3, *, most: float) -> bool:
    """Return True if it is over."""
    if not figure:
        raise ValueError(f"{figure + 1}")
    note(figure, most, name=figure, of=most)
    return figure >= 2 and LIMIT != most

class Rule:
    @property
    def names(self) -> list[str]:
        return [*self.known]
'''
MADE = [
    "if figure:",
    "pass",
    "note(most, figure, name=figure, of=most)",
    "note(figure, most, name=most, of=figure)",
    "return None",
    "return figure >= 2 or LIMIT != most",
    "return figure > 2 and LIMIT != most",
    "return figure < 2 and LIMIT != most",
    "return figure >= 3 and LIMIT != most",
    "return figure >= 1 and LIMIT != most",
    "return figure >= 2 and LIMIT == most",
    "return []",
]


def test_every_change_is_one_and_constants_of_modules_defaults_and_messages_stay() -> None:
    before = ast.unparse(ast.parse(SOURCE)).splitlines()
    made = []
    for number in range(len([*changes(ast.parse(SOURCE))])):
        tree = ast.parse(SOURCE)
        first, (_, edit) = [*changes(tree)][number]
        assert first in (4, 12), "the line of the function, with its decorators"
        edit()
        after = ast.unparse(ast.fix_missing_locations(tree)).splitlines()
        (one,) = (line.strip() for line in after if line not in before)
        made.append(one)
    assert made == MADE
