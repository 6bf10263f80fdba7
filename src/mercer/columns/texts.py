"""Free text as numbers: hashed words and pieces of words, in the directions that matter."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.columns.target_means import N_FOLDS
from mercer.columns.views import Levels
from mercer.records import Encoded, Listed, Named, Record, Recorded, Several
from mercer.validation import integer, real

Floats = NDArray[np.float64]

_KEPT = 8192  # different texts, from which the directions are found
_LONGEST = 10_000  # characters of a text that are looked at
_HASHED = 2**13  # counts of words, and as many of pieces of words
_TEXTS_A_DIRECTION = 8
_FEW_WORDS = 1.5  # mean number of words of a text, for names and codes
_DIRECTIONS_OF_NAMES = 8  # pieces of names add little to the prediction
_FEWEST = 2  # texts that must contain a word
_FEWEST_TEXTS = 50  # needed to predict the target from texts
_RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0)
_CLIP = 5.0  # deviations of the directions
_ROUNDING = 1e-6  # of what is the same for all texts
_SEED = 0


@dataclass
class TextSample(Recorded):
    """Up to 8,192 different texts of a column, chosen by what is in them, with sums of their rows.

    The texts with the lowest hashes are kept. So a sample does not depend on the order of the rows,
    and two samples can be merged.

    Attributes
    ----------
    sums : dict of str to list of float
        Rows of each text, and sums of the codes of their targets.
    missing, present : int
        Rows without and with a text.

    Examples
    --------
    >>> one, other = TextSample(), TextSample()
    >>> one.update(Levels(np.array([0, 0, -1]), ["a bright room"]))
    >>> other.update(Levels(np.array([0]), ["near the lake"]))
    >>> one.merge(other)
    >>> sorted(one.sums.items()), one.missing
    ([('a bright room', [2.0]), ('near the lake', [1.0])], 1)
    """

    sums: dict[str, list[float]] = field(default_factory=dict)
    missing: int = 0
    present: int = 0

    _record = Record(
        sums=Named(Several(real(), "n_sums", list), _KEPT),
        missing=integer(low=0),
        present=integer(low=0),
    )

    def update(self, column: Levels, codes: Floats | None = None) -> None:
        """Add the texts of a column, and the codes of their targets."""
        known = column.codes >= 0
        ones = np.ones((len(known), 1))
        weights = (ones if codes is None else np.column_stack([ones, codes]))[known]
        n = len(column.levels)
        totals = np.stack([np.bincount(column.codes[known], w, minlength=n) for w in weights.T])
        found = TextSample({}, int(np.count_nonzero(~known)), int(np.count_nonzero(known)))
        for level, sums in zip(column.levels, totals.T.tolist(), strict=True):
            if sums[0]:
                found._add(level[:_LONGEST], sums)
        self.merge(found)

    def _add(self, text: str, sums: list[float]) -> None:
        mine = self.sums.get(text)
        self.sums[text] = sums if mine is None else [a + b for a, b in zip(mine, sums, strict=True)]

    def merge(self, other: TextSample) -> None:
        """Add the texts of another sample."""
        for text, sums in other.sums.items():
            self._add(text, sums)
        self.missing += other.missing
        self.present += other.present
        if len(self.sums) > _KEPT:
            kept = sorted(self.sums, key=_key)[:_KEPT]
            self.sums = {text: self.sums[text] for text in kept}


def _key(text: str) -> int:
    """Return a random number for a text, from the part of it that is used."""
    start = text[:_LONGEST].encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(start, digest_size=8).digest()
    return int.from_bytes(digest, "little")


@cache
def _hashers() -> tuple[Any, Any]:
    # Only where there is text: scikit-learn's module takes a while to load.
    from sklearn.feature_extraction.text import HashingVectorizer

    shared: dict[str, Any] = {"n_features": _HASHED, "norm": None, "strip_accents": "unicode"}
    return (
        HashingVectorizer(token_pattern=r"(?u)\b\w+\b", ngram_range=(1, 2), **shared),
        HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), **shared),
    )


def _hashed(texts: Sequence[str]) -> Any:
    """Logarithmic counts of words and pieces of words, one row a text."""
    made = [hasher.transform([text[:_LONGEST] for text in texts]) for hasher in _hashers()]
    counts = sparse.hstack(made, format="csr")
    counts.data = np.sign(counts.data) * np.log1p(np.abs(counts.data))
    return counts


class TextMap(Recorded):
    """A fixed map from texts to a few numbers.

    Words, pairs of words and pieces of three to five letters are hashed, rare ones are weighted
    more, and each text is scaled to length 1. Two things are computed from these thousands of
    numbers: the directions in which the texts of the sample vary most (latent semantic analysis),
    in standard deviations; and, if there were targets, a linear prediction of them (a ridge
    regression, whose ridge is chosen out of fold). Texts that are learned get the prediction fitted
    to other folds.

    Parameters
    ----------
    used : ndarray of shape (n_used,)
        Which hashed counts are used.
    weights : ndarray of shape (n_used,)
        Weights of the counts.
    columns : ndarray of shape (1 + n_used, n_directions + 6 n_codes)
        Maps a weighted text to numbers: directions, then predictions without each fold, then
        predictions from all texts. The first row is the constant term.
    n_directions : int
        How many are directions.

    References
    ----------
    Deerwester et al., "Indexing by latent semantic analysis", JASIS 1990; Weinberger et al.,
    "Feature hashing for large scale multitask learning", ICML 2009.

    Examples
    --------
    >>> sample = TextSample()
    >>> texts = [f"{color} {thing}" for color in ("red", "blue") for thing in "abcdefgh"]
    >>> sample.update(Levels(np.arange(16), texts))
    >>> TextMap.of(sample).transform(["red a", "blue h", "???"]).shape
    (3, 2)
    """

    _record = Record(
        used=Listed("n_used", dtype=np.int64, low=0, high=2 * _HASHED - 1),
        weights=Listed("n_used"),
        columns=Encoded("n_used+1", "n_columns", dtype=np.float32),
        n_directions=integer(low=0),
    ).where(
        "the directions of a text do not match its predictions",
        lambda it: (it["columns"].shape[1] - it["n_directions"]) % (N_FOLDS + 1) == 0,
    )

    def __init__(
        self,
        used: NDArray[np.int64],
        weights: Floats,
        columns: NDArray[np.float32],
        n_directions: int,
    ) -> None:
        self.used, self.weights, self.columns = used, weights, columns
        self.n_directions = n_directions

    @property
    def n_codes(self) -> int:
        """Predictions of each text."""
        return int(self.columns.shape[1] - self.n_directions) // (N_FOLDS + 1)

    @property
    def n_outputs(self) -> int:
        """Numbers that a text becomes."""
        return self.n_directions + self.n_codes

    @classmethod
    def of(cls, sample: TextSample, most: int = 32) -> Self:
        """Find `most` directions of a sample, and the predictions if there are targets."""
        texts = sorted(sample.sums)
        n = len(texts)
        nothing = cls(np.zeros(0, np.int64), np.zeros(0), np.zeros((1, 0), np.float32), 0)
        if n < 2:
            return nothing
        sums = np.array([sample.sums[text] for text in texts])
        words = np.array([len(text.split()) for text in texts])
        if words @ sums[:, 0] < _FEW_WORDS * sums[:, 0].sum():
            most = min(most, _DIRECTIONS_OF_NAMES)
        counts = _hashed(texts)
        frequency = np.diff(counts.tocsc().indptr)
        used = np.flatnonzero((frequency >= _FEWEST) & (frequency < n))
        n_directions = min(most, n // _TEXTS_A_DIRECTION, used.size - 1)
        if n_directions < 1:
            return nothing
        weights = np.log((1.0 + n) / (1.0 + frequency[used])) + 1.0
        rows = _of_length_one(counts[:, used] @ sparse.diags(weights))
        columns = [_directions(rows, sums[:, 0], n_directions)]
        if sums.shape[1] > 1 and n >= _FEWEST_TEXTS:
            folds = np.array([_key(text) % N_FOLDS for text in texts])
            columns += _predictions(rows, sums, folds)
        return cls(used, weights, np.hstack(columns).astype(np.float32), n_directions)

    def transform(self, texts: Sequence[str], *, learned: bool = False) -> Floats:
        """Map texts.

        Parameters
        ----------
        texts : sequence of str
            Any.
        learned : bool, default=False
            Whether their rows are learned, so that predictions must not use the rows' own fold.

        Returns
        -------
        values : ndarray of shape (n_texts, n_outputs)
            Directions, then predictions.
        """
        if not len(texts) or not self.n_outputs:
            return np.zeros((len(texts), self.n_outputs))
        rows = _of_length_one(_hashed(texts)[:, self.used] @ sparse.diags(self.weights))
        columns = self.columns.astype(np.float64)
        values = rows @ columns[1:] + columns[0]
        np.clip(values[:, : self.n_directions], -_CLIP, _CLIP, out=values[:, : self.n_directions])
        predicted = values[:, self.n_directions :].reshape(len(texts), N_FOLDS + 1, self.n_codes)
        folds = [_key(text) % N_FOLDS if learned else N_FOLDS for text in texts]
        return np.hstack([values[:, : self.n_directions], predicted[np.arange(len(texts)), folds]])


def _directions(rows: Any, counts: Floats, n: int) -> Floats:
    """Return the directions in which texts vary most, scaled to variance 1, with their shift."""
    from sklearn.utils.extmath import randomized_svd

    share = counts / counts.sum()
    _, _, found = randomized_svd(sparse.diags(np.sqrt(share)) @ rows, n, random_state=_SEED)
    values = rows @ found.T
    center = share @ values
    spread = np.sqrt(share @ (values - center) ** 2)
    scale = np.where(spread > _ROUNDING, spread, np.inf)
    return np.vstack([-center / scale, found.T / scale])


def _predictions(rows: Any, sums: Floats, folds: NDArray[np.int64]) -> list[Floats]:
    """Return linear predictions of targets without the texts of each fold, then from all texts."""
    from sklearn.linear_model import Ridge

    counts = sums[:, 0]
    y = sums[:, 1:] / counts[:, None]

    def fitted(use: NDArray[np.bool_], ridge: float) -> Floats:
        model = Ridge(ridge, solver="sparse_cg", max_iter=60, tol=1e-3)
        model.fit(rows[use], y[use], sample_weight=counts[use])
        return np.vstack([np.atleast_1d(model.intercept_), np.atleast_2d(model.coef_).T])

    best: list[Floats] = []
    out_of_fold = np.zeros_like(y)
    lowest, best_ridge = np.inf, _RIDGES[0]
    for ridge in _RIDGES:
        found = [fitted(folds != fold, ridge) for fold in range(N_FOLDS)]
        values = np.zeros_like(y)
        for fold, columns in enumerate(found):
            values[folds == fold] = rows[folds == fold] @ columns[1:] + columns[0]
        error = float(counts @ np.sum((values - y) ** 2, axis=1))
        if error < lowest:
            best, lowest, best_ridge, out_of_fold = found, error, ridge, values
    best = [*best, fitted(np.ones(len(y), dtype=bool), best_ridge)]
    share = counts / counts.sum()
    center = share @ out_of_fold
    spread = np.sqrt(share @ (out_of_fold - center) ** 2)
    scale = np.where(spread > _ROUNDING, spread, np.inf)
    made = [columns / scale for columns in best]
    for columns in made:
        columns[0] -= center / scale
    return made


def _of_length_one(rows: Any) -> Any:
    """Scale rows to length 1; those without a word stay 0."""
    length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sparse.diags(1.0 / np.where(length > 0.0, length, 1.0)) @ rows
