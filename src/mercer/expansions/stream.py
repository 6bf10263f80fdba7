"""The default of streams: several ways to learn, side by side."""

from __future__ import annotations

from typing import Any, NoReturn

from mercer.expansions.expansion import Expansion
from mercer.validation import integer, parameters


class Stream(Expansion):
    r"""Answer row by row: several ways to learn run side by side, and those that did best count.

    Inputs, and targets of a regression, are scaled by what the stream has shown so far. On them
    run gradient steps of four sizes on random features of three length scales, recursive sums with
    and without forgetting, and kernel expansions compressed by KOMP, by their last iterates and by
    averages. Each row is predicted by all before they learn it; a mixture by the rule of the fixed
    share, whose loss has a bound for *any* sequence of ways (:class:`mercer.streams.FixedShare`),
    and regressions on what they say (:class:`mercer.streams.Stack`) make one answer of it. Where
    losses say that the stream has changed, sums begin anew, and what was known is kept for states
    that come back.

    Memory and the cost of a row are bounded, however many rows come. ``fit`` keeps the order of the
    rows, too. Weights count by their ratio to the usual one, at most ten times. Rows as dicts may
    have other features than those before, and NaN says nothing of a feature. It is what
    ``expansion="auto"`` stands for where a model begins with ``learn_one``, or with fewer than 256
    rows in ``partial_fit``, of the squared, logistic or softmax loss.

    Parameters
    ----------
    n_features : int, default=96
        Random features of each length scale.
    points : int, default=200
        Points of each kernel expansion, at most.
    seed : int, default=0
        Of the random features.

    Raises
    ------
    ValueError
        For values out of range.

    References
    ----------
    M. Herbster, M. Warmuth, Tracking the best expert, Machine Learning 32, 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> rng, model = np.random.default_rng(0), KernelRegressor()
    >>> for x in rng.uniform(-2.0, 2.0, size=(300, 1)):
    ...     model = model.learn_one(x, 50.0 + np.sin(2.0 * x[0]))
    >>> bool(abs(model.predict_one([1.0]) - 50.0 - np.sin(2.0)) < 0.1)
    True
    """

    #: Nothing is asked of step sizes.
    mode = "solve"
    _parameters = parameters(n_features=integer(low=2), points=integer(low=1), seed=integer(low=0))

    def __init__(self, n_features: int = 96, points: int = 200, seed: int = 0) -> None:
        self.n_features = n_features
        self.points = points
        self.seed = seed
        self._check()

    @property
    def averages(self) -> bool:
        """See :class:`Expansion`: averages are among the ways."""
        return False

    def start(self, *args: Any, **kwargs: Any) -> NoReturn:
        """See :class:`Expansion`; ValueError, for only two estimators have these ways."""
        raise ValueError(
            f"{self!r} is for KernelClassifier and KernelRegressor, with the squared, the logistic "
            "or the softmax loss. Use another expansion, such as 'komp'."
        )

    def compressor(self, kernel: Any) -> NoReturn:
        """See :class:`Expansion`; ValueError, for it is not one expansion that is compressed."""
        self.start()
