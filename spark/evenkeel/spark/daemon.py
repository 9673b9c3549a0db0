"""What Spark forks its Python workers from: pyspark's own daemon, with what every worker imports already imported.

Workers end after an idle minute, so a cycle every five minutes would import it all each time. Third parties only: a
copy of our own package would go on deciding after the code has changed.
"""

import pandas  # noqa: F401
import pyarrow  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager
from pyspark.sql.pandas import serializers, types  # noqa: F401

if __name__ == "__main__":
    manager()
