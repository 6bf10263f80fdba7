"""Kernel learning from pairs of rows: AUC, ranking, preferences and similarity."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.estimators._progress import Progress
from mercer.estimators._ranking import RankingAnswers
from mercer.estimators._ranking_rows import RankingRows
from mercer.exceptions import NothingLearnedWarning
from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.model_file import storable

__all__ = ["KernelRanker"]

Array = NDArray[np.float64]


@storable
class KernelRanker(RankingRows, RankingAnswers):
    r"""Learn from pairs of rows which is above the other, or whether they belong together.

    Every row is paired with a few that came before it, which a buffer holds, and a loss of the
    pair moves a function f(x, x') of two points. With the default pair kernel
    f(x, x') = g(x) - g(x'), and g ranks: for two classes this maximises the area under the ROC
    curve (AUC), for graded or real targets the share of pairs in the right order.

    Memory does not grow with the stream, and a row costs the same at its end as at its beginning.

    Parameters
    ----------
    loss : str or MarginLoss, default="logistic"
        Loss of a pair: "logistic", "squared_hinge", "least_squares_margin" or another of margins.
    pair_kernel : str, PairKernel or array-like, default="difference"
        What kind of function of two points is learned: "difference" (scores),
        "antisymmetric" (preferences that need not be transitive), "symmetric" (similarity),
        "mlpk" (a metric), "product" (anything), or a pattern of numbers
        (:class:`mercer.kernels.PairKernel`).
    pair_label : {"sign", "difference", "same"}, default="sign"
        What is learned of a pair: which row has the larger y; by how much; or whether both have
        the same y. The first two go with functions that change sign when the points change places,
        the last with those that stay.
    buffer : int, Buffer, "all", "previous" or "auto", default="auto"
        Which earlier rows a row is paired with: n means the last n of each of two classes; see
        :mod:`mercer.buffers`. "auto" is 10 of each class, or the last 50 rows where y has other
        values than two or rows have groups.
    normalize : {"auto", "opposite", "all", "balanced"}, default="auto"
        What the slopes of a row's pairs are divided by. "opposite": the number of partners with
        another y; "all": that of all rows in the buffer, as in the paper; "balanced" (for
        ``pair_label="same"``): pairs that are the same and pairs that are not weigh one half each.
        "auto" is "balanced" for "same" and else "opposite".
    kernel : str, Kernel or callable, default="gaussian"
        Kernel of points; a name stands for half the median distance as length scale.
    expansion : str or Expansion, default="auto"
        How the function is kept small. "auto" is KOMP with at most 200 points (twice the buffer,
        if that is more) and a tolerance of 1e-4 in units of a function of values of about 1; with
        ``buffer="all"`` it is ``Full()``. Points in the buffer stay in the dictionary. With pair
        kernels of second order, RandomFeatures keep a fixed number of features, ``block_size *
        (max_blocks or 2)``.
    step_size : float, schedule, "auto" or "theory", default="auto"
        "auto" falls like t to the power -1/2, from 16 times the largest step that the theorems
        allow (from that step itself for least squares), and is shorter for heavy rows; random
        features of first order take their own automatic steps. "theory" has the exponent 4/5
        (losses of bounded slope) or 5/6 and starts at that largest step: safe and slow. Relative
        schedules are in units of 1 / (L κ²), with the bound κ² of the pair kernel, for pair labels
        of size 1.
    regularization : float, default=0.0
        Ridge parameter. The falling steps take its place.
    batch_size : int or "auto", default="auto"
        Rows per step; their slopes are averaged. "auto" is 1, and 256 for random features, whose
        steps draw a block of features each.
    n_passes : int, default=1
        How often ``fit`` visits the rows.
    shuffle : bool, default=True
        Whether ``fit`` visits them in random order; groups stay together.
    average : {None, "polyak", "suffix"}, default=None
        Predict with an average of the iterates; first order only.
    random_state : int, RandomState or None, default=None
        For the order of the rows and the sample that sets the length scale.
    verbose : int, default=0
        Above 0 shows progress.

    Attributes
    ----------
    classes_ : ndarray
        The two classes, if y has two; else for ``pair_label="same"`` the labels so far.
    buffer_ : Buffer
        The buffer in use.
    dictionary_, model_order_, kernel_, n_samples_seen_, history_
        As in :class:`mercer.KernelClassifier`.
    coefficients_ : ndarray of shape (model_order_, 1) or (model_order_, model_order_)
        Of g(x), or of f(x, x') in k(x) and k(x') before the pattern of the pair kernel.
    intercept_ : float
        Constant term, where the pair kernel has a bias.

    Raises
    ------
    ValueError
        For pair labels that the pair kernel cannot learn, a budget not above the number of points
        in the buffer, and all else that cannot work; before the first row.

    References
    ----------
    Ying and Zhou, Algorithm 2: ``buffer="all"``, ``normalize="all"``, ``pair_label="difference"``,
    ``expansion=Full()``. The rest keeps memory constant.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(2000, noise=0.2, random_state=0)
    >>> model = KernelRanker(random_state=0).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.98)  # AUC
    True
    """

    def __init__(  # noqa: PLR0913  # all that can be chosen
        self,
        loss: str | Loss = "logistic",
        *,
        pair_kernel: Any = "difference",
        pair_label: str = "sign",
        buffer: Any = "auto",
        normalize: str = "auto",
        kernel: str | Kernel | Callable[..., Any] = "gaussian",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        regularization: float = 0.0,
        batch_size: int | str = "auto",
        n_passes: int = 1,
        shuffle: bool = True,
        average: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.pair_kernel = pair_kernel
        self.pair_label = pair_label
        self.buffer = buffer
        self.normalize = normalize
        self.kernel = kernel
        self.expansion = expansion
        self.step_size = step_size
        self.regularization = regularization
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.average = average
        self.random_state = random_state
        self.verbose = verbose

    # -- learning -------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        callback: Callable[[Progress], object] | None = None,
        *,
        group: Any = None,
    ) -> Self:
        """Learn from all rows, ``n_passes`` times, starting afresh.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs; float32 is kept and computed in, all else becomes float64.
        y : array-like of shape (n_samples,)
            Two classes of any type, grades or real numbers; for ``pair_label="same"`` any labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, as one of a pair and as the other.
        callback : callable, default=None
            Called with a :class:`~mercer.estimators.Progress` every few thousand rows; a true
            result stops the fit.
        group : array-like of shape (n_samples,), default=None
            Group of each row, for example the query it answers: only rows of one group are paired.
            Groups are visited one after the other if ``shuffle`` is true.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For wrong parameters or data, or if all y are equal; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large for the data; the model stays as it was.

        Warns
        -----
        mercer.exceptions.NothingLearnedWarning
            If no row met one of its group with another y.
        """
        self._groups = group
        try:
            super().fit(X, y, sample_weight, callback)
        finally:
            self.__dict__.pop("_groups", None)
        if not self.coefficients_.any():
            warnings.warn(
                "No row met another one that it could learn from, so all scores are the same: "
                "only rows of one group are paired, and only if their y differ. Check that "
                "`group` names queries or the like (not rows), that y varies within them, and, "
                "with shuffle=False, that rows of a group are no further apart than the buffer.",
                NothingLearnedWarning,
                stacklevel=2,
            )
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        group: Any = None,
    ) -> Self:
        """Learn from some more rows, in order.

        The first call fixes, on its rows, what was left to choose: the length scale of the kernel,
        the step size, and whether y has two classes. Start with some hundred typical rows.

        Rows are learned in the order in which they come: with groups, those of one group must
        come close together, for the buffer holds the last rows of all groups.

        Parameters
        ----------
        X, y : array-like
            As in :meth:`fit`.
        classes : array-like of shape (2,), default=None
            The two classes, the one to rank above second: for first calls that may hold one only,
            and to choose the order. Without them the larger label ranks above.
        sample_weight, group : array-like, default=None
            As in :meth:`fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For wrong parameters or data; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model stays as it was.
        """
        self._groups, self._announced = group, classes
        try:
            return self._partial_fit(X, y, sample_weight)
        finally:
            self.__dict__.pop("_groups", None)
            self.__dict__.pop("_announced", None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
