"""The page on many workers says how Spark calls the core: its code runs on two local workers."""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from mercer import KernelRegressor
from mercer_cluster import Plan

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "cluster.md"


@pytest.fixture
def spark(monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4"}
    builder = sql.SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.mark.usefixtures("quick_race")
@pytest.mark.filterwarnings("ignore")  # of pyspark, by pandas
def test_spark_learns_by_the_code_of_the_page(spark, rng):
    import pandas

    (code,) = re.findall(r"```{code-block} python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    n, n_test = 6000, 500
    X = rng.uniform(-1, 1, (n + n_test, 2))
    y = np.sin(4 * X[:, 0]) + X[:, 1]
    table = pandas.DataFrame({"a": X[:n, 0], "b": X[:n, 1], "y": y[:n]})
    frame = spark.createDataFrame(table).repartition(5)
    names = {"spark": spark, "frame": frame, "Plan": Plan, "KernelRegressor": KernelRegressor}
    exec(code, names)
    model = names["model"]
    assert names["rest"].total == n - len(names["held"][0])
    assert np.mean((model.predict(X[n:]) - y[n:]) ** 2) < 0.01 * y.var()
