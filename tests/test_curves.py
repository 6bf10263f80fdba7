"""Maps that bend columns or split them: ranks, logarithms, indicators, and what comes after."""

import json
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.preprocessing import OneHotEncoder

import mercer
from mercer import KernelRegressor
from mercer.component import from_config, to_config
from mercer.expansions import KOMP
from mercer.kernels import Laplacian, Mapped
from mercer.maps import (
    Affine,
    Chain,
    Curves,
    Indicators,
    Logarithms,
    NormalScores,
    OneHot,
)


def table(n=60, seed=0):
    """Columns: skewed, normal, codes of four, skewed to the left with ties."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, n) * 3.0
    left = -(rng.integers(0, 50, n) ** 2.0)
    return np.column_stack([np.exp(2.0 * rng.normal(size=n)), rng.normal(size=n), codes, left])


# Each takes rows of four columns.
MAPS = {
    "curves": Curves([0.0, 1.0, 9.0, -1.0, 1.0], [0.0, 3.0, 4.0, 5.0, -5.0], [3, 2, 0, 0]),
    "straight on": Curves([0.0, 1.0, 0.0, 2.0], [0.0, 3.0, 4.0, 5.0], [2, 0, 0, 2], "linear"),
    "indicators": Indicators([0.0, 3.0, 6.0, 9.0], [0, 0, 4, 0], 0.5),
    "ranks": NormalScores().fit(table()),
    "few ranks": NormalScores(5).fit(table()),
    "logarithms": Logarithms().fit(table()),
    "one hot": OneHot().fit(table()),
    "chain": NormalScores().fit(table()).then(Affine(np.ones(4), [2.0, 0.0, 1.0, 3.0])),
}
LEARNED = [NormalScores(), NormalScores(7), Logarithms(), Logarithms(0.1, 9), OneHot(), OneHot(3)]
every_map = pytest.mark.parametrize("map", MAPS.values(), ids=MAPS)
every_learned = pytest.mark.parametrize("learned", LEARNED, ids=repr)


class TestEveryMap:
    @every_map
    def test_rows_are_mapped_one_by_one_in_their_precision(self, map):
        X = table(9, seed=1)
        mapped = map(X)
        assert map.n_inputs == 4
        assert mapped.shape == (9, map.n_outputs)
        assert mapped.dtype == np.float64
        assert mapped.flags.c_contiguous
        assert_array_equal(mapped, np.concatenate([map(x[np.newaxis]) for x in X]))
        single = map(X.astype(np.float32))
        assert single.dtype == np.float32
        assert_allclose(single, mapped, rtol=1e-4, atol=1e-4)
        assert map(X[:0]).shape == (0, map.n_outputs)

    @every_map
    def test_plain_data_and_copies_are_the_same_map(self, map):
        X = table(9, seed=1)
        stored = from_config(json.loads(json.dumps(to_config(map))))
        for again in (stored, pickle.loads(pickle.dumps(map)), clone(map)):
            assert again == map
            assert_array_equal(again(X), map(X))
        assert [map == other for other in MAPS.values()].count(True) == 1

    @every_map
    def test_an_affine_map_may_follow(self, map):
        X = table(9, seed=1)
        last = Affine(np.arange(map.n_outputs), np.eye(map.n_outputs)[:, :2] + 0.1)
        chain = map.then(last)
        assert isinstance(chain, Chain)
        assert_allclose(chain(X), last(map(X)), rtol=1e-12, atol=1e-12)
        again = chain.then(Affine([1.0, 2.0], [0.0, 3.0]))
        assert_allclose(again(X), 3.0 * (chain(X)[:, 1:] - 2.0), rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("name", ["ranks", "logarithms", "one hot"])
    def test_rows_seen_come_back(self, name):
        X, map = table(), MAPS[name]
        assert_allclose(map.preimage(map(X)), X, rtol=1e-9, atol=1e-9)
        assert map.preimage(map(X.astype(np.float32))).dtype == np.float32

    def test_columns_that_are_dropped_come_back_as_their_middle(self):
        rows = MAPS["curves"].preimage([[3.5, -5.0]])
        assert_allclose(rows, [[5.0, 1.0, 0.0, 0.0]])

    @every_map
    def test_wrong_rows_are_refused(self, map):
        with pytest.raises(ValueError, match=r"shape \(n_rows, 4\)"):
            map(np.ones((2, 3)))
        with pytest.raises(ValueError, match="shape"):
            map.preimage(np.ones((2, map.n_outputs + 1)))

    def test_nan_stays_in_its_row_or_goes_with_its_column(self):
        X = table(3, seed=1)
        X[1, 0] = X[2, 2] = np.nan
        assert_array_equal(np.isnan(MAPS["curves"](X)).any(axis=1), [False, True, False])


@pytest.mark.parametrize("unit", [2.0**-660, 2.0**-1000, 2.0**400])
def test_logarithms_do_not_depend_on_the_unit(unit):
    X = table()[:, [0, 1, 3]]
    assert_array_equal(Logarithms().fit(unit * X)(unit * X), Logarithms().fit(X)(X))


def test_preimages_beyond_a_flat_end_are_the_end():
    curve = Curves([0.0, 1.0, 2.0], [0.0, 1.0, 1.0], [3], "linear")
    assert_array_equal(curve.preimage([[5.0], [1.0], [0.5], [-1.0]]), [[2.0], [2.0], [0.5], [-1.0]])


class TestCurves:
    @pytest.mark.parametrize("seed", range(5))
    def test_values_are_those_of_numpy(self, seed):
        rng = np.random.default_rng(seed)
        sizes = rng.permutation([1, 2, 3, 9, 200, 0])
        knots = [np.sort(rng.normal(size=size)) for size in sizes]
        values = [rng.normal(size=size) for size in sizes]
        every = np.concatenate(knots)
        numbers = np.concatenate([every, rng.normal(size=300), [-1e300, 1e300, np.inf, np.nan]])
        X = np.tile(numbers[:, np.newaxis], (1, 6))
        bends, straight = (
            Curves(every, np.concatenate(values), sizes, beyond)(X)
            for beyond in ("constant", "linear")
        )
        for column, j in enumerate(np.flatnonzero(sizes)):
            expected = np.interp(numbers, knots[j], values[j])
            expected[-1] = np.nan  # which a single knot would hide
            assert_array_equal(bends[:, column], expected)
            if sizes[j] > 1:
                for end, next, out in (
                    (0, 1, numbers < knots[j][0]),
                    (-1, -2, numbers > knots[j][-1]),
                ):
                    slope = (values[j][end] - values[j][next]) / (knots[j][end] - knots[j][next])
                    expected[out] += slope * (numbers[out] - knots[j][end])
            assert_allclose(straight[:, column], expected, rtol=1e-12)

    def test_flat_curves_come_back_to_one_of_their_places(self):
        flat = Curves([0.0, 1.0, 2.0, 3.0], [5.0, 5.0, 7.0, 6.0], [4])
        back = flat.preimage([[5.0], [6.0], [7.0], [4.0], [9.0]])[:, 0]
        assert_array_equal(flat(back[:, np.newaxis])[:, 0], [5.0, 6.0, 7.0, 5.0, 7.0])
        straight = Curves([0.0, 1.0, 2.0, 3.0], [5.0, 5.0, 7.0, 6.0], [4], "linear")
        assert_array_equal(straight.preimage([[np.inf], [-np.inf]])[:, 0], [-np.inf, 0.0])

    def test_numbers_at_the_ends_of_what_there_is_pass_without_a_word(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Curves([-1.0, 0.0, 1e-310, 2.0], [0.0, 1.0, 2.0, 1.0], [2, 2])([[0.0, 1.0]])
            Curves([0.0, 1.0], [-1.7e308, 1.7e308], [2])([[0.0]])

    @pytest.mark.parametrize(("beyond", "ends"), [("constant", [0, 4]), ("linear", [-6, 6])])
    def test_between_knots_and_beyond_them(self, beyond, ends):
        curve = Curves([0.0, 1.0, 2.0], [0.0, 3.0, 4.0], [3], beyond)
        assert_allclose(curve([[0.5], [1.5], [-2.0], [4.0]])[:, 0], [1.5, 3.5, *ends])

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            (([0.0, 0.0], [1.0, 2.0], [2]), "must rise"),
            (([0.0, 1.0], [1.0, np.inf], [2]), "`values` must hold 2 finite numbers"),
            (([0.0], [1.0, 2.0], [2]), "`knots` must hold 2"),
            (([], [], [0]), "must leave a column"),
            (([0.0], [1.0], [1.0]), "`sizes` must hold an integer"),
            (([0.0], [1.0], [1], "far"), "`beyond`"),
        ],
    )
    def test_wrong_numbers_are_refused(self, arguments, match):
        with pytest.raises(ValueError, match=match):
            Curves(*arguments)

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            (([1.0, 1.0], [2]), "must be different"),
            (([1.0], [2]), "`levels` must hold 2"),
            (([1.0], [1], 0.0), "`height`"),
            (([1.0], [-1]), "`sizes`"),
        ],
    )
    def test_wrong_levels_are_refused(self, arguments, match):
        with pytest.raises(ValueError, match=match):
            Indicators(*arguments)

    def test_wrong_chains_are_refused(self):
        with pytest.raises(ValueError, match="`first`"):
            Chain(Affine([0.0], [1.0]), Affine([0.0], [1.0]))
        with pytest.raises(ValueError, match="`last` must be an Affine map of 2 inputs"):
            MAPS["curves"].then(Affine([0.0], [1.0]))


class TestNormalScores:
    def test_scores_are_those_of_the_ranks(self):
        X = table()
        for column, image in zip(X.T, NormalScores().fit(X)(X).T, strict=True):
            scores = stats.norm.ppf((stats.rankdata(column) - 0.5) / len(column))
            assert_allclose(image, (scores - scores.mean()) / scores.std(), atol=1e-12)

    def test_units_and_bends_of_columns_do_not_matter(self):
        X = table()[:, :2]
        bent = np.column_stack([np.log(X[:, 0]), 7.0 + 1e6 * X[:, 1] ** 3])
        assert_allclose(NormalScores().fit(bent)(bent), NormalScores().fit(X)(X), atol=1e-9)

    def test_few_knots_are_near_enough(self):
        X = np.random.default_rng(0).normal(size=(20_000, 1)) ** 3
        all_knots, few = (NormalScores(n).fit(X)(X) for n in (20_000, 200))
        assert np.abs(few - all_knots).max() < 2.0 * np.ptp(all_knots) / 199
        assert np.abs(few - all_knots).mean() < 1e-2
        assert NormalScores(200).fit(X).knots.size <= 200

    def test_outliers_are_the_ends(self):
        X = table()
        map = NormalScores().fit(X)
        assert_array_equal(map(1e9 * np.ones((1, 4))), map(X.max(axis=0, keepdims=True)))


class TestLogarithms:
    def test_formula(self):
        X = table(300)
        images = Logarithms(1.5, 300).fit(X)(X)
        x = X[:, 0]
        bent = np.log1p((x - x.min()) / np.median(x - x.min()))
        assert_allclose(images[:, 0], (bent - bent.mean()) / bent.std(), atol=1e-9)
        for j in (1, 2):  # not skewed
            plain = (X[:, j] - X[:, j].mean()) / X[:, j].std()
            assert_allclose(images[:, j], plain, atol=1e-9)

    def test_a_tail_to_the_left_is_one_to_the_right_seen_from_behind(self):
        x = table(300)[:, :1]
        right, left = (Logarithms().fit(sign * x)(sign * x) for sign in (1.0, -1.0))
        assert_allclose(left, -right, atol=1e-9)

    def test_columns_go_straight_on_beyond_what_was_seen(self):
        X = np.linspace(-1.0, 1.0, 21)[:, np.newaxis]
        map = Logarithms().fit(X)
        assert_allclose(map([[5.0]]), 5.0 / X.std())

    def test_few_knots_are_near_enough(self):
        X = np.exp(3.0 * np.random.default_rng(0).normal(size=(5000, 1)))
        every, few = (Logarithms(max_knots=n).fit(X)(X) for n in (5000, 100))
        assert np.abs(few - every).max() < 0.05

    @pytest.mark.parametrize("columns", [[1], [2], [1, 2]])
    def test_it_says_whether_there_is_anything_to_bend(self, columns):
        X = table(300)
        assert not Logarithms().bends(X[:, columns])
        assert Logarithms().bends(X[:, [0, *columns]])
        assert Logarithms().bends(-X[:, [0, *columns]])


class TestOneHot:
    def test_indicators_are_those_of_scikit_learn(self):
        X = table()
        images = OneHot().fit(X)(X)
        encoded = OneHotEncoder(sparse_output=False).fit_transform(X[:, [2]])
        assert_allclose(images[:, 2:6], encoded * 0.5**0.5, atol=1e-15)
        others = X[:, [0, 1, 3]]
        scaled = (others - others.mean(axis=0)) / others.std(axis=0)
        assert_allclose(images[:, [0, 1, 6]], scaled, atol=1e-12)

    def test_rows_of_two_levels_are_at_distance_1(self):
        X = np.array([[0.0], [3.0], [9.0]])
        a, b, unseen = OneHot().fit(X)([[0.0], [9.0], [4.0]])
        assert np.linalg.norm(a - b) == pytest.approx(1.0)
        assert not unseen.any()

    def test_columns_of_two_values_many_levels_or_fractions_are_numbers(self):
        n = np.arange(60.0)
        X = np.column_stack([n % 2, n, 0.5 * (n % 3), n % 5, np.zeros(60)])
        assert [each.size for each in OneHot().levels(X)] == [0, 0, 0, 5, 0]
        assert OneHot().fit(X).n_outputs == 9
        assert [each.size for each in OneHot(4).levels(X)] == [0, 0, 0, 0, 0]


class TestLearning:
    @every_learned
    @pytest.mark.parametrize(
        ("X", "match"),
        [
            (np.empty((0, 2)), "one at least"),
            (np.full((3, 2), np.nan), "finite rows"),
            (np.ones(3), "shape"),
        ],
    )
    def test_wrong_rows_are_refused(self, learned, X, match):
        with pytest.raises(ValueError, match=match):
            learned.fit(X)

    @pytest.mark.parametrize("learned", [NormalScores(), Logarithms()], ids=repr)
    def test_constant_columns_are_dropped_unless_all_are(self, learned):
        X = np.column_stack([np.ones(9), np.arange(9.0)])
        assert learned.fit(X).n_outputs == 1
        with pytest.raises(ValueError, match="leaves no column"):
            learned.fit(X[:, :1])

    @pytest.mark.parametrize("learned", [Logarithms(), OneHot()], ids=repr)
    def test_numbers_whose_squares_overflow_are_refused(self, learned):
        with pytest.raises(ValueError, match="power of ten"):
            learned.fit([[1e200], [-1e200], [3e200]])
        assert_allclose(NormalScores().fit([[1e200], [-1e200]])([[1e200]]), [[1.0]])

    @every_learned
    def test_it_is_a_parameter_object(self, learned):
        assert clone(learned) == learned == from_config(to_config(learned))
        assert type(learned)(**learned.get_params()) == learned

    @every_learned
    def test_a_kernel_behind_it_learns_it_and_goes_to_a_file(self, learned, tmp_path):
        X = table(80)
        y = np.log(X[:, 0]) + X[:, 2]
        kernel = Mapped(Laplacian(), learned)
        model = KernelRegressor(kernel=kernel, expansion=KOMP(max_size=40), random_state=0)
        model.fit(X, y)
        # The length scale is that of the mapped rows.
        assert model.kernel_ == Mapped(Laplacian("half-median"), learned).resolve(X) or (
            model.kernel_ == kernel.resolve(X)
        )
        model.save(tmp_path / "model")
        assert_array_equal(mercer.load_model(tmp_path / "model").predict(X), model.predict(X))
