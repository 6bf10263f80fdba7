import gc
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from mercer_app.files import stream

pa = pytest.importorskip("pyarrow")
import pandas as pd  # noqa: E402
from pyarrow import parquet as pq  # noqa: E402

N = 103
X = np.random.default_rng(0).standard_normal((N, 3))
Y = np.array(["no", "yes", "perhaps"])[np.arange(N) % 3]
NAMES = ["a", "b", "c"]


def table():
    return pa.table({"a": X[:, 0], "label": Y, "b": X[:, 1], "c": X[:, 2]})


def rows():
    return [(x, label) for x, label in zip(X, Y, strict=True)]


def batches():
    for part in np.array_split(np.arange(N), 9):
        yield X[part], Y[part]


def sources(folder):
    pq.write_table(table(), folder / "a.parquet", row_group_size=20)
    columns = {name: X[:, i] for i, name in enumerate(NAMES)}
    return {
        "arrays": ((X, Y), {}),
        "lists": ((X.tolist(), Y.tolist()), {}),
        "csr": ((sparse.csr_matrix(X), Y), {}),
        "frame and y": ((pd.DataFrame(X, columns=NAMES), pd.Series(Y)), {}),
        "list of rows": ((rows(),), {}),
        "function": ((batches,), {}),
        "dict rows": (
            ([(dict(zip("cab", x[[2, 0, 1]], strict=True)), label) for x, label in rows()],),
            {},
        ),
        "file": ((folder / "a.parquet",), {"target": "label"}),
        "folder": ((str(folder),), {"target": "label"}),
        "arrow": ((table(),), {"target": "label"}),
        "frame": ((table().to_pandas(),), {"target": "label"}),
        "dict of arrays": (({**columns, "label": Y},), {"target": "label"}),
        "tables": ((table().to_batches(max_chunksize=10),), {"target": "label"}),
    }


KINDS = sorted(["arrays", "lists", "csr", "frame and y", "list of rows", "function", "dict rows"])
KINDS += ["file", "folder", "arrow", "frame", "dict of arrays", "tables"]


def collect(pairs):
    pairs = list(pairs)
    dense = [part.toarray() if sparse.issparse(part) else part for part, _ in pairs]
    return np.concatenate(dense), np.concatenate([y for _, y in pairs])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_source_gives_the_same_batches_again_and_again(kind, dtype, tmp_path):
    args, options = sources(tmp_path)[kind]
    batched = stream(*args, **options, batch_size=10, dtype=dtype)
    for _ in range(2):
        parts = list(batched)
        assert [part.shape for part, _ in parts] == [(10, 3)] * 10 + [(3, 3)]
        assert all(part.dtype == dtype for part, _ in parts)
        features, targets = collect(parts)
        np.testing.assert_array_equal(features, X.astype(dtype))
        np.testing.assert_array_equal(targets, Y)


@pytest.mark.parametrize("kind", KINDS)
def test_shuffling_keeps_every_row_once_and_follows_the_seed(kind, tmp_path):
    args, options = sources(tmp_path)[kind]

    def passes(seed):
        batched = stream(*args, **options, batch_size=10, shuffle_buffer=40, random_state=seed)
        return [collect(batched) for _ in range(2)]

    (first, labels), (second, _) = passes(1)
    assert (first != X).any()
    assert (first != second).any()
    order = np.argsort(first[:, 0])
    np.testing.assert_array_equal(first[order], X[np.argsort(X[:, 0])])
    np.testing.assert_array_equal(labels[order], Y[np.argsort(X[:, 0])])
    (again, _), (again_second, _) = passes(1)
    np.testing.assert_array_equal(again, first)
    np.testing.assert_array_equal(again_second, second)
    assert (passes(2)[0][0] != first).any()


def test_the_number_of_rows_and_the_names_are_known_where_they_can_be(tmp_path):
    made = {kind: stream(*args, **options) for kind, (args, options) in sources(tmp_path).items()}
    assert made["file"].n_rows == made["arrays"].n_rows == made["arrow"].n_rows == N
    assert made["file"].feature_names == NAMES
    assert made["function"].n_rows is None


def test_columns_select_and_order_the_features(tmp_path):
    path = sources(tmp_path)["file"][0][0]
    features, _ = collect(stream(path, target="label", columns=["c", "a"]))
    np.testing.assert_array_equal(features, X[:, [2, 0]])
    dicts, _ = collect(stream(*sources(tmp_path)["dict rows"][0], columns=["c", "a"]))
    np.testing.assert_array_equal(dicts, X[:, [2, 0]])


@pytest.mark.parametrize("source", [X, X.tolist(), sparse.csr_matrix(X), {"a": X[:, 0]}])
def test_targets_may_be_absent(source):
    parts = list(stream(source, batch_size=50))
    assert [part.shape[0] for part, _ in parts] == [50, 50, 3]
    assert all(y is None for _, y in parts)


