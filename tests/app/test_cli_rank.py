"""The command on rankings: what it learns, measures, writes and refuses."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from pyarrow import csv
from sklearn.metrics import roc_auc_score

from command_line import run
from mercer import KernelClassifier, KernelRanker, load_model
from mercer.buffers import FIFO, Everything, PerClassFIFO, Reservoir
from mercer.columns import TablePreprocessor
from mercer.estimators.pairs import PairLabels
from mercer.expansions import KOMP, Full
from mercer.inspection import describe_pairs
from mercer.kernels import PairKernel
from mercer.losses import SquaredHinge
from mercer.metrics import auc_standard_error, concordance, ndcg
from mercer_app.cli._fit import make_expansion
from mercer_app.messages import in_words_of_the_command
from mercer_app.rows import TableRows
from mercer_app.training import FileTraining, shuffled_groups


def table(n_queries, seed):
    """Rows of queries of 4 to 20, whose grades depend on the query, too."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 21, n_queries)
    query = np.repeat(np.arange(n_queries), sizes)
    x = rng.standard_normal((query.size, 2))
    worth = np.sin(2.0 * x[:, 0]) + x[:, 1] + 0.2 * rng.standard_normal(query.size)
    level = rng.standard_normal(n_queries)[query]
    return pa.table(
        {
            "a": x[:, 0],
            "b": x[:, 1],
            "query": pa.array([f"q{q}" for q in query]),
            "click": np.where(worth > 1.0, "yes", "no"),
            "grade": np.clip(np.round(worth + 2.0 + level), 0, 4).astype(int),
            "worth": worth,
        }
    )


def leaving(*kept):
    """Options that leave one target of the table, and the query if it is wanted."""
    others = {"query", "click", "grade", "worth"} - set(kept)
    return ["--task", "rank", *(w for name in sorted(others) for w in ("--exclude", name))]


