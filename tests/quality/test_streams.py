"""Experts side by side: their weights are those of Bayes' rule, and the bounds hold."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from mercer.streams import (
    Blend,
    FeatureSets,
    FixedShare,
    LinearWays,
    Mixture,
    RunningScale,
    Stack,
    StreamSettings,
)
from mercer.streams.ways import _add


def chances_of(seed, n_rows, n_experts):
    """What experts give to the outcome of each row."""
    return np.random.default_rng(seed).uniform(0.01, 0.99, (n_rows, n_experts))


def mixture(chances, share):
    """Chance that the mixture gives to each outcome, and weights in the end."""
    mixed, learned = [], FixedShare(chances.shape[1], share)
    for row in chances:
        mixed.append(learned.weights @ row)
        learned.update(-np.log(row))
    return np.array(mixed), learned.weights


class TestFixedShare:
    @pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
    def test_is_the_rule_of_bayes_over_all_sequences_of_experts(self, share):
        chances = chances_of(0, 5, 3)
        stays, moves = 1.0 - share + share / 3, share / 3
        whole = 0.0
        for sequence in itertools.product(range(3), repeat=5):
            prior = 1.0 / 3
            for before, after in itertools.pairwise(sequence):
                prior *= stays if before == after else moves
            whole += prior * np.prod([chances[t, k] for t, k in enumerate(sequence)])
        assert_allclose(np.prod(mixture(chances, share)[0]), whole, rtol=1e-12)

    @given(
        seed=st.integers(0, 10**6),
        n_experts=st.integers(1, 5),
        n_rows=st.integers(1, 60),
        share=st.floats(1e-4, 1.0),
        data=st.data(),
    )
    def test_loses_no_more_than_the_bound_beyond_any_sequence(
        self, seed, n_experts, n_rows, share, data
    ):
        chances = chances_of(seed, n_rows, n_experts)
        changes = data.draw(st.integers(0, min(5, n_rows - 1)))
        generator = np.random.default_rng(seed)
        places = np.sort(generator.choice(np.arange(1, n_rows), changes, replace=False))
        sequence, parts = np.empty(n_rows, int), np.split(np.arange(n_rows), places)
        # The best expert of each part, which may be the same as before.
        for part in parts:
            sequence[part] = np.log(chances[part]).sum(axis=0).argmax()
        lost = -np.log(mixture(chances, share)[0]).sum()
        best = -np.log(chances[np.arange(n_rows), sequence]).sum()
        n_changes = int((np.diff(sequence) != 0).sum())
        assert lost <= best + FixedShare(n_experts, share).bound(n_rows, n_changes) + 1e-9

    def test_who_lost_without_bound_comes_back(self):
        learned = FixedShare(2, 1e-3)
        learned.update(np.array([np.inf, 0.1]))
        learned.update(np.array([np.nan, 0.1]))
        assert np.isfinite(learned.weights).all()
        assert learned.weights[1] > 0.99
        for _ in range(30):
            learned.update(np.array([0.1, 1.0]))
        assert learned.weights[0] > 0.99
        learned.update(np.array([np.inf, np.inf]))
        assert_allclose(learned.weights.sum(), 1.0)

    def test_a_copy_goes_on_with_the_same_bits(self):
        learned = FixedShare(3, 0.02, 0.5)
        for losses in chances_of(1, 20, 3):
            learned.update(losses)
        again = FixedShare.from_state(learned.to_state())
        for losses in chances_of(2, 20, 3):
            learned.update(losses)
            again.update(losses)
        assert_array_equal(learned.weights, again.weights)

    def test_wrong_numbers_are_refused(self):
        for arguments in ((0,), (2, -0.1), (2, 1.1), (2, 0.1, 0.0)):
            with pytest.raises(ValueError, match="must be"):
                FixedShare(*arguments)
        state = FixedShare(2).to_state()
        wrong = {"sum to 1": [0.5, 0.6], "at least 0.0": [1.5, -0.5], "of shape": [[0.5, 0.5]]}
        for message, weights in wrong.items():
            with pytest.raises(ValueError, match=message):
                FixedShare.from_state({**state, "weights": np.array(weights)})


class TestStack:
    @pytest.mark.parametrize("n_outputs", [1, 3])
    def test_of_numbers_is_ridge_regression_on_what_was_said(self, n_outputs):
        rng = np.random.default_rng(0)
        said, targets = rng.normal(size=(30, 4, n_outputs)), rng.normal(size=(30, n_outputs))
        stack = Stack(4, is_class=False, ridge=0.7)
        for values, target in zip(said, targets, strict=True):
            stack.learn(values, target)
        A = np.concatenate(said.transpose(0, 2, 1))
        first = np.full(4, 0.25)
        expected = first + np.linalg.solve(
            A.T @ A + 0.7 * np.eye(4), A.T @ (targets.ravel() - A @ first)
        )
        assert_allclose(stack.weights, expected, rtol=1e-9)
        assert_allclose(stack.values(said[0]), said[0].T @ expected)

    def test_with_forgetting_is_discounted_least_squares(self):
        rng = np.random.default_rng(0)
        said, targets = rng.normal(size=(200, 3, 1)), rng.normal(size=(200, 1))
        stack = Stack(3, is_class=False, forgetting=0.9, ridge=1e-3)
        for values, target in zip(said, targets, strict=True):
            stack.learn(values, target)
        root = np.sqrt(0.9 ** np.arange(199, -1, -1.0))
        expected = np.linalg.lstsq(root[:, None] * said[..., 0], root * targets[:, 0], rcond=None)[
            0
        ]
        assert_allclose(stack.weights, expected, rtol=1e-5)

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_of_classes_is_better_than_each_expert(self, n_classes):
        rng = np.random.default_rng(0)
        n_outputs = 1 if n_classes == 2 else n_classes
        truth = rng.normal(size=(2000, n_outputs))
        codes = np.where(truth > 0.0, 1.0, -1.0)
        if n_classes == 3:
            codes = np.where(np.arange(3) == truth.argmax(axis=1)[:, None], 1.0, -1.0)
        said = truth[:, None] + rng.normal(size=(2000, 4, n_outputs))
        said[:, 3] = -said[:, 3]  # always wrong is of use as well
        stack, mixed = Stack(4, is_class=True, forgetting=0.999), np.empty((2000, n_outputs))
        for t in range(2000):
            mixed[t] = stack.values(said[t])
            stack.learn(said[t], codes[t])

        def error(values):
            if n_classes == 2:
                return np.mean(np.sign(values[500:, 0]) != codes[500:, 0])
            return np.mean(values[500:].argmax(axis=1) != codes[500:].argmax(axis=1))

        assert error(mixed) < 0.8 * min(error(said[:, k]) for k in range(4))
        assert stack.weights[3] < 0.0 < stack.weights[:3].min()

    def test_directions_of_which_rows_say_nothing_stay_bounded(self):
        stack = Stack(2, is_class=False, forgetting=0.9)
        for _ in range(2000):
            stack.learn(np.array([[1.0], [1.0]]), np.array([1.0]))
        stack.learn(np.array([[1.0], [0.0]]), np.array([1.0]))
        assert np.abs(stack.weights).max() < 2.0

    def test_a_copy_goes_on_with_the_same_bits(self):
        stack = Stack(3, is_class=True, forgetting=0.99)
        rows = np.random.default_rng(0).normal(size=(40, 3, 1))
        for said in rows[:20]:
            stack.learn(said, np.sign(said[0]))
        again = Stack.from_state(stack.to_state())
        for said in rows[20:]:
            stack.learn(said, np.sign(said[0]))
            again.learn(said, np.sign(said[0]))
        assert_array_equal(stack.weights, again.weights)
        with pytest.raises(ValueError, match=r"`inverse` must be of shape \(2, 2\), got \(3, 3\)"):
            Stack.from_state({**stack.to_state(), "weights": np.ones(2)})
        for wrong in ({"forgetting": 0.0}, {"forgetting": 1.1}, {"ridge": 0.0}):
            with pytest.raises(ValueError, match="must be"):
                Stack(2, is_class=True, **wrong)


class TestRunningScale:
    def test_rows_are_standardised_by_those_before(self):
        X = np.random.default_rng(0).normal(3.0, 2.0, (50, 3))
        X[:, 1] = 7.3
        scale = RunningScale(3)
        for t, x in enumerate(X):
            image = scale.image(x)
            if t < 2:
                assert_array_equal(image, 0.0)
            else:
                expected = (x[[0, 2]] - X[:t, [0, 2]].mean(0)) / X[:t, [0, 2]].std(0)
                assert_allclose(image[[0, 2]], np.clip(expected, -5.0, 5.0), rtol=1e-9)
            assert image[1] == 0.0
            scale.learn(x)
        assert_allclose(scale.spread[[0, 2]], X[:, [0, 2]].std(axis=0))
        again = RunningScale.from_state(scale.to_state())
        assert_array_equal(again.image(X[0]), scale.image(X[0]))
        with pytest.raises(ValueError, match=r"`squares` must be of shape \(3,\), got \(2,\)"):
            RunningScale.from_state({**scale.to_state(), "squares": np.ones(2)})

    def test_flags_are_two_apart_however_rare_one_is(self):
        scale, rows = RunningScale(3), np.zeros((101, 3))
        rows[7], rows[20] = 4.0, [0.0, 4.0, 1.0]  # the last column has three values
        for x in rows[:100]:
            scale.learn(x)
        off, on = scale.image(np.array([[0.0] * 3, [4.0] * 3]), flags=True)
        assert_allclose(on[:2] - off[:2], 2.0)
        assert_allclose(off[:2], [-0.02, -0.04])
        by_spread = scale.image(np.array([[0.0] * 3, [4.0] * 3]))
        assert_array_equal([off[2], on[2]], by_spread[:, 2])
        assert (by_spread[1] - by_spread[0] > 4.0).all()
        assert_array_equal(scale.image(np.full(3, np.nan), flags=True), 0.0)
        again = RunningScale.from_state(scale.to_state())
        assert_array_equal(again.image(rows[20], flags=True), scale.image(rows[20], flags=True))

    def test_a_flag_whose_two_values_are_one_in_a_file_does_not_move(self):
        scale = RunningScale(1)
        for value in (0.0, 4.0):
            scale.learn(np.array([value]))
        state = scale.to_state()
        forged = RunningScale.from_state({**state, "most": state["least"]})
        assert_array_equal(forged.image(np.array([[2.0], [4.0]]), flags=True), 0.0)

    def test_flags_come_with_new_columns(self):
        scale = RunningScale(1)
        for _ in range(50):
            scale.learn(np.ones(1))
        scale.add_columns(np.array([0.0, np.nan]), 50)
        for _ in range(2):
            scale.learn(np.array([1.0, 1.0, 5.0]))
        scale.learn(np.array([1.0, 0.0, 3.0]))
        off, on = scale.image(np.array([[1.0, 0.0, 3.0], [1.0, 1.0, 5.0]]), flags=True)
        assert_allclose(on - off, [0.0, 2.0, 2.0])

    def test_far_from_zero_no_digits_are_lost(self):
        X = 1e8 + np.random.default_rng(0).normal(size=(1000, 1))
        scale = RunningScale(1)
        for x in X:
            scale.learn(x)
        assert_allclose(scale.spread, X.std(axis=0), rtol=1e-6)


class TestLinearWays:
    @pytest.mark.parametrize("n_outputs", [1, 3])
    @pytest.mark.parametrize("forgetting", [1.0, 0.95])
    def test_recursive_sums_are_discounted_ridge_regression(self, forgetting, n_outputs):
        rng = np.random.default_rng(0)
        F, Y = rng.normal(size=(60, 4)), rng.normal(size=(60, n_outputs))
        ways = LinearWays(4, n_outputs, is_class=False, steps=[], sums=[(0, forgetting)])
        for f, y in zip(F, Y, strict=True):
            ways.learn(f[np.newaxis], y)
        weights = forgetting ** np.arange(59, -1, -1.0)
        ridge = 1e-2 * forgetting**60
        A = (weights[:, None] * F).T @ F + ridge * np.eye(4)
        expected = np.linalg.solve(A, F.T @ (weights[:, None] * Y))
        assert_allclose(ways.of_sums[0].T, expected, rtol=1e-7)
        assert_allclose(ways.values(F[:1])[0], F[0] @ expected, rtol=1e-7)

    def test_steps_are_their_formula(self):
        rng = np.random.default_rng(0)
        F = rng.normal(size=(20, 3))
        numbers = LinearWays(3, 1, is_class=False, steps=[0.3, 1.0], sums=[])
        signs = LinearWays(3, 1, is_class=True, steps=[0.3, 4.0], sums=[])
        classes = LinearWays(3, 4, is_class=True, steps=[0.3, 4.0], sums=[])
        w, v, u = np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 4, 3))
        for t, f in enumerate(F):
            y, label = rng.normal(), t % 4
            sign, codes = 1.0 if t % 3 else -1.0, np.where(np.arange(4) == label, 1.0, -1.0)
            numbers.learn(f[np.newaxis], np.array([y]))
            signs.learn(f[np.newaxis], np.array([sign]))
            classes.learn(f[np.newaxis], codes)
            for k, (small, step) in enumerate([(0.3, 0.3), (1.0, 4.0)]):
                w[k] += small * (y - w[k] @ f) * f / (f @ f)
                v[k] += step * sign / (1.0 + np.exp(sign * (v[k] @ f))) * f
                chances = np.exp(u[k] @ f) / np.exp(u[k] @ f).sum()
                u[k] += step * np.outer(0.5 * (codes + 1.0) - chances, f)
        assert_allclose(numbers.of_steps[0, :, 0], w, rtol=1e-9)
        assert_allclose(signs.of_steps[0, :, 0], v, rtol=1e-9)
        assert_allclose(classes.of_steps[0], u, rtol=1e-9, atol=1e-12)

    def test_scores_of_sums_are_doubled_where_there_are_classes(self):
        f, target = np.array([[1.0, 2.0]]), np.array([1.0])
        ways = [
            LinearWays(2, 1, is_class=is_class, steps=[], sums=[(0, 1.0)])
            for is_class in (True, False)
        ]
        for one in ways:
            one.learn(f, target)
        assert_allclose(ways[0].values(f), 2.0 * ways[1].values(f))

    def test_rows_that_are_zero_teach_nothing(self):
        ways = LinearWays(2, 1, is_class=False, steps=[1.0], sums=[(0, 1.0)])
        ways.learn(np.zeros((1, 2)), np.ones(1))
        assert_array_equal(ways.of_steps, 0.0)
        assert_array_equal(ways.of_sums, 0.0)

    def test_what_is_forgotten_stays_bounded(self):
        ways = LinearWays(2, 1, is_class=False, steps=[], sums=[(0, 0.9)])
        for _ in range(3000):
            ways.learn(np.array([[1.0, 1.0]]), np.ones(1))
        ways.learn(np.array([[1.0, 0.0]]), np.array([5.0]))
        assert np.abs(ways.of_sums).max() < 10.0

    def test_a_copy_goes_on_with_the_same_bits(self):
        rng = np.random.default_rng(0)
        ways = LinearWays(
            5, 3, is_class=True, steps=[0.1, 2.0], sums=[(1, 1.0), (0, 0.99)], n_sets=2, n_in_sums=4
        )
        rows = rng.normal(size=(40, 2, 5))
        codes = np.where(np.arange(3) == rng.integers(0, 3, (40, 1)), 1.0, -1.0)
        for f, code in zip(rows[:20], codes[:20], strict=True):
            ways.learn(f, code)
        again = LinearWays.from_state(ways.to_state())
        for f, code in zip(rows[20:], codes[20:], strict=True):
            ways.learn(f, code)
            again.learn(f, code)
        assert_array_equal(ways.values(rows[0]), again.values(rows[0]))
        for wrong in ({"of_steps": np.zeros((4, 3))}, {"inverses": np.zeros((2, 5, 5))}):
            with pytest.raises(ValueError, match="must be of shape"):
                LinearWays.from_state({**ways.to_state(), **wrong})

    def test_inverses_stay_symmetric_as_they_are_written(self):
        """Also where a compiler does not change the order: the asymmetry would grow."""
        rng = np.random.default_rng(0)
        of_sums, inverses = np.zeros((1, 1, 3)), np.eye(3)[np.newaxis] / 1e-2
        sets, forgettings = np.zeros(1, np.int64), np.array([0.98])
        for row in rng.normal(size=(3000, 1, 3)):
            _add.py_func(of_sums, inverses, sets, forgettings, row, row[0, :1], 1.0)
            assert_array_equal(inverses[0], inverses[0].T)
        assert_allclose(of_sums[0, 0], [1.0, 0.0, 0.0], atol=1e-9)

    def test_wrong_numbers_are_refused(self):
        for steps, sums in (
            ([0.0], []),
            ([2.1], []),
            ([], [(0, 0.0)]),
            ([], [(0, 1.1)]),
            ([], [(1, 1.0)]),
        ):
            with pytest.raises(ValueError, match="must be"):
                LinearWays(2, 1, is_class=False, steps=steps, sums=sums)


class TestBlend:
    @pytest.mark.parametrize("n_outputs", [1, 4])
    def test_follows_the_expert_who_knows(self, n_outputs):
        rng = np.random.default_rng(0)
        n_rows = 600
        blend, right = Blend(3, n_outputs, is_class=True), []
        for t in range(n_rows):
            label = int(rng.integers(0, max(n_outputs, 2)))
            code = np.where(np.arange(n_outputs) == label, 1.0, -1.0)
            if n_outputs == 1:
                code = np.array([2.0 * label - 1.0])
            said = rng.normal(size=(3, n_outputs))
            said[0 if t < 300 else 2] = 3.0 * code
            values = blend.values(said)
            assert values.shape == (n_outputs,)
            decided = int(values[0] > 0.0) if n_outputs == 1 else int(values.argmax())
            right.append(decided == label)
            blend.learn(said, code)
        assert np.mean(right[50:300]) > 0.95
        assert np.mean(right[340:]) > 0.95

    def test_values_are_log_odds_and_logarithms_of_chances(self):
        said = np.array([[2.0], [2.0]])
        assert_allclose(Blend(2, 1, is_class=True, forgettings=[]).values(said), [2.0])
        logarithms = np.log([[0.2, 0.5, 0.3]] * 2)
        three = Blend(2, 3, is_class=True, forgettings=[]).values(logarithms + 1.0)
        assert_allclose(three, logarithms[0])

    @pytest.mark.parametrize("n_outputs", [1, 3])
    def test_who_is_too_sure_is_mended(self, n_outputs):
        rng = np.random.default_rng(0)
        blend = Blend(1, n_outputs, is_class=True, forgettings=[])
        n_classes = max(n_outputs, 2)
        for _ in range(4000):
            truth = rng.normal(size=n_classes)
            chances = np.exp(truth) / np.exp(truth).sum()
            label = rng.choice(n_classes, p=chances)
            code = np.where(np.arange(n_classes) == label, 1.0, -1.0)
            said = 3.0 * (truth[1:] - truth[:1] if n_outputs == 1 else truth)
            blend.learn(said[np.newaxis], code[-n_outputs:] if n_outputs > 1 else code[1:])
        said = np.zeros((1, n_outputs))
        said[0, -1] = 3.0
        values = blend.values(said)
        odds = values[0] if n_outputs == 1 else values[-1] - values[0]
        assert_allclose(odds, 1.0, atol=0.2)

    def test_of_numbers_is_better_than_each_expert(self):
        rng = np.random.default_rng(0)
        blend, errors = Blend(3, 2, is_class=False), []
        for _ in range(1500):
            target = rng.normal(size=2)
            said = target + rng.normal(size=(3, 2)) * np.array([[0.5], [0.5], [2.0]])
            errors.append([*np.abs(said - target).mean(axis=1), *[np.nan]])
            errors[-1][-1] = np.abs(blend.values(said) - target).mean()
            blend.learn(said, target)
        means = np.mean(errors[200:], axis=0)
        assert means[3] < 0.8 * means[:3].min()

    def test_a_copy_goes_on_with_the_same_bits(self):
        rng = np.random.default_rng(0)
        for is_class in (True, False):
            blend = Blend(3, 1, is_class=is_class)
            rows = rng.normal(size=(40, 3, 1))
            for said in rows[:20]:
                blend.learn(said, np.sign(said[0]))
            again = Blend.from_state(blend.to_state())
            for said in rows[20:]:
                blend.learn(said, np.sign(said[0]))
                again.learn(said, np.sign(said[0]))
            assert_array_equal(blend.values(rows[0]), again.values(rows[0]))
            state = blend.to_state()
            for wrong in ({"slopes": np.ones(2)}, {"stacks": {"0": state["stacks"]["0"]}}):
                with pytest.raises(ValueError, match=r"of shape|stacks of a blend"):
                    Blend.from_state({**state, **wrong})


def stream_of(task, n_rows, seed=0):
    """Rows, targets, and the share of the targets that is noise or wrong."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)) * [1.0, 100.0, 1e-3, 0.0] + [0.0, 1e4, 0.0, 7.0]
    Z = (X - [0.0, 1e4, 0.0, 7.0]) / [1.0, 100.0, 1e-3, 1.0]
    f = np.sin(2.0 * Z[:, 0]) + 0.5 * Z[:, 1] * Z[:, 2]
    if task == "numbers":
        return X, np.column_stack([1e3 + 50.0 * f, -f]) + 0.01 * rng.normal(size=(n_rows, 2))
    if task == "two classes":
        return X, np.where(f > 0.0, 1.0, -1.0)[:, np.newaxis]
    labels = np.digitize(f, [-0.5, 0.5])
    return X, np.where(np.arange(3) == labels[:, np.newaxis], 1.0, -1.0)


