"""Free text as numbers: hashed words and pieces of words, in the directions that vary most."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.data.columns import Levels

__all__ = ["TextMap", "TextSample"]

Floats = NDArray[np.float64]

_KEPT = 4096  # different texts, from which the directions are found
_LONGEST = 10_000  # characters of a text that are looked at
_HASHED = 2**12  # counts of words, and as many of pieces of words
_DIRECTIONS = 32
_TEXTS_A_DIRECTION = 4
_FEWEST = 2  # texts that must have a word
_VARIANCE = 1.0  # of all numbers of a text together
_SEED = 0


@dataclass
class TextSample:
    """Up to 4,096 different texts of a column, chosen by what is in them, and how often each is.

    The texts with the lowest hashes stay. So a sample does not depend on the order of the rows, and
    two of them can be merged.

    Examples
    --------
    >>> one, other = TextSample(), TextSample()
    >>> one.update(Levels(np.array([0, 0, -1]), ["a bright room"]))
    >>> other.update(Levels(np.array([0]), ["near the lake"]))
    >>> one.merge(other)
    >>> sorted(one.counts.items()), one.missing
    ([('a bright room', 2), ('near the lake', 1)], 1)
    """

    counts: dict[str, int] = field(default_factory=dict)
    missing: int = 0
    present: int = 0  # rows with a text

    def update(self, column: Levels) -> None:
        """Add the texts of a column."""
        levels, counts = column.counted()
        texts: dict[str, int] = {}
        for level, n in zip(levels, counts.tolist(), strict=True):
            texts[level[:_LONGEST]] = texts.get(level[:_LONGEST], 0) + n
        present = int(counts.sum())
        self.merge(TextSample(texts, len(column.codes) - present, present))

    def merge(self, other: TextSample) -> None:
        """Add the texts of another sample."""
        for text, n in other.counts.items():
            self.counts[text] = self.counts.get(text, 0) + n
        self.missing += other.missing
        self.present += other.present
        if len(self.counts) > _KEPT:
            kept = sorted(self.counts, key=_key)[:_KEPT]
            self.counts = {text: self.counts[text] for text in kept}

    def to_state(self) -> dict[str, Any]:
        """Return plain data."""
        return {"counts": self.counts, "missing": self.missing, "present": self.present}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`; raises ``ValueError`` for anything inconsistent."""
        counts, missing, present = state["counts"], state["missing"], state["present"]
        if not isinstance(counts, dict) or len(counts) > _KEPT:
            raise ValueError(f"`counts` must be a dict of at most {_KEPT} entries")
        if any(type(n) is not int or n < 0 for n in (missing, present, *counts.values())):
            raise ValueError("counts of texts must be whole numbers")
        return cls(dict(counts), missing, present)


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


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


class TextMap:
    """A fixed map from texts to numbers.

    Words, pairs of words and pieces of three to five letters are hashed, rare ones weigh more, and
    each text has length 1. Of these thousands of numbers the directions are kept in which the texts
    of the sample vary most (latent semantic analysis, by a singular value decomposition).

    Parameters
    ----------
    used : ndarray of shape (n_used,)
        Which hashed counts are used.
    weights : ndarray of shape (n_used,)
        Of the counts.
    directions : ndarray of shape (n_used, n_directions)
        They map a weighted text to numbers.

    References
    ----------
    Deerwester et al., "Indexing by latent semantic analysis", JASIS 1990; Weinberger et al.,
    "Feature hashing for large scale multitask learning", ICML 2009.

    Examples
    --------
    >>> sample = TextSample()
    >>> texts = ["red wine", "white wine", "red car", "fast car", "white car", "red door", "door",
    ...          "car"]
    >>> sample.update(Levels(np.arange(8), texts))
    >>> fitted = TextMap.of(sample)
    >>> fitted.transform(["wine", "red car", "???"]).shape
    (3, 2)
    """

    def __init__(
        self, used: NDArray[np.int64], weights: Floats, directions: NDArray[np.float32]
    ) -> None:
        self.used, self.weights, self.directions = used, weights, directions

    @property
    def n_outputs(self) -> int:
        """Numbers that a text becomes."""
        return int(self.directions.shape[1])

    @classmethod
    def of(cls, sample: TextSample) -> Self:
        """Find the directions of a sample."""
        texts = sorted(sample.counts)
        n = len(texts)
        counts = _hashed(texts)
        frequency = np.diff(counts.tocsc().indptr)
        used = np.flatnonzero((frequency >= _FEWEST) & (frequency < n))
        n_directions = min(_DIRECTIONS, n // _TEXTS_A_DIRECTION, used.size)
        if n_directions < 1:
            return cls(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 0), np.float32))
        weights = np.log((1.0 + n) / (1.0 + frequency[used])) + 1.0
        rows = _of_length_one(counts[:, used] @ sparse.diags(weights))
        often = np.sqrt([sample.counts[text] for text in texts])
        from sklearn.utils.extmath import randomized_svd

        _, _, directions = randomized_svd(
            sparse.diags(often) @ rows, n_directions, random_state=_SEED
        )
        values = rows @ directions.T
        share = often**2 / np.sum(often**2)
        spread = np.sqrt(share @ (values - share @ values) ** 2)
        scale = np.sqrt(np.sum(spread**2)) / np.sqrt(_VARIANCE)
        return cls(used, weights, (directions.T / (scale or 1.0)).astype(np.float32))

    def transform(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Map texts.

        Parameters
        ----------
        texts : sequence of str
            Any.

        Returns
        -------
        values : ndarray of shape (n_texts, n_outputs)
            All 0 for a text without a known word.
        """
        if not texts or not self.n_outputs:
            return np.zeros((len(texts), self.n_outputs))
        rows = _of_length_one(_hashed(texts)[:, self.used] @ sparse.diags(self.weights))
        return np.asarray(rows @ self.directions.astype(np.float64))

    def to_state(self) -> dict[str, Any]:
        """Return plain data that JSON can hold."""
        return {
            "used": self.used.tolist(),
            "weights": self.weights.tolist(),
            "directions": base64.b64encode(self.directions.astype("<f4").tobytes()).decode(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`; raises ``ValueError`` for anything inconsistent."""
        used = np.array(state["used"], dtype=np.int64)
        weights = np.array(state["weights"], dtype=np.float64)
        flat = np.frombuffer(base64.b64decode(state["directions"]), dtype="<f4")
        if weights.shape != used.shape or (flat.size % used.size if used.size else flat.size):
            raise ValueError("the directions of a text do not match its words")
        if used.size and not (0 <= used.min() and used.max() < 2 * _HASHED):
            raise ValueError("the words of a text are beyond those hashed")
        if not (np.isfinite(weights).all() and np.isfinite(flat).all()):
            raise ValueError("the directions of a text are not finite")
        return cls(used, weights, flat.astype(np.float32).reshape(used.size, -1))


def _of_length_one(rows: Any) -> Any:
    """Scale rows to length 1; those without a word stay 0."""
    length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sparse.diags(1.0 / np.where(length > 0.0, length, 1.0)) @ rows
