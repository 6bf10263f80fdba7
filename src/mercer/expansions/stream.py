"""The default expansion for streams: several models side by side."""

from __future__ import annotations

from typing import Any, NoReturn

from mercer.expansions.expansion import Expansion
from mercer.validation import integer, parameters


class Stream(Expansion):
    r"""Learn row by row with several models side by side; the best ones count most.

    Inputs, and regression targets, are scaled by statistics of the stream so far. On the scaled
    rows run gradient steps of four sizes on random features of three length scales, recursive sums
    with and without forgetting, and kernel expansions compressed by KOMP, with their last iterates
    and with averages. All models predict each row before they learn it. Their predictions are
    combined by a fixed-share mixture, whose loss has a bound for *any* sequence of best models
    (:class:`mercer.streams.FixedShare`), and by regressions on the predictions
    (:class:`mercer.streams.Stack`). If the losses show that the stream has changed, sums start
    again, and the old state is kept in case it comes back.

    Memory and the cost per row are bounded. ``fit``, too, keeps the order of the rows. Sample
    weights count relative to the usual weight, at most ten times. Rows given as dicts may have
    other features than earlier rows, and NaN counts as missing. ``expansion="auto"`` means this
    expansion if a model starts with ``learn_one``, or with fewer than 256 rows in ``partial_fit``,
    and has the squared, logistic or softmax loss.

    Parameters
    ----------
    n_features : int, default=96
        Random features per length scale.
    points : int, default=200
        Largest number of points of each kernel expansion.
    seed : int, default=0
        Seed for the random features.

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

    #: No step size is needed.
    mode = "solve"
    _parameters = parameters(n_features=integer(low=2), points=integer(low=1), seed=integer(low=0))

    def __init__(self, n_features: int = 96, points: int = 200, seed: int = 0) -> None:
        self.n_features = n_features
        self.points = points
        self.seed = seed
        self._check()

    @property
    def averages(self) -> bool:
        """False: averages are among the models already."""
        return False

    def start(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise an error: only the classifier and the regressor support this expansion."""
        raise ValueError(
            f"{self!r} is for KernelClassifier and KernelRegressor, with the squared, the logistic "
            "or the softmax loss. Use another expansion, such as 'komp'."
        )

    def compressor(self, kernel: Any) -> NoReturn:
        """Raise an error: this is not a single expansion that can be compressed."""
        self.start()
