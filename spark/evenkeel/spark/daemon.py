"""The process from which Spark forks its Python workers: pyspark's own daemon, with the common imports already loaded.

Workers end after an idle minute, so a cycle every five minutes would import everything each time. Only third-party
packages are loaded: a copy of our own package would go on deciding after the code has changed.
"""

import pandas  # noqa: F401
import pyarrow  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager
from pyspark.sql.pandas import serializers, types  # noqa: F401

if __name__ == "__main__":
    manager()
