"""Measures of rankings, against counting pairs one by one and against scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import ndcg_score, roc_auc_score

from mercer.metrics import auc_standard_error, concordance, concordant_pairs, ndcg


def count_pairs(y, scores, group=None):
    """Share of the pairs of a group with different y in the same order: all pairs, one by one."""
    right, total = 0.0, 0
    for i in range(len(y)):
        for j in range(i):
            if y[i] == y[j] or (group is not None and group[i] != group[j]):
                continue
            total += 1
            product = (y[i] - y[j]) * (scores[i] - scores[j])
            right += 1.0 if product > 0 else 0.5 if product == 0 else 0.0
    return right / total


def rows(seed, n=60, levels=None, ties=False):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(n) if levels is None else rng.integers(0, levels, n).astype(float)
    scores = 0.5 * y + rng.standard_normal(n)
    return y, np.round(scores) if ties else scores, rng.integers(0, 7, n)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("levels", [2, 5, None])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("n", "grouped"), [(60, False), (60, True), (130, False), (700, True)])
def test_concordance_is_the_share_of_pairs_in_the_right_order(seed, levels, ties, n, grouped):
    # Small groups and large ones are counted in different ways, of 700 rows by both.
    y, scores, group = rows(seed, n, levels=levels, ties=ties)
    group = np.where(group < 2, 0, group) if n == 700 else group
    group = group if grouped else None
    expected = count_pairs(y, scores, group)
    assert_allclose(concordance(y, scores, group), expected, rtol=1e-12)
    # Only the order counts, of both; reversing one turns right into wrong.
    assert_allclose(concordance(np.exp(y), 3.0 * scores - 7.0, group), expected, rtol=1e-12)
    assert_allclose(concordance(y, -scores, group), 1.0 - expected, rtol=1e-12)


@pytest.mark.parametrize("labels", [(0, 1), (-1.0, 1.0), (False, True)])
@pytest.mark.parametrize("ties", [False, True])
def test_concordance_of_two_classes_is_the_area_under_the_roc_curve(labels, ties):
    y, scores, _ = rows(0, n=300, levels=2, ties=ties)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 300)
    y = np.array(labels)[y.astype(int)]
    assert_allclose(concordance(y, scores), roc_auc_score(y, scores), rtol=1e-12)
    assert_allclose(
        concordance(y, scores, sample_weight=weights),
        roc_auc_score(y, scores, sample_weight=weights),
        rtol=1e-12,
    )


def test_concordance_of_many_rows_is_not_spoilt_by_rounding():
    # 2e9 pairs: their products overflow 64 bits, and a float32 could not count them.
    y = np.arange(65_536.0)
    for scores, expected in ((y, 1.0), (-y, 0.0), (np.zeros(y.size), 0.5)):
        assert_allclose(concordance(y, scores), expected, atol=1e-15)


@pytest.mark.parametrize("name", ["text", "numbers"])
def test_groups_may_be_of_any_type_and_in_any_order(name):
    y, scores, group = rows(2, levels=4)
    labels = np.array([f"query {g}" for g in group]) if name == "text" else 10**6 * group
    order = np.random.default_rng(3).permutation(y.size)
    expected = concordance(y, scores, group)
    shuffled = y[order], scores[order], labels[order]
    assert_allclose(concordance(*shuffled), expected, rtol=1e-12)
    assert_allclose(ndcg(*shuffled), ndcg(y, scores, group), rtol=1e-12)


@pytest.mark.parametrize("n", [60, 700])
def test_pairs_are_counted_group_by_group(n):
    y, scores, group = rows(5, n, levels=4, ties=True)
    n_right, n_pairs = concordant_pairs(y, scores, group)
    for i, g in enumerate(np.unique(group)):
        own = group == g
        assert n_pairs[i] == np.sum(y[own][:, None] != y[own]) / 2
        assert_allclose(n_right[i] / n_pairs[i], count_pairs(y[own], scores[own]), rtol=1e-12)


def test_a_group_of_one_row_or_one_grade_has_no_pairs():
    y, scores, group = [1.0, 2.0, 3.0, 3.0, 9.0], [1.0, 2.0, 5.0, 4.0, 0.0], [0, 0, 1, 1, 2]
    assert concordance(y, scores, group) == 1.0


@pytest.mark.parametrize("k", [None, 1, 3, 10])
@pytest.mark.parametrize("ties", [False, True])
def test_ndcg_is_the_mean_of_scikit_learns_over_the_groups(k, ties):
    gains, scores, group = rows(0, levels=4, ties=ties)
    expected = [
        ndcg_score([gains[group == g]], [scores[group == g]], k=k) for g in np.unique(group)
    ]
    assert_allclose(ndcg(gains, scores, group, k=k), np.mean(expected), rtol=1e-12)
    assert_allclose(ndcg(gains, scores, k=k), ndcg_score([gains], [scores], k=k), rtol=1e-12)


def test_ndcg_by_hand():
    # The best row comes second: its gain is divided by log2(3), as if by log2(2) at the top.
    assert_allclose(ndcg([1.0, 0.0], [0.1, 0.2]), 1.0 / np.log2(3.0), rtol=1e-12)
    assert ndcg([1.0, 0.0], [0.1, 0.2], k=1) == 0.0


def test_ndcg_leaves_out_groups_of_one_row_and_counts_those_without_gain_as_0():
    gains, scores = [2.0, 1.0, 5.0, 0.0, 0.0], [0.2, 0.1, 0.3, 0.5, 0.4]
    assert ndcg(gains, scores, [0, 0, 1, 2, 2]) == 0.5


@pytest.mark.parametrize("measure", [concordance, ndcg])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1, 2], [1, 2, 3]), "one length"),
        (([[1, 2]], [[1, 2]]), "vectors"),
        (([1.0, np.nan], [1, 2]), "finite"),
        (([1, 2], [1, np.inf]), "finite"),
        (([1, 2], [1, "a"]), "`scores` must be numbers.*'a', in row 1"),
        (([1, [2, 3]], [1, 2]), "`y` must be numbers, in rows of one length"),
        (([1, 2], [1, 2], [1, 2, 3]), r"shape \(2,\)"),
    ],
)
def test_wrong_arguments_are_refused(measure, arguments, words):
    with pytest.raises(ValueError, match=words):
        measure(*arguments)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: concordance([1, 1], [1, 2]), "All y are equal"),
        (lambda: concordance([1, 2], [1, 2], [0, 1]), "within each group"),
        (lambda: concordance([1, 2, 3], [1, 2, 3], sample_weight=[1, 1, 1]), "two classes"),
        (lambda: concordance([1, 2], [1, 2], [0, 0], sample_weight=[1, 1]), "without groups"),
        (lambda: ndcg([-1, 2], [1, 2]), "below 0, got -1"),
        (lambda: ndcg([1, 2], [1, 2], [0, 1]), "No group has two rows"),
        (lambda: ndcg([1, 2], [1, 2], k=0), "`k` must be"),
        (lambda: auc_standard_error(np.array([0, 1]), [1.0, 2.0]), "array of bool, got int"),
        (lambda: auc_standard_error(np.array([False]), [1.0, 2.0]), "one length"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
