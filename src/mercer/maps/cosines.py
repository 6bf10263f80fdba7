"""Cosines of frequencies that are kept: random features that can be refined by gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.component import Component
from mercer.maps.affine import FloatArray, check_rows
from mercer.validation import check_integer, check_real, parameters

Array = NDArray[np.float64]

# Adam: what is forgotten of the slopes and of their squares in a step; the least divisor.
_FORGOTTEN, _FORGOTTEN_SQUARES, _LEAST = 0.1, 0.001, 1e-12
_HELD_OUT = 0.1  # share of the rows that choose the pass


def _check_frequencies(name: str, value: Any) -> None:
    W = np.asarray(value, dtype=np.float64)
    if W.ndim != 2 or not W.size or not np.isfinite(W).all():
        raise ValueError(
            f"`{name}` must be finite numbers of shape (n_inputs, n_pairs), got the shape "
            f"{W.shape}."
        )


class Cosines(Component):
    r"""Map of a row to cosines and sines of frequencies that are kept.

    The image is :math:`[\cos(x W), \sin(x W)] / \sqrt{k}` for the k columns of W. With frequencies
    drawn for a kernel (:func:`mercer.kernels.cosines`) inner products of images are the kernel on
    average. Drawn frequencies are a seed; these are numbers that are kept, so that :meth:`refined`
    may fit them to rows: fewer of them then do what many drawn ones do.

    Parameters
    ----------
    frequencies : array-like of shape (n_inputs, n_pairs)
        W, in radians for each unit of input.

    Attributes
    ----------
    n_inputs : int
        Number of columns of the rows it takes.
    n_outputs : int
        Number of features, 2 n_pairs.

    Raises
    ------
    ValueError
        If the frequencies are not finite numbers of that shape.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import Cosines
    >>> Cosines([[np.pi, 0.0]])([[1.0], [0.5]]).round(3) + 0.0
    array([[-0.707,  0.707,  0.   ,  0.   ],
           [ 0.   ,  0.707,  0.707,  0.   ]])

    They stand before a linear kernel, or any linear model:

    >>> from mercer.kernels import Gaussian, Linear, Mapped, cosines
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (600, 6))
    >>> y = np.sin(4 * X[:, 0] + 2 * X[:, 1])
    >>> drawn = cosines(Gaussian(1.0), n_inputs=6, n_features=32)
    >>> from mercer import KernelRegressor
    >>> from mercer.expansions import Dictionary
    >>> def error(map):
    ...     kernel = Mapped(Linear(), map)
    ...     model = KernelRegressor(kernel=kernel, expansion=Dictionary(64), random_state=0)
    ...     return np.mean((model.fit(X[:500], y[:500]).predict(X[500:]) - y[500:]) ** 2)
    >>> refined = drawn.refined(X[:500], y[:500], n_passes=100, batch_size=32)
    >>> bool(error(refined) < 0.2 * error(drawn))
    True
    """

    _parameters = parameters(frequencies=_check_frequencies)

    def __init__(self, frequencies: ArrayLike) -> None:
        self.frequencies = frequencies
        self._check()

    @property
    def n_inputs(self) -> int:
        """Number of columns of the rows it takes."""
        return int(np.shape(self.frequencies)[0])

    @property
    def n_outputs(self) -> int:
        """Number of features."""
        return 2 * int(np.shape(self.frequencies)[1])

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Map rows: (n_rows, n_inputs) to (n_rows, n_outputs), in float32 if they are."""
        rows = check_rows(X, self.n_inputs)
        return _features(rows, np.asarray(self.frequencies, dtype=rows.dtype))

    def refined(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        ridge: float = 1e-4,
        n_passes: int = 30,
        batch_size: int = 128,
        step_size: float = 0.03,
        seed: int = 0,
    ) -> Cosines:
        r"""Return cosines whose frequencies are fitted to rows; this object is not changed.

        Frequencies and coefficients a of :math:`f(x) = z(x)\, a` descend together on the mean of
        :math:`\|f(x) - y\|^2/2` plus :math:`\rho\|a\|^2/2`, by Adam with steps that fall to 0. The
        frequencies after the pass with the least error on a tenth of the rows, held out, are
        returned: the drawn ones, if no pass improves them. Coefficients are not kept.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs)
            Rows, at least 20.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Targets; for classes a column for each, 1 for the rows of that class and 0 or -1 else.
            They are centred.
        ridge : float, default=1e-4
            :math:`\rho`.
        n_passes : int, default=30
            Passes over the rows.
        batch_size : int, default=128
            Rows of a step.
        step_size : float, default=0.03
            First step, in units of the mean absolute frequency and coefficient.
        seed : int, default=0
            Of the rows that are held out, and of the order of the others.

        Returns
        -------
        cosines : Cosines
            As many features.

        Raises
        ------
        ValueError
            If the rows are too few or not finite, or a number is out of range.

        References
        ----------
        DSG, Section 8; Z. Yang et al., Deep fried convnets, ICCV 2015. D. P. Kingma, J. Ba, Adam: a
        method for stochastic optimization, ICLR 2015.
        """
        check_real("ridge", ridge, low=0, open_low=True)
        check_integer("n_passes", n_passes, low=1)
        check_integer("batch_size", batch_size, low=1)
        check_real("step_size", step_size, low=0, open_low=True)
        rows = check_rows(X, self.n_inputs).astype(np.float64, copy=False)
        Y = np.asarray(y, dtype=np.float64)
        Y = Y[:, np.newaxis] if Y.ndim == 1 else Y
        if Y.ndim != 2 or len(Y) != len(rows) or len(rows) < 20:
            raise ValueError(
                f"`X` and `y` must be the same rows, at least 20, got {len(rows)} and the shape "
                f"{np.shape(y)}."
            )
        if not (np.isfinite(rows).all() and np.isfinite(Y).all()):
            raise ValueError("`X` and `y` must be finite. Drop such rows or impute them.")
        rng = np.random.default_rng(check_integer("seed", seed, low=0))
        order = rng.permutation(len(rows))
        n_held = int(_HELD_OUT * len(rows))
        held, kept = order[:n_held], order[n_held:]
        Y = Y - Y[kept].mean(axis=0)
        W = np.array(self.frequencies, dtype=np.float64)
        Z = _features(rows[kept], W)
        n, m = Z.shape
        a = np.linalg.solve(Z.T @ Z / n + ridge * np.eye(m), Z.T @ Y[kept] / n)
        least, best = self._error(rows[held], Y[held], W, a), W.copy()
        means, squares = [np.zeros_like(p) for p in (W, a)], [np.zeros_like(p) for p in (W, a)]
        sizes, t = (float(np.abs(W).mean()), float(np.abs(a).mean())), 0
        for number in range(n_passes):
            rate = step_size * (1.0 - number / n_passes)
            kept = rng.permutation(kept)
            for start in range(0, len(kept), batch_size):
                batch, t = kept[start : start + batch_size], t + 1
                slopes = slopes_of(rows[batch], Y[batch], W, a, ridge)
                for p, mean, square, slope, size in zip(
                    (W, a), means, squares, slopes, sizes, strict=True
                ):
                    mean += _FORGOTTEN * (slope - mean)
                    square += _FORGOTTEN_SQUARES * (slope**2 - square)
                    first = mean / (1.0 - (1.0 - _FORGOTTEN) ** t)
                    second = square / (1.0 - (1.0 - _FORGOTTEN_SQUARES) ** t)
                    p -= rate * size * first / (np.sqrt(second) + _LEAST)
            error = self._error(rows[held], Y[held], W, a)
            if error < least:
                least, best = error, W.copy()
        return Cosines(best)

    @staticmethod
    def _error(X: Array, Y: Array, W: Array, a: Array) -> float:
        return float(np.mean((_features(X, W) @ a - Y) ** 2))


