import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mercer_reproduction._data_files import load_parquet_dataset
from mercer_reproduction.polk_multidist import make_multidist


def test_multidist_is_drawn_in_the_documented_order():
    rng = np.random.default_rng(16)
    angle = 2 * np.pi * np.arange(5) / 5
    circle = np.c_[np.cos(angle), np.sin(angle)][:, None]
    means = circle + 1.0 * rng.standard_normal((5, 3, 2))

    def draw(n):
        y = rng.integers(5, size=n)
        j = rng.integers(3, size=n)
        return means[y, j] + 0.2 * rng.standard_normal((n, 2)), y

    for made, expected in zip(make_multidist(16), [*draw(5000), *draw(2500)], strict=True):
        assert_array_equal(made, expected)


def test_multidist_differs_between_seeds_and_checks_its_arguments():
    assert (make_multidist(1)[0] != make_multidist(2)[0]).any()
    with pytest.raises(ValueError, match="n_train"):
        make_multidist(1, n_train=0)
    with pytest.raises(ValueError, match="seed"):
        make_multidist(-1)


@pytest.fixture
def folder(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    pq.write_table(pa.table({"x": np.arange(10_000)}), tmp_path / "long.parquet")
    pq.write_table(pa.table({"x": np.arange(0)}), tmp_path / "empty.parquet")
    return tmp_path


@pytest.mark.parametrize(("name", "n"), [("long", 10_000), ("empty", 0)])
def test_data_sets_are_found_by_argument_or_environment(folder, monkeypatch, name, n):
    assert load_parquet_dataset(name, folder).column("x").to_pylist() == list(range(n))
    monkeypatch.setenv("MERCER_DATA", str(folder))
    assert load_parquet_dataset(name).num_rows == n


def test_unknown_data_sets_say_what_there_is(folder, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"no file .*short\.parquet.*: empty, long\."):
        load_parquet_dataset("short", folder)
    with pytest.raises(ValueError, match="plain name"):
        load_parquet_dataset("../long", folder)
    monkeypatch.delenv("MERCER_DATA", raising=False)
    with pytest.raises(ValueError, match="MERCER_DATA"):
        load_parquet_dataset("long")
