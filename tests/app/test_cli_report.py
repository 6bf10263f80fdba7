"""Reports of quantities have pictures of them, without test data too, and say of which rows."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mercer
from mercer import KernelRegressor
from mercer_app.cli._report import seen_rows
from mercer_app.training import FileTraining

pytestmark = pytest.mark.usefixtures("quickest_race", "quick_correction", "rough_importances")

PICTURES = ("True against predicted values", "Errors of {} over their", "Errors of {} (ext")


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 500))
    frame = pd.DataFrame({"a": a, "b": b, "price": 500.0 + 40.0 * np.sin(a) + 3.0 * b})
    frame["sold"] = rng.poisson(np.exp(1.0 + 0.5 * a))
    frame["rank"] = rng.integers(3, size=500)
    frame.to_parquet(tmp_path_factory.mktemp("homes") / "homes.parquet")
    frame.to_parquet(place := tmp_path_factory.mktemp("more") / "homes.parquet")
    return place


@pytest.mark.parametrize(
    ("target", "options", "rows"),
    [
        ("price", [], "rows kept back"),
        ("price", ["--quantiles", "0.1,0.9"], "rows kept back"),
        ("price", ["--task", "gp", "--features", "64"], "rows that were learned"),
        ("price", ["--expansion", "komp", "--max-size", "40"], "rows that were learned"),
        ("sold", ["--loss", "poisson"], "rows kept back"),
    ],
)
def test_quantities_are_drawn_without_test_data(
    homes, mercer, tmp_path, target, options, rows, request
):
    if options[:1] not in (["--task"], ["--quantiles"]):  # the same pictures once more
        request.getfixturevalue("undrawn")
    others = ["--exclude", "sold" if target == "price" else "price"]
    words = ["fit", homes, "--target", target, "--out", tmp_path / "m", *others, *options]
    code, _, err = mercer(*words, "--report", tmp_path / "r.html")
    assert code == 0, err
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for picture in PICTURES:
        assert f"<figcaption>{picture.format(rows)}" in page
    assert "All numbers, pictures and rows are of" in page
    assert "Reliability of the quantiles" not in page  # which were fitted to these rows
    if options not in ([], ["--quantiles", "0.1,0.9"]):
        return
    request.getfixturevalue("undrawn")
    code, _, err = mercer(*words, "--report", tmp_path / "r.html", "--test", homes)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for picture in PICTURES:
        assert f"<figcaption>{picture.format('held-out rows')}" in page
    assert "All numbers, pictures and rows are of" not in page
    assert ("Reliability of the quantiles" in page) == ("--quantiles" in options)


def test_rows_kept_back_are_predicted_as_the_error_says(homes, tmp_path):
    """The pictures show the very rows whose RMSE training reports."""
    exclude = ["sold", "rank"]
    training = FileTraining(homes, "price", exclude=exclude).start()
    training.run(tmp_path / "m.mercer")
    seen = seen_rows(training.rows_, homes)
    data = pd.read_parquet(homes).set_index(["a", "b"])
    found = data.loc[pd.MultiIndex.from_arrays([seen.columns["a"], seen.columns["b"]])]
    assert_allclose(seen.truth, found["price"], atol=1e-3)
    mse = np.mean((seen.truth - seen.middle) ** 2)
    # The loss is noted before the level of the scores, which is found last.
    assert_allclose(mse, 2.0 * training.model_.history_.loss[-1], rtol=0.05)
    # They are not learned by heart, as they are in the end.
    learned = training.model_.predict(found.reset_index())
    assert np.mean((learned - seen.truth) ** 2) < 0.9 * mse


def test_classes_are_judged_by_rows_kept_back_with_their_columns(homes, tmp_path):
    """Each row is found in the data, with the very values of its columns."""
    training = FileTraining(homes, "rank", exclude=["sold"]).start()
    training.run(tmp_path / "m.mercer")
    seen = seen_rows(training.rows_, homes)
    assert seen.of == "rows kept back"
    assert seen.probability.shape == (len(seen.truth), 3)
    data = pd.read_parquet(homes).set_index(["a", "b"])["rank"]
    found = pd.MultiIndex.from_arrays([seen.columns["a"], seen.columns["b"]])
    assert np.array_equal(data.loc[found].to_numpy(), seen.truth)
    # `rank` is noise: only a fit that had these rows is right for more than a third of them.
    assert np.mean(seen.truth == seen.predicted) < 0.45


def test_data_that_were_not_learned_give_no_columns(homes, tmp_path):
    training = FileTraining(homes, "price", exclude=["sold", "rank"]).start()
    training.run(tmp_path / "m.mercer")
    pd.read_parquet(homes).assign(a=0.5).to_parquet(tmp_path / "other.parquet")
    assert seen_rows(training.rows_, tmp_path / "other.parquet").columns == {}


def test_no_page_tells_where_files_are(homes, mercer, tmp_path, request):
    """Reports are mailed to others, whom the folders of a machine do not concern."""
    folder = tmp_path / "home_of_ada"
    folder.mkdir()
    data, report = folder / "homes.parquet", folder / "r.html"
    data.write_bytes(homes.read_bytes())
    fit = ["fit", data, "--target", "rank", "--exclude", "sold", "--out", folder / "m"]
    for words in (
        [*fit, "--expansion", "komp", "--max-size", "30", "--test", data],
        ["evaluate", folder / "m", data],
    ):
        code, _, err = mercer(*words, "--report", report)
        assert code == 0, err
        request.getfixturevalue("undrawn")  # the next time
        page = report.read_text("utf-8").replace("<wbr>", "")  # long names may break
        assert "home_of_ada" not in page
        assert str(tmp_path.parent.name) not in page
        assert "homes.parquet" in page


def test_rows_kept_back_are_kept_in_files(homes, tmp_path):
    frame = pd.read_parquet(homes)
    model = KernelRegressor(random_state=0).fit(frame[["a", "b"]], frame["price"])
    held = model.held_out_
    assert len(held.X) == len(held.y) == len(held.scores) == len(held.weights) > 0
    model.save(tmp_path / "model")
    for mine, loaded in zip(held, mercer.load_model(tmp_path / "model").held_out_, strict=True):
        assert np.array_equal(mine, loaded)