def test_an_iterator_can_be_used_once():
    once = stream(iter(rows()), batch_size=10)
    np.testing.assert_array_equal(collect(once)[0], X)
    with pytest.raises(ValueError, match="can be used only once"):
        iter(once)


def test_a_batch_is_out_as_soon_as_its_rows_are_in():
    drawn = []

    def live():
        for row in rows():
            drawn.append(row)
            yield row

    next(iter(stream(live, batch_size=8)))
    assert len(drawn) == 8


def test_rows_are_copied():
    row = np.zeros(2)

    def reusing():
        for i in range(6):
            row[:] = i
            yield row[None], [i]

    features, targets = collect(stream(reusing, batch_size=4))
    np.testing.assert_array_equal(features[:, 0], targets)
    (part, _), *_ = stream(X, Y)
    part[:] = 0
    assert X.any()


def test_memory_does_not_grow_with_the_stream():
    def most(n):
        source = (([float(i)] * 20, i % 2) for i in range(n))
        gc.collect()  # not what other tests left behind
        tracemalloc.start()
        for _ in stream(source, shuffle_buffer=500):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    most(600)
    assert most(9000) < most(3000) + 200_000  # 6,000 rows that are kept weigh over 1 MB


@pytest.mark.parametrize(
    ("column", "kind"), [([True, False], "b"), ([3, 4], "i"), ([0.5, 1.5], "f"), (["a", "b"], "U")]
)
def test_targets_keep_their_kind(column, kind):
    ((_, y),) = stream(pa.table({"x": [1, 2], "y": column}), target="y")
    assert y.dtype.kind == kind
    assert y.tolist() == column


def test_missing_and_boolean_features_of_tables():
    source = pa.table({"x": pa.array([1, None, 3]), "y": [0, 1, 0]})
    ((features, _),) = stream(source, target="y")
    np.testing.assert_array_equal(features, [[1.0], [np.nan], [3.0]])


def dicts(*keys):
    return [(dict.fromkeys(k, 1.0), 0) for k in keys]


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((table(),), {"target": "lable"}, "no column 'lable'. Did you mean 'label'?"),
        ((table(),), {}, "'label' holds text, categories or booleans, first 'no'"),
        ((table(),), {"target": "label", "columns": ["z"]}, "no column 'z'"),
        ((table(),), {"target": "label", "columns": ["label"]}, "give the answer away"),
        ((table(),), {"target": "label", "columns": "a"}, "sequence of names"),
        ((table(), Y), {"target": "label"}, "not both"),
        ((table().select(["label"]),), {"target": "label"}, "no feature columns left"),
        (({"x": [1.0, 2.0], "y": ["a", None]},), {"target": "y"}, "'y' is missing in row 1"),
        (({"x": [1.0, np.inf], "y": [0, 1]},), {"target": "y"}, "'x' holds inf"),
        ((X, Y[:5]), {}, "one target per row, got 103 rows"),
        ((X, Y), {"target": "label"}, "columns of arrays have none"),
        ((X[:, 0], Y), {}, "two-dimensional"),
        ((np.array([["a"]]), [1]), {}, "must be numbers"),
        ((X, [None] * N), {}, "missing .None. in row 0"),
        ((5,), {}, "`source` must be"),
        (([1, 2],), {}, "must yield rows"),
        (([([1.0, 2.0], 0), ([1.0], 0)],), {}, r"Row 1 has the shape \(1,\)"),
        (([([1.0, 2.0], 0), [1.0, 2.0]],), {}, "form of the first one"),
        (([(X, Y), (X[:, :2], Y)],), {"batch_size": 200}, r"same number of features, got \[2, 3\]"),
        ((rows(),), {"target": "label"}, "yield pairs"),
        ((rows(),), {"columns": ["a"]}, "rows have no names"),
        ((dicts("ab", "ac"),), {}, "Row 1 has no key 'b'"),
        ((dicts("ab", "abc"),), {}, r"Row 1 has 3 keys, the first row 2.*: 'c'\."),
        (([({"a": "red"}, 0)],), {}, "'red' under the key 'a'"),
        ((lambda: [(sparse.csr_matrix(X), Y)],), {"shuffle_buffer": 5}, "Sparse blocks"),
        ((X, Y), {"batch_size": 0}, "batch_size"),
        ((X, Y), {"dtype": "int8"}, "dtype"),
    ],
)
def test_wrong_sources_are_refused_with_the_reason(args, options, message):
    with pytest.raises(ValueError, match=message):
        list(stream(*args, **options))


def test_targets_of_files_are_columns(tmp_path):
    (args, _) = sources(tmp_path)["file"]
    with pytest.raises(ValueError, match="use `target=`"):
        stream(*args, Y)
    with pytest.raises(FileNotFoundError, match="gone"):
        stream(tmp_path / "gone.parquet")