def _features(X: Any, W: Any) -> FloatArray:
    P = X @ W
    Z: FloatArray = np.hstack([np.cos(P), np.sin(P)])
    Z *= 1 / math.sqrt(W.shape[1])
    return Z


def slopes_of(X: Array, Y: Array, W: Array, a: Array, ridge: float) -> tuple[Array, Array]:
    """Slopes of the mean of |f(x) - y|²/2 plus ridge |a|²/2 in frequencies and in coefficients.

    Parameters
    ----------
    X : ndarray of shape (n, n_inputs)
        Rows.
    Y : ndarray of shape (n, n_outputs)
        Targets.
    W : ndarray of shape (n_inputs, n_pairs)
        Frequencies.
    a : ndarray of shape (2 * n_pairs, n_outputs)
        Coefficients, of cosines and then of sines.
    ridge : float
        Ridge.

    Returns
    -------
    of_frequencies, of_coefficients : ndarray
        Of the shapes of ``W`` and ``a``.
    """
    Z = np.asarray(_features(X, W), np.float64)
    residuals = (Z @ a - Y) / len(X)
    k = W.shape[1]
    back = residuals @ a.T
    turned: Array = Z[:, :k] * back[:, k:] - Z[:, k:] * back[:, :k]
    return X.T @ turned, Z.T @ residuals + ridge * a