MODELS = {
    "click": ["--target", "click", *leaving("click")],
    "grade": ["--target", "grade", *leaving("grade")],
    "worth": ["--target", "worth", *leaving("worth")],
    "query": ["--target", "grade", "--group", "query", *leaving("grade", "query")],
    "clicks": ["--target", "click", "--group", "query", *leaving("click", "query")],
    "same": [
        *("--target", "grade", *leaving("grade")),
        *("--pair-kernel", "mlpk", "--pair-label", "same", "--normalize", "balanced"),
        *("--max-size", "40", "--buffer", "fifo:20"),
    ],
    "skew": [
        *("--target", "click", *leaving("click")),
        *("--pair-kernel", "antisymmetric", "--max-size", "40", "--buffer", "5"),
    ],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Tables and models that the tests only read."""
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(table(120, 0), folder / "train.parquet")
    pq.write_table(table(120, 0).slice(0, 600), folder / "fewer.parquet")  # pairs take time
    pq.write_table(table(40, 1), folder / "test.parquet")
    csv.write_csv(table(40, 1), folder / "test.csv")
    for name, words in MODELS.items():
        out = folder / f"{name}.mercer"
        data = folder / ("fewer.parquet" if "--pair-kernel" in words else "train.parquet")
        assert run("fit", data, "--out", out, *words) == 0, name
    return folder


@pytest.fixture
def measured(files, mercer):
    def call(name, data="test.parquet", *words):
        code, out, err = mercer(
            "evaluate", files / f"{name}.mercer", files / data, "--json", *words
        )
        assert code == 0, err
        return json.loads(out)

    return call


def scores_and(files, name, target):
    """Scores of the test rows, their targets and their groups."""
    model, rows = load_model(files / f"{name}.mercer"), pq.read_table(files / "test.parquet")
    y = TableRows.of_tables(model).targets(rows, column=target)
    return model.predict(rows), y, rows.column("query").to_numpy()


# -- fit ----------------------------------------------------------------------------------------


def test_fit_says_what_it_compares(files, mercer, tmp_path):
    code, out, err = mercer(
        *("fit", files / "train.parquet", "--out", tmp_path / "m", *MODELS["query"]),
        *("--test", files / "test.parquet"),
    )
    assert code == 0, err
    assert "ranking of 'grade'; columns: 2" in err
    assert "pairs within groups of 'query'; shuffled with the rows of a group together" in err
    assert "loss of pairs" in err
    assert [line.split()[0] for line in out.splitlines()] == [
        "rows",
        "concordance",
        "ndcg_at_10",
        "pairs",
        "groups",
    ]


def test_the_group_and_the_target_are_no_inputs(files):
    model = load_model(files / "query.mercer")
    assert model.preprocessor_.feature_names_in_ == ["a", "b"]
    assert isinstance(model, KernelRanker)
    assert (model.roles_.target, model.roles_.group) == ("grade", "query")


def test_every_option_reaches_the_ranker(files, mercer, tmp_path):
    words = (
        "--loss squared_hinge --pair-kernel symmetric --pair-label same --normalize balanced "
        "--buffer fifo:7 --step-size 0.1 --batch-size 3 --max-size 50 --regularization 1e-4"
    )
    code, _, err = mercer(
        *("fit", files / "fewer.parquet", "--out", tmp_path / "m", *MODELS["grade"]), *words.split()
    )
    assert code == 0, err
    ranker = load_model(tmp_path / "m")
    assert isinstance(ranker, KernelRanker)
    chosen = ranker.get_params(deep=False)
    assert chosen["pair_kernel"] == "symmetric"
    assert (chosen["pair_label"], chosen["normalize"]) == ("same", "balanced")
    assert (chosen["step_size"], chosen["batch_size"], chosen["regularization"]) == (0.1, 3, 1e-4)
    assert chosen["expansion"] == KOMP(tolerance=1e-4, max_size=50)
    assert (ranker.loss_, ranker.buffer_) == (SquaredHinge(), FIFO(7))


@pytest.mark.parametrize(
    ("text", "buffer"),
    [
        ("10", PerClassFIFO(10)),
        ("previous", PerClassFIFO(1)),
        ("fifo:50", FIFO(50)),
        ("fifo", FIFO()),
        ("reservoir:100", Reservoir(100)),
        ("auto", PerClassFIFO()),
        ("all", Everything()),
    ],
)
def test_buffers_are_read(files, mercer, tmp_path, text, buffer):
    pq.write_table(pq.read_table(files / "train.parquet").slice(0, 120), tmp_path / "few.parquet")
    code, _, err = mercer(
        *("fit", tmp_path / "few.parquet", "--out", tmp_path / "m", *MODELS["click"]),
        *("--buffer", text),
    )
    assert code == 0, err
    ranker = load_model(tmp_path / "m")
    assert ranker.buffer_ == buffer
    assert type(ranker.learner_.function.expansion) is (Full if text == "all" else KOMP)


def test_the_dictionary_has_room_for_the_buffer_that_was_chosen(files, mercer, tmp_path):
    pq.write_table(pq.read_table(files / "train.parquet").slice(0, 120), tmp_path / "few.parquet")
    for words in ("--buffer fifo:300", "--buffer fifo:300 --tolerance 0.01", "--buffer all"):
        code, _, err = mercer(
            *("fit", tmp_path / "few.parquet", "--out", tmp_path / "m", *MODELS["worth"]),
            *words.split(),
        )
        assert code == 0, err
    # More than the 200 points that are the default of smaller buffers.
    expansion = make_expansion(None, {"tolerance": 0.01}, ranker=KernelRanker(buffer=FIFO(300)))
    assert expansion == KOMP(max_size=600, tolerance=0.01)


def test_automatic_buffers_follow_the_target(files):
    buffers = {
        name: load_model(files / f"{name}.mercer").buffer_
        for name in ("click", "grade", "worth", "query", "clicks")
    }
    assert buffers.pop("click") == PerClassFIFO()
    assert set(map(repr, buffers.values())) == {repr(FIFO())}


@pytest.mark.parametrize(
    ("words", "normalize"),
    [
        ("", "opposite"),
        ("--normalize auto", "opposite"),
        ("--normalize all", "all"),
        ("--pair-kernel mlpk --pair-label same", "balanced"),
        ("--pair-kernel mlpk --pair-label same --normalize opposite", "opposite"),
    ],
)
def test_normalization_follows_the_label_of_pairs(files, mercer, tmp_path, words, normalize):
    pq.write_table(pq.read_table(files / "train.parquet").slice(0, 120), tmp_path / "few.parquet")
    code, _, err = mercer(
        *("fit", tmp_path / "few.parquet", "--out", tmp_path / "m", *MODELS["grade"]),
        *words.split(),
    )
    assert code == 0, err
    code, out, _ = mercer("inspect", tmp_path / "m", "--json")
    assert json.loads(out)["normalize"] == normalize


def test_the_help_states_the_defaults_of_rankings(mercer, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = mercer("fit", "--help")
    ranker, usual = KernelRanker(), KernelClassifier()
    stated = {
        "--max-size": (KOMP(max_size=1000).max_size, ranker.plan().expansion.limit()),
        "--regularization": (usual._ridge(), ranker.regularization),
        "--batch-size": (usual.batch_size, ranker.plan().batch_size),
    }
    assert KernelClassifier(step_size=0.1).plan().expansion.limit() == 1000
    for option, (of_others, of_rankings) in stated.items():
        (line,) = [line for line in out.splitlines() if f" {option} " in line]
        found = re.search(r"\(([\d,.e-]+); ranking: ([\d,.e-]+)[;)]", line)
        numbers = [float(text.replace(",", "")) for text in found.groups()]
        assert numbers == [of_others, of_rankings], option


@pytest.mark.parametrize("step_size", ["auto", "theory", "0.5"])
def test_step_sizes_are_numbers_or_rules(files, mercer, tmp_path, step_size):
    code, _, err = mercer(
        *("fit", files / "train.parquet", "--out", tmp_path / "m", *MODELS["click"]),
        *("--step-size", step_size),
    )
    assert code == 0, err
    steps = load_model(tmp_path / "m").history_.step_size
    # 16 times the largest step of the theorems, falling like t to the -1/2, or -4/5 from that.
    expected = {"auto": 0.5, "theory": 0.8, "0.5": 0.0}[step_size]
    n = load_model(tmp_path / "m").history_.n_samples
    assert_allclose(np.log(steps[0] / steps[-1]) / np.log(n[-1] / n[0]), expected, atol=1e-6)


def test_classes_are_known_from_the_first_rows_read(files, mercer, tmp_path):
    rows = pq.read_table(files / "train.parquet").sort_by("click")
    pq.write_table(rows, tmp_path / "sorted.parquet")
    # In the order of the file the first chunk has one class, text without an order of its own.
    n_no = np.sum(rows.column("click").to_numpy(zero_copy_only=False) == "no")
    assert n_no > 500
    training = FileTraining(
        tmp_path / "sorted.parquet",
        "click",
        task="rank",
        exclude=["query", "grade", "worth"],
        shuffle_buffer=0,
    ).start()
    head = pq.read_table(tmp_path / "sorted.parquet").slice(0, 500)
    training.rows_.learn(*training.rows_.rows(head))
    assert training.model_.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize(
    "words",
    [
        MODELS["click"],
        [*MODELS["query"], "--shuffle-buffer", "60"],
        [*MODELS["click"], "--buffer", "reservoir:20"],
        MODELS["skew"],
        [*MODELS["click"], "--expansion", "random_features", "--mode", "faithful"],
        [*MODELS["query"], "--expansion", "random_features", "--block-size", "16"],
    ],
    ids=["classes", "groups", "reservoir", "second order", "features", "newton"],
)
def test_a_killed_run_goes_on_bit_for_bit(files, mercer, tmp_path, words, monkeypatch):
    from mercer_app.training import _row_stream

    # Faithful features learn in batches of 256 rows.
    chunk, n = (256, 700) if "faithful" in words else (100, 240)
    if words == MODELS["skew"]:  # kernels of pairs take time
        chunk, n = 50, 120
    monkeypatch.setattr(_row_stream, "_CHUNK", chunk)
    pq.write_table(pq.read_table(files / "train.parquet").slice(0, n), tmp_path / "d.parquet")
    run_ = ["fit", tmp_path / "d.parquet", *words, "--passes", "2"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert mercer(*run_, "--out", whole)[0] == 0
    # Stopped as by a signal after the second chunk.
    calls = []
    learn = TableRows.learn

    def counted(self, *arrays):
        calls.append(len(arrays[0]))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return learn(self, *arrays)

    with monkeypatch.context() as patch:
        patch.setattr(TableRows, "learn", counted)
        code, _, _ = mercer(*run_, "--out", stopped, "--checkpoint-every", chunk)
        assert code == 130
    assert not stopped.exists()
    code, _, err = mercer(*run_, "--out", stopped, "--resume")
    assert code == 0, err
    assert "going on from" in err
    assert stopped.read_bytes() == whole.read_bytes()


# -- evaluate, predict, inspect -----------------------------------------------------------------


def test_two_classes_are_measured_by_the_auc(files, measured):
    values = measured("click")
    scores, y, _ = scores_and(files, "click", "click")
    positive = y == "yes"
    assert_allclose(values["auc"], roc_auc_score(positive, scores), rtol=1e-12)
    assert values["auc"] > 0.9
    assert values["pairs"] == positive.sum() * (~positive).sum()
    assert values["rows"] == y.size
    assert_allclose(values["auc_standard_error"], auc_standard_error(positive, scores))


@pytest.mark.parametrize("name", ["grade", "worth"])
def test_graded_and_real_targets_are_measured_by_the_order_of_pairs(files, measured, name):
    values = measured(name)
    scores, y, _ = scores_and(files, name, name)
    assert_allclose(values["concordance"], concordance(y, scores), rtol=1e-12)
    assert set(values) == {"rows", "concordance", "pairs"}
    assert values["pairs"] == sum(int(np.sum(y[:i] != y[i])) for i in range(y.size))


@pytest.mark.parametrize(("name", "target"), [("query", "grade"), ("clicks", "click")])
def test_groups_are_measured_one_by_one(files, measured, name, target):
    values = measured(name)
    scores, y, group = scores_and(files, name, target)
    gains = (y == "yes").astype(float) if target == "click" else y
    assert_allclose(values["concordance"], concordance(gains, scores, group), rtol=1e-12)
    assert_allclose(values["ndcg_at_10"], ndcg(gains, scores, group, k=10), rtol=1e-12)
    assert values["groups"] == 40
    same_group = [gains[:i][group[:i] == group[i]] for i in range(y.size)]
    assert values["pairs"] == sum(int(np.sum(g != gains[i])) for i, g in enumerate(same_group))
    # Learned among all rows, the level of the query, which no input tells, is in the way.
    if target == "grade":
        other, _, _ = scores_and(files, "grade", "grade")
        assert values["concordance"] > concordance(gains, other, group)


def test_models_of_pairs_are_measured_on_pairs(files, measured):
    same = measured("same")
    assert set(same) == {"rows", "auc_of_pairs"}
    model, rows = load_model(files / "same.mercer"), pq.read_table(files / "test.parquet")
    expected = model.score(rows, rows.column("grade").to_numpy())
    assert_allclose(same["auc_of_pairs"], expected, rtol=1e-12)
    skew = measured("skew")
    assert set(skew) == {"rows", "concordance"}
    assert skew["concordance"] > 0.75


def test_csv_files_give_the_same_measures(measured):
    assert_allclose(
        list(measured("query", "test.csv").values()), list(measured("query").values()), rtol=1e-9
    )


@pytest.mark.parametrize("constant", ["no", "yes"])
def test_rows_without_a_pair_have_no_measure_of_order(files, mercer, tmp_path, constant):
    rows = pq.read_table(files / "test.parquet")
    kept = rows.filter(pa.compute.equal(rows.column("click"), constant))
    pq.write_table(kept, tmp_path / "one.parquet")
    code, out, _ = mercer("evaluate", files / "click.mercer", tmp_path / "one.parquet", "--json")
    assert (code, json.loads(out)) == (0, {"rows": kept.num_rows, "pairs": 0})


def test_predict_writes_scores(files, mercer, tmp_path):
    words = ("--out", tmp_path / "p.parquet", "--keep", "query")
    code, _, err = mercer("predict", files / "query.mercer", files / "test.parquet", *words)
    assert code == 0, err
    written = pq.read_table(tmp_path / "p.parquet")
    assert written.column_names == ["query", "score"]
    scores, _, group = scores_and(files, "query", "grade")
    assert_allclose(written.column("score").to_numpy(), scores)
    assert written.column("query").to_pylist() == group.tolist()


def test_predict_needs_neither_target_nor_group(files, mercer, tmp_path):
    pq.write_table(pq.read_table(files / "test.parquet").select(["a", "b"]), tmp_path / "x.parquet")
    words = (tmp_path / "x.parquet", "--out", tmp_path / "p.csv")
    assert mercer("predict", files / "query.mercer", *words)[0] == 0


def test_predict_refuses_models_of_pairs(files, mercer, tmp_path):
    words = (files / "test.parquet", "--out", tmp_path / "p.csv")
    code, _, err = mercer("predict", files / "same.mercer", *words)
    assert code == 2
    assert "its pair kernel is mlpk" in err
    assert "mercer.load_model('same.mercer').predict_pair(table1, table2)" in err
    assert "--pair-kernel difference" in err
    assert not (tmp_path / "p.csv").exists()


def test_inspect_says_what_is_compared(files, mercer):
    code, out, _ = mercer("inspect", files / "query.mercer", "--json")
    values = json.loads(out)
    assert code == 0
    assert values["pair_kernel"] == "difference"
    assert (values["pair_label"], values["normalize"]) == ("sign", "opposite")
    assert (values["buffer"], values["group"]) == ("the last 50 rows", "query")
    assert values["batch_size"] == 1
    _, out, _ = mercer("inspect", files / "click.mercer", "--json")
    assert json.loads(out)["group"] == "none: all rows are compared"
    assert json.loads(out)["buffer"] == "the last 10 rows of each class"
    _, out, _ = mercer("inspect", files / "same.mercer", "--json")
    assert json.loads(out)["pair_kernel"] == "mlpk"


@pytest.mark.parametrize(
    ("options", "pair_kernel", "buffer"),
    [
        ({"buffer": "previous"}, "difference", "the last row of each class"),
        (
            {"buffer": Reservoir(1000), "pair_kernel": [1, -1], "expansion": Full()},
            "[1.0, -1.0]",
            "1,000 rows drawn from those before",
        ),
        (
            {"buffer": Reservoir(9, per_class=True)},
            "difference",
            "9 rows of each class drawn from those before",
        ),
        (
            {
                "buffer": Everything(),
                "pair_kernel": PairKernel("mlpk", bias=0.5),
                "pair_label": "same",
                "expansion": Full(),
            },
            "mlpk, bias 0.5",
            "all rows before",
        ),
    ],
)
def test_patterns_and_buffers_are_described_in_full(options, pair_kernel, buffer):
    X = np.random.default_rng(0).standard_normal((40, 2))
    described = describe_pairs(KernelRanker(random_state=0, **options).fit(X, X[:, 0] > 0))
    assert (described["pair_kernel"], described["buffer"]) == (pair_kernel, buffer)


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--pair-kernel symmetric", "`--pair-label sign` does not go with"),
        ("--pair-label same", "`--pair-label same` does not go with"),
        ("--pair-kernel mlpk --pair-label same --buffer 10", "Use `--buffer fifo:50`"),
        ("--buffer fifo:300 --max-size 200", "keeps at most 200 points"),
        ("--buffer all --max-size 100", "holds all rows"),
        ("--buffer fifty", "`--buffer` takes a number"),
        ("--buffer fifo:0", "`--buffer` takes a number"),
        ("--buffer -3", "`--buffer` takes a number"),
        ("--normalize balanced", "`--normalize balanced`"),
        ("--loss softmax", "one of margins"),
        ("--loss squared", "regression loss"),
        ("--step-size fast", "`--step-size` takes"),
        ("--step-size 0", "`--step-size` must be"),
        ("--step-size theory --loss q_norm_hinge", "has no steps for"),
        ("--risk cvar", "`--risk` cannot be chosen for a ranking"),
        ("--quantiles 0.5", "`--quantiles` cannot be chosen for a ranking"),
        ("--nu 0.5", "`--nu` cannot be chosen for a ranking"),
        ("--class-weight balanced", "`--class-weight` cannot be chosen"),
    ],
)
def test_wrong_combinations_end_before_any_row_is_read(mercer, tmp_path, words, message):
    # There is no such file: what is said is said before it is looked for.
    code, _, err = mercer(
        *("fit", tmp_path / "nowhere.parquet", "--out", tmp_path / "m", *MODELS["grade"]),
        *words.split(),
    )
    assert code == 2
    assert message in err
    assert "nowhere" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "grade", "--task", "rank", "--group", "nosuch"], "no column 'nosuch'"),
        (["--target", "grade", "--task", "rank", "--group", "grade"], "two columns"),
        (["--task", "novelty", "--group", "query"], "`--group` is for rankings"),
        (["--target", "grade", "--task", "regression", "--buffer", "10"], "`--buffer` cannot be"),
        (["--target", "query", *leaving("query")], "they have no order to learn"),
        (["--target", "worth", *leaving("worth"), "--buffer", "10"], "Use `--buffer fifo:50`"),
        (["--task", "rank"], "`--target` must name the column"),
        ([*MODELS["click"], "--pair-kernel", "wrong"], "'--pair-kernel'"),
    ],
)
def test_wrong_arguments_are_refused(files, mercer, tmp_path, words, message):
    code, _, err = mercer("fit", files / "train.parquet", "--out", tmp_path / "m", *words)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("worth", np.inf, "The target 'worth' holds inf in row 7"),
        ("query", None, "The group 'query' has no value in 1 of"),
    ],
)
def test_wrong_targets_and_gaps_in_groups_are_refused(
    files, mercer, tmp_path, column, value, message
):
    rows = pq.read_table(files / "train.parquet")
    values = rows.column(column).to_pylist()
    values[7] = value
    place = rows.column_names.index(column)
    pq.write_table(rows.set_column(place, column, pa.array(values)), tmp_path / "x.parquet")
    words = ["--target", "worth", "--group", "query", *leaving("worth", "query")]
    code, _, err = mercer("fit", tmp_path / "x.parquet", "--out", tmp_path / "m", *words)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("name", ["query", "grade"])
def test_evaluation_without_the_group_is_refused(files, mercer, tmp_path, name):
    column = {"query": "query", "grade": "grade"}[name]
    rows = pq.read_table(files / "test.parquet").drop_columns([column])
    pq.write_table(rows, tmp_path / "x.parquet")
    code, _, err = mercer("evaluate", files / "query.mercer", tmp_path / "x.parquet")
    assert code == 2
    assert f"no column '{column}'" in err


def test_classes_of_another_type_are_refused(files, mercer, tmp_path):
    rows = pq.read_table(files / "test.parquet")
    numbers = pa.array(np.arange(rows.num_rows) % 2)
    place = rows.column_names.index("click")
    pq.write_table(rows.set_column(place, "click", numbers), tmp_path / "x.parquet")
    code, _, err = mercer("evaluate", files / "click.mercer", tmp_path / "x.parquet")
    assert code == 2
    assert "text and numbers cannot be mixed" in err


def meet(y, *later, per_class=None):
    labels = PairLabels.first(np.array(y), "sign", per_class, None)
    for more in later:
        labels = labels.meet(np.array(more))


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: meet(["a", "b", "c"]), "two classes of any type, or `--pair-label same`"),
        (lambda: meet(["a", "a"]), "two classes of any type, or `--pair-label same`"),
        (lambda: meet([1, 2, 3], per_class=True), "Use `--buffer fifo:50`"),
        (lambda: meet([0, 1], [7]), "or with `--buffer fifo:50`"),
        (lambda: meet([3], [5]), "Start with rows of both classes"),
    ],
    ids=["words", "one word", "grades", "third value", "other side"],
)
def test_advice_on_labels_is_in_words_of_the_command(call, advice):
    # The texts of the library and what makes them those of the command are changed together.
    with pytest.raises(ValueError, match=r"y has|The buffer keeps") as found:
        call()
    said = in_words_of_the_command(found.value)
    assert advice in said
    for python in ("partial_fit", "classes=", "FIFO(", "buffer=", "pair_label=", "mercer.buffers"):
        assert python not in said


# -- the order of the rows ----------------------------------------------------------------------


def blocks_of(group, length):
    """Rows numbered in the order of the file, cut into blocks."""
    number = np.arange(len(group))
    X = number[:, None].astype(float)
    cuts = range(0, len(group), length)
    return [
        (X[i : i + length], number[i : i + length], np.asarray(group, float)[i : i + length])
        for i in cuts
    ]


@pytest.mark.parametrize("buffer_size", [7, 40, 100, 1000])
@pytest.mark.parametrize("length", [1, 13, 400])
def test_rows_of_a_group_stay_together(buffer_size, length):
    rng = np.random.default_rng(0)
    group = np.repeat(rng.permutation(50), rng.integers(1, 8, 50)).astype(float)
    out = list(shuffled_groups(blocks_of(group, length), buffer_size, random_state=0))
    X, y, g = (np.concatenate([part[i] for part in out]) for i in range(3))
    assert sorted(y.tolist()) == list(range(group.size))
    assert np.array_equal(X[:, 0], y)
    assert np.array_equal(g, group[y])
    # Groups smaller than a window come in one piece, in another order.
    assert np.sum(g[1:] != g[:-1]) == 49
    assert not np.array_equal(y, np.arange(group.size))
    # No row is much further away than a window.
    assert np.abs(y - np.arange(y.size)).max() <= buffer_size + 8


def test_the_order_does_not_depend_on_the_blocks_but_on_the_seed():
    group = np.repeat(np.arange(40), 5)
    orders = [
        np.concatenate([y for _, y, _ in shuffled_groups(blocks_of(group, length), 60, seed)])
        for length, seed in ((9, 0), (200, 0), (9, 1))
    ]
    assert np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


def test_a_group_larger_than_a_window_is_cut():
    out = list(shuffled_groups(blocks_of(np.zeros(100), 30), 20, random_state=0))
    assert [len(part[1]) for part in out] == [20] * 5
    assert sorted(np.concatenate([part[1] for part in out]).tolist()) == list(range(100))


def test_scattered_groups_are_gathered_within_a_window():
    group = np.tile(np.arange(20), 10)
    out = list(shuffled_groups(blocks_of(group, 200), 200, random_state=0))
    g = np.concatenate([part[2] for part in out])
    assert np.sum(g[1:] != g[:-1]) == 19


@pytest.mark.parametrize("shuffle_buffer", [0, 65_536])
def test_rows_of_a_group_meet_in_training(files, tmp_path, shuffle_buffer):
    # Groups of two in neighbouring rows, one of each class: their pairs are all there is, and with
    # a buffer of one row only the second row of each group finds its partner.
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3000)
    better = x[::2] > x[1::2]
    y = np.column_stack([better, ~better]).ravel().astype(int)
    group = np.repeat(np.arange(1500), 2)
    rows = pa.table({"x": x, "y": y, "g": group})
    pq.write_table(rows, tmp_path / "x.parquet")
    training = FileTraining(
        tmp_path / "x.parquet",
        "y",
        task="rank",
        group="g",
        options={"buffer": FIFO(1), "expansion": KOMP(max_size=20)},
        shuffle_buffer=shuffle_buffer,
    ).start()
    assert training.run(tmp_path / "m")
    assert concordance(y, training.model_.predict(rows), group) > 0.95


ALONE = {
    "no two rows of a group": (["--group", "id"], "'id' with another 'y'", "`--group`"),
    "groups far apart": (
        ["--group", "far", "--shuffle-buffer", "20"],
        "'far' with another 'y'",
        "`--shuffle-buffer` (20 rows)",
    ),
    "one target in a group": (["--group", "y_again"], "'y_again' with", "`--group`"),
    "one target": (["--target", "one"], "with another 'one'", "`--buffer`"),
}


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("name", ALONE)
def test_a_run_in_which_no_rows_met_warns(mercer, tmp_path, name, quiet):
    words, why, mend = ALONE[name]
    n = 600
    y = np.random.default_rng(0).integers(0, 3, n)
    columns = {
        "x": np.linspace(0.0, 1.0, n),
        "y": y,
        "id": np.arange(n),
        "far": np.tile(np.arange(n // 2), 2),
        "y_again": y,
        "one": np.ones(n),
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    used = {words[1], "y"} if words[0] == "--group" else {words[1]}
    words = [*words] if "--target" in words else ["--target", "y", *words]
    words += [w for other in columns.keys() - used - {"x"} for w in ("--exclude", other)]
    code, _, err = mercer(
        *("fit", tmp_path / "x.parquet", "--out", tmp_path / "m", "--task", "rank", *words),
        *(["--quiet"] if quiet else []),
    )
    assert code == 0, err
    (warning,) = [line for line in err.splitlines() if line.startswith("warning:")]
    assert "has learned nothing from 600 rows, and its values are all 0" in warning
    assert why in warning
    assert mend in warning
    assert not np.any(load_model(tmp_path / "m").coefficients_)


# -- rows of tables -----------------------------------------------------------------------------


def test_rows_of_tables_learn_and_store_groups(files, tmp_path):
    table = pq.read_table(files / "train.parquet")
    columns = TablePreprocessor(exclude=("query", "click", "grade", "worth"))
    rows = TableRows(KernelRanker(random_state=0), columns, "grade", "query").partial_fit(table)
    X, y = rows.rows(table)
    query = table.column("query").to_numpy()
    direct = KernelRanker(random_state=0).partial_fit(X, y, group=query)
    assert_allclose(rows.model.decision_function(table), direct.decision_function(X), rtol=1e-12)
    rows.model.save(tmp_path / "m")
    stored = load_model(tmp_path / "m")
    again = TableRows.of_tables(stored)
    assert stored.roles_.group == again.group == "query"
    assert "'grade', 'query')" in repr(again)
    half = table.slice(0, 700)
    expected = rows.partial_fit(half).model.predict(table)
    assert np.array_equal(expected, again.partial_fit(half).model.predict(table))
    # By itself it takes groups as any ranker does.
    grade = half.column("grade").to_numpy()
    by_itself = load_model(tmp_path / "m")
    by_itself.partial_fit(half, grade, group=half.column("query").to_numpy())
    assert np.array_equal(expected, by_itself.predict(table))


@pytest.mark.parametrize("name", ["click", "query", "same", "skew"])
def test_models_of_tables_give_values_of_pairs_of_raw_rows(files, name):
    model = load_model(files / f"{name}.mercer")
    rows = pq.read_table(files / "test.parquet").select(["a", "b"])
    first, second = rows.slice(0, 50), rows.slice(50, 50)
    values = model.predict_pair(first, second)
    reads = TableRows.of_tables(model)
    expected = reads.estimator.predict_pair(reads.inputs(first), reads.inputs(second))
    assert_allclose(values, expected, rtol=1e-12)
    turned = model.predict_pair(second, first)
    assert_allclose(turned, values if name == "same" else -values, rtol=1e-9, atol=1e-12)
    if reads.scores_rows:
        assert_allclose(values, model.predict(first) - model.predict(second), atol=1e-12)
    known = first.append_column("grade", pa.array(np.zeros(50)))
    assert_allclose(model.predict_pair(known, second), values)
    more = first.append_column("more", pa.array(np.zeros(50)))
    with pytest.raises(ValueError, match="'more'"):
        model.predict_pair(more, second)
    with pytest.raises(ValueError, match=r"`X1` and `X2` must have .* 50 and 3"):
        model.predict_pair(first, second.slice(0, 3))


def test_only_rankings_have_values_of_pairs():
    rows = {"x": np.arange(40.0), "y": np.arange(40) > 20}
    read = TableRows(KernelClassifier(), TablePreprocessor(exclude=("y",)), "y")
    assert not hasattr(read.partial_fit(rows).model, "predict_pair")


def test_groups_that_cannot_be_are_refused():
    columns = TablePreprocessor(exclude=("y", "q"))
    for arguments, words in (
        ((KernelClassifier(expansion="komp"), columns, "y", "q"), "for rankings"),
        ((KernelRanker(), columns, "y", "y"), "two columns"),
        ((KernelRanker(), TablePreprocessor(exclude=("y",)), "y", "q"), "`exclude`"),
    ):
        with pytest.raises(ValueError, match=words):
            TableRows(*arguments)
    rows = {"x": np.arange(8.0), "y": np.arange(8), "q": np.zeros(8)}
    model = TableRows(KernelRanker(expansion=Full()), columns, "y", "q").partial_fit(rows)
    with pytest.raises(ValueError, match="groups of the rows"):
        model.learn(*model.rows(rows))


# -- the standard error -------------------------------------------------------------------------


def test_the_standard_error_of_the_auc_is_delongs():
    rng = np.random.default_rng(0)
    positive = rng.random(40) < 0.4
    scores = np.round(positive + rng.standard_normal(40), 1)  # with ties
    a, b = scores[positive], scores[~positive]
    above = (a[:, None] > b[None, :]) + 0.5 * (a[:, None] == b[None, :])
    # Each row of a class against the whole other one: variances of these shares.
    variance = above.mean(1).var(ddof=1) / a.size + above.mean(0).var(ddof=1) / b.size
    assert_allclose(auc_standard_error(positive, scores), np.sqrt(variance), rtol=1e-12)
    assert np.isnan(auc_standard_error(np.array([True, False, False]), np.arange(3.0)))


def test_the_standard_error_is_the_spread_over_samples():
    rng = np.random.default_rng(0)
    areas, errors = [], []
    for _ in range(400):
        positive = np.arange(150) < 30
        scores = positive + rng.standard_normal(150)
        areas.append(np.mean(scores[positive, None] > scores[~positive]))
        errors.append(auc_standard_error(positive, scores))
    # The standard deviation of 400 values is off by about 1 / sqrt(800), 3.5 %.
    assert_allclose(np.mean(errors), np.std(areas), rtol=0.12)