FEW = StreamSettings(n_features=32, points=20, steps=(0.5, 2.0), number_steps=(0.05, 0.5))
every_task = pytest.mark.parametrize("task", ["numbers", "two classes", "three classes"])


def followed(f, X, Y):
    """Values at each row before it is learned."""
    values = np.empty_like(Y)
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        values[t] = f.values(x)
        f.learn(x, y)
    return values


class TestMixture:
    @every_task
    def test_answers_well_after_some_hundred_rows_in_any_units(self, task):
        n, first = (1000, 700) if task == "three classes" else (700, 400)
        X, Y = stream_of(task, n)
        f = Mixture(4, Y.shape[1], is_class=task != "numbers")
        values = followed(f, X, Y)
        assert f.n_rows == n
        late = slice(first, None)
        if task == "numbers":
            unexplained = ((values - Y)[late] ** 2).mean(axis=0) / Y[late].var(axis=0)
            assert unexplained.max() < 0.1
        elif task == "two classes":
            assert np.mean(np.sign(values[late]) == Y[late]) > 0.9
        else:
            assert np.mean(values[late].argmax(axis=1) == Y[late].argmax(axis=1)) > 0.85
            assert_allclose(np.exp(values[late]).sum(axis=1), 1.0)

    @every_task
    @pytest.mark.parametrize("at", [5, 150])
    def test_a_copy_goes_on_with_the_same_bits(self, task, at):
        X, Y = stream_of(task, at + 50)
        f = Mixture(4, Y.shape[1], is_class=task != "numbers", settings=FEW)
        followed(f, X[:at], Y[:at])
        again = Mixture.from_state(f.to_state(), FEW)
        assert_array_equal(followed(f, X[at:], Y[at:]), followed(again, X[at:], Y[at:]))

    def test_units_and_columns_that_are_constant_do_not_matter(self):
        X, Y = stream_of("two classes", 250)
        f, g = (Mixture(n, 1, is_class=True, settings=FEW) for n in (4, 4))
        scaled = X * [1024.0, 0.5, 2.0, 1.0] + [0.0, 0.0, 0.0, 9.0]
        assert_allclose(followed(f, X, Y), followed(g, scaled, Y), atol=1e-3)

    def test_what_is_asked_changes_nothing(self):
        X, Y = stream_of("numbers", 200)
        f, g = (Mixture(4, 2, is_class=False, settings=FEW) for _ in range(2))
        for x, y in zip(X, Y, strict=True):
            f.values(X[0])
            f.learn(x, y)
            g.learn(x, y)
        assert_array_equal(f.values(X[0]), g.values(X[0]))

    def test_a_change_is_followed(self):
        X, Y = stream_of("two classes", 1400)
        Y[800:] *= -1.0
        values = followed(Mixture(4, 1, is_class=True, settings=FEW), X, Y)
        right = np.sign(values) == Y
        assert right[800:810].mean() < 0.7 < right[700:800].mean()
        assert right[1100:].mean() > 0.85

    def test_memory_is_bounded(self):
        X, Y = stream_of("two classes", 350)
        f = Mixture(4, 1, is_class=True, settings=FEW)
        followed(f, X, Y)
        assert max(way.function.size for way in f.kernels) <= FEW.points

    def test_what_begins_anew_does_not_jump(self):
        """At 300, 600, ... rows a metric begins anew; others answer for it until it knows more."""
        rng = np.random.default_rng(3)
        X = rng.uniform(-3.0, 3.0, size=(1300, 1))
        Y = np.sin(2.0 * X) + 0.1 * rng.normal(size=X.shape)
        f, wrong = Mixture(1, 1, is_class=False), []
        for start in range(0, 1300, 100):
            some = slice(start, start + 100)
            wrong.append(np.mean((f.evaluate(X[some]) - Y[some]) ** 2))
            for x, y in zip(X[some], Y[some], strict=True):
                f.learn(x, y)
        assert max(wrong[3:]) < 4.0 * 0.1**2

    def test_inputs_that_matter_count_more(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(700, 6))
        Y = np.where(np.sin(2.0 * X[:, :1]) + X[:, 1:2] > 0.0, 1.0, -1.0)
        f = Mixture(6, 1, is_class=True, settings=FEW)
        followed(f, X, Y)
        for metric in f.sets.metric[-2:]:
            assert metric[:2].min() > metric[2:].max()
            assert_allclose(np.mean(metric**2), 1.0)

    def test_gradients_are_those_of_differences(self):
        sets = FeatureSets(3, [0.5, 2.0], 16, seed=0)
        sets.add_inputs(2)
        sets.metric[1] = [1.0, 2.0, 0.5, 3.0, 1.0]
        rng = np.random.default_rng(0)
        x, coefficients = rng.normal(size=5), rng.normal(size=(2, sets.n_columns - 1))

        def values(row):
            return coefficients @ sets.features(row[np.newaxis])[0, 1, :-1]

        expected = [(values(x + step) - values(x - step)) / 2e-6 for step in 1e-6 * np.eye(5)]
        found = sets.gradients(1, sets.features(x[np.newaxis])[0, 1], coefficients)
        assert_allclose(found.T, expected, rtol=1e-5, atol=1e-6)

    def test_products_of_features_are_kernels(self):
        sets = FeatureSets(3, [0.7, 1.5], 4000, seed=1)
        rows = np.random.default_rng(0).normal(size=(20, 3))
        features = sets.features(rows)[..., : sets.n_features]
        squares = ((rows[:, np.newaxis] - rows) ** 2).sum(axis=2)
        for number, length in enumerate(sets.lengths):
            kernel = np.exp(-squares / (2.0 * length**2))
            products = features[:, number] @ features[:, number].T
            assert_allclose(products, kernel, atol=5.0 / np.sqrt(4000))
        wider = FeatureSets(3, [0.7, 1.5], 4000, seed=1)
        wider.add_inputs(1)
        padded = np.hstack([rows, np.zeros((20, 1))])
        assert_allclose(wider.features(padded)[..., :-1], sets.features(rows), atol=1e-12)
