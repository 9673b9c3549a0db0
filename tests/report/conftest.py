"""Lakes shared by the tests of this folder."""

from tests.lakes.fixtures import acting as acting
from tests.lakes.fixtures import lake as lake
from tests.lakes.fixtures import odd_lake as odd_lake
