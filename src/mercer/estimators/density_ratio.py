"""Density ratios, divergences and two-sample tests on streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state

from mercer.component import own_copy
from mercer.divergences import Divergence, KullbackLeibler, RelativeNovelty, as_divergence
from mercer.estimators.estimator import numeric_rows
from mercer.estimators.fitting import Callback, Data, Given, TaskEstimator
from mercer.estimators.inputs import check_weights
from mercer.estimators.start import Plan
from mercer.estimators.targets import TaskTargets, no_loss, usual_unit
from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.learning import AutomaticStep, automatic_step
from mercer.model_file import storable
from mercer.numerics.philox import row_uniforms
from mercer.objectives import TwoSample
from mercer.records import (
    FLOATS,
    Config,
    IfAny,
    Maybe,
    Numbered,
    Numbers,
    Part,
    Record,
    Recorded,
)
from mercer.threads import jobs
from mercer.validation import check_integer, check_real, integer

Array = NDArray[np.float64]

MOST_HELD_OUT = 2000  # rows of each sample


# -- rows held out ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HeldOut(Recorded):
    """Held-out rows of one sample.

    Attributes
    ----------
    n_seen : int
        Rows of the sample seen, learned or not.
    rows : ndarray of shape (n_held_out, n_features)
        The rows, at most ``MOST_HELD_OUT``.
    weights : ndarray of shape (n_held_out,) or None
        Weights above 0; None if all are equal.
    """

    n_seen: int
    rows: NDArray[np.floating]
    weights: Array | None = None

    _record = Record(
        n_seen=integer(low=0),
        rows=Numbers("n", "n_features", dtype=FLOATS),
        weights=Maybe(Numbers("n", above=0.0)),
    ).where(
        "the rows held out do not fit together",
        lambda it: len(it["rows"]) <= min(it["n_seen"], MOST_HELD_OUT),
    )

    @classmethod
    def none(cls, n_features: int, dtype: Any) -> Self:
        """Return a record without rows."""
        return cls(0, np.empty((0, n_features), dtype))

    def extended(self, X: Any, n_seen: int, weights: Array | None = None) -> Self:
        """Return the record with rows ``X`` held out of ``n_seen`` further rows."""
        rows = X if isinstance(X, np.ndarray) else X.toarray()
        rows = np.concatenate([self.rows, rows.astype(self.rows.dtype, copy=False)])
        if self.weights is not None or weights is not None:
            old, new = len(self.rows), len(rows) - len(self.rows)
            weights = np.concatenate(
                [
                    np.ones(old) if self.weights is None else self.weights,
                    np.ones(new) if weights is None else weights,
                ]
            )
        return type(self)(self.n_seen + n_seen, rows, weights)


def rows_of_a_stream(held: HeldOut, n: int, share: float) -> NDArray[np.int64]:
    """Return the positions of the rows to hold out among the next ``n`` rows of a sample.

    They depend only on the row numbers in the stream. At least one row is always left to learn.

    Parameters
    ----------
    held : HeldOut
        Rows held out so far.
    n : int
        Number of next rows.
    share : float
        Share of rows to hold out until ``MOST_HELD_OUT`` are held out.
    """
    rows = np.flatnonzero(row_uniforms(held.n_seen, n) < share)
    return rows[: min(MOST_HELD_OUT - len(held.rows), n - 1)]


@dataclass(frozen=True)
class TwoSamples(TaskTargets):
    """Targets of a density ratio, with the held-out rows of both samples, p and q."""

    loss = None

    held: tuple[HeldOut, HeldOut]
    divergence: Divergence = field(default_factory=KullbackLeibler)

    _record = Record(
        loss=no_loss,
        targets=Record(
            held=Numbered(Part(HeldOut, "n_features"), 2),
            divergence=IfAny(Config(Divergence), none=KullbackLeibler()),
        ),
    )

    def objective(self, automatic: AutomaticStep | None) -> TwoSample:
        return TwoSample(self.divergence)

    def encode(self, y: Any, groups: Any = None) -> Array:
        """Return 1 for rows of p and 0 for rows of q."""
        labels: Array = y
        return labels

    def measured(self, kernel: Kernel, sample: Any, X: Any, y: Any) -> tuple[Self, AutomaticStep]:
        # Averaged over rows of both samples, the loss of either has weight 2.
        return self, automatic_step(kernel, sample, 2.0 * self.divergence.curvature, 1.0)

    def named_steps(self, name: str, automatic: AutomaticStep, expansion: Expansion) -> Any:
        return automatic

    def unit_of_steps(self, automatic: AutomaticStep) -> float:
        return usual_unit(automatic)


# -- the estimator ---------------------------------------------------------------------------------


class TwoSampleTest(NamedTuple):
    """Result of :meth:`mercer.DensityRatio.two_sample_test`.

    Attributes
    ----------
    statistic : float
        ``divergence_`` of the two samples.
    p_value : float
        Share of the permutations, the original samples included, with at least this statistic.
    null_statistics : ndarray of shape (n_permutations,)
        Statistics of the permutations.
    """

    statistic: float
    p_value: float
    null_statistics: NDArray[np.float64]


@storable
class DensityRatio(TaskEstimator):
    r"""Estimate p(x)/q(x) from samples of p and q, on a stream and in bounded memory.

    By default it minimises :math:`E_q e^{f(x)} - E_p f(x) + \frac{\lambda}{2}\|f\|^2` over the RKHS
    of the kernel by stochastic gradient steps; the expansion keeps f small. Without the ridge the
    minimiser is :math:`f = \log p/q`, and the minimum is :math:`1 - KL(p\|q)`. Other divergences
    have minimisers that tell the ratio as well (:mod:`mercer.divergences`).

    Parameters
    ----------
    f_divergence : str or Divergence, default="kl"
        Divergence of p and q whose variational form is minimised: ``"kl"``, ``"reverse_kl"``,
        ``"jensen_shannon"``, ``"hellinger"``, ``"pearson"`` (least squares of the ratio itself),
        ``"relative_novelty"``, or an object of :mod:`mercer.divergences`, your own included. It
        cannot be changed on a running stream.
    kernel : str, Kernel or callable, default="gaussian"
        Kernel (:mod:`mercer.kernels`); ``"auto"`` is a Gaussian kernel on standardised inputs.
    expansion : str or Expansion, default="auto"
        How f stays small (:mod:`mercer.expansions`); ``"auto"`` is ``KOMP(max_size=1000)``. Random
        features must have ``mode="faithful"``.
    step_size : float, callable or "auto", default="auto"
        Step size, or a schedule: a callable from the step number (1, 2, ...) to it. ``"auto"``
        takes a large safe step (:class:`mercer.learning.AutomaticStep`).
    regularization : float or schedule, default=1e-2
        Ridge parameter lambda, which draws p/q to 1. Far below the default, f follows single rows
        in the thin tails of q, and the divergence is underestimated or worse.
    batch_size : int, default=32
        Rows of *each* sample per step.
    n_passes : int, default=1
        Passes of ``fit`` over the larger sample; the smaller one is repeated as often as needed.
        Small samples need several passes: learning takes several hundred steps.
    shuffle : bool, default=True
        Whether ``fit`` visits the rows of each pass in random order.
    average : {"suffix", "polyak", None}, default="suffix"
        Predict with averaged coefficients: a mean of the iterates whose weights grow like t³
        (``"suffix"``), the plain mean (``"polyak"``), or the last iterate (None).
    validation_fraction : float, default=0.1
        Share of the rows of each sample, at most 2,000, held out for ``divergence_``; 0 for none.
    n_jobs : int or None, default=None
        Threads of ``fit``, ``partial_fit`` and predictions, for learning by sums; -1 for all cores.
        None is 1, unless a ``joblib.parallel_config`` says otherwise. The model is the same bit for
        bit. Learning by steps uses one core. Not stored in files.
    random_state : int, RandomState instance or None, default=None
        Seed for shuffling, for holding rows out and for the sample used by automatic choices.
    verbose : int, default=0
        1 reports progress on standard error.

    Attributes
    ----------
    divergence_ : float
        Estimate of the divergence, KL(p‖q) in nats by default: :meth:`divergence` on the held-out
        rows.
    dictionary_ : ndarray of shape (model_order_, n_features_in_)
        Points of the expansion.
    coefficients_ : ndarray of shape (model_order_, 1)
        Coefficients: f(x) = Σ_i coefficients_[i] · kernel_(dictionary_[i], x).
    model_order_ : int
        Number of points.
    kernel_ : Kernel
        The kernel with its numbers resolved.
    n_samples_seen_ : int
        Rows learned from both samples, counting every visit.
    history_ : History
        Progressive objective, model order and compression error over the stream.
    n_features_in_ : int
        Number of inputs.

    References
    ----------
    DSG, Section 4, "Kernel Density Ratio Estimation", eq. (8), with references [24] and [25] for
    ``f_divergence``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(0.0, 1.0, (2000, 1)), rng.normal(1.0, 1.0, (2000, 1))
    >>> model = DensityRatio(n_passes=10, random_state=0).fit(X_p, X_q)
    >>> model.ratio([[-1.0], [0.5], [2.0]]).round(0)  # exactly: exp(1.5), 1, exp(-1.5)
    array([4., 1., 0.])
    >>> model = DensityRatio(f_divergence="pearson", n_passes=10, random_state=0).fit(X_p, X_q)
    >>> model.ratio([[-1.0], [0.5], [2.0]]).round(0)
    array([4., 1., 0.])
    """

    _targets_type = TwoSamples
    targets_: TwoSamples

    def __init__(
        self,
        *,
        f_divergence: str | Divergence = "kl",
        kernel: str | Kernel | Callable[..., Any] = "gaussian",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        regularization: float | Callable[[int], float] = 1e-2,
        batch_size: int = 32,
        n_passes: int = 1,
        shuffle: bool = True,
        average: str | None = "suffix",
        validation_fraction: float = 0.1,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.f_divergence = f_divergence
        self.kernel = kernel
        self.expansion = expansion
        self.step_size = step_size
        self.regularization = regularization
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.average = average
        self.validation_fraction = validation_fraction
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- learning -------------------------------------------------------------------------------

    def fit(
        self,
        X_p: Any,
        X_q: Any,
        callback: Callback = None,
        *,
        sample_weight: tuple[Any, Any] | None = None,
    ) -> Self:
        """Learn both samples from scratch, in ``n_passes`` passes.

        Parameters
        ----------
        X_p : array-like or CSR matrix of shape (n_p, n_features)
            Sample of p; float32 is kept and used in computations, all other types become float64.
        X_q : array-like or CSR matrix of shape (n_q, n_features)
            Sample of q.
        callback : callable, default=None
            Called with a :class:`~mercer.estimators.Progress` every few thousand rows; stops the
            fit if it returns a true value.
        sample_weight : (weights_p, weights_q), default=None
            Weights of the rows of p, shape (n_p,), and of q, shape (n_q,); None in either place for
            equal weights. Only ratios of weights within a sample matter. A row of weight 0 is left
            out; an integer weight stands for that many equal rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid parameters or data, or if the kernel overflows; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large for the data; the model is unchanged.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X_p, X_q = rng.normal(size=(2000, 1)), rng.normal(size=(2000, 1))
        >>> weights = np.exp(X_p[:, 0])  # they make p the normal distribution about 1
        >>> model = DensityRatio(n_passes=10, random_state=0)
        >>> model = model.fit(X_p, X_q, sample_weight=(weights, None))
        >>> model.log_ratio([[-0.5], [1.5]]).round(0)  # exactly: -1, 1
        array([-1.,  1.])
        """
        return self._fit(Given(X_p, X_q, sample_weight), callback)

    def partial_fit(self, X_p: Any, X_q: Any) -> Self:
        """Learn more rows of both samples, in order, ``batch_size`` rows of each per step.

        The first call fixes all automatic choices on its rows: length scale, step size and
        tolerance. Start with some hundred typical rows, or give numbers. Which rows are held out
        depends only on their number in the stream, but a row that is alone of its sample in a call
        is always learned.

        Parameters
        ----------
        X_p : array-like or CSR matrix of shape (n_p, n_features)
            Rows of p.
        X_q : array-like or CSR matrix of shape (n_q, n_features)
            Rows of q. If one sample has fewer rows, they are repeated.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid parameters or data, or if the kernel overflows; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large for the data; the model is unchanged.
        """
        return self._partial_fit(Given(X_p, X_q, more=True))

    def _checked(self, given: Given, known: TwoSamples | None, plan: Plan) -> Data:
        """Check rows of both samples, hold some out, and label the others."""
        X_p, X_q = check_samples(self, given.X, given.y, reset=known is None)
        samples = weighted(X_p, X_q, given.sample_weight)
        if known is None:
            none = HeldOut.none(X_p.shape[1], X_p.dtype)
            known = TwoSamples((none, none), own_copy(as_divergence(self.f_divergence)))
        if given.more:
            X, y, weights, new = self._split(samples, known.held, rows_of_a_stream)
            in_turns = alternate(*places_of(y))
            X, y, weights = X[in_turns], y[in_turns], weights[in_turns]
        else:
            generator = check_random_state(self.random_state)

            def at_random(held: HeldOut, n: int, share: float) -> NDArray[np.int64]:
                n_held = min(max(round(share * n), int(share > 0.0)), n - 1, MOST_HELD_OUT)
                return np.sort(generator.permutation(n)[:n_held])

            X, y, weights, new = self._split(samples, known.held, at_random)
        places = places_of(y)

        def order(generator: np.random.RandomState, shuffle: bool) -> NDArray[np.int64]:
            return alternate(*(generator.permutation(p) if shuffle else p for p in places))

        return Data(X, y, weights, replace(known, held=new), order)

    def _split(
        self,
        samples: list[tuple[Any, Array | None]],
        held: tuple[HeldOut, HeldOut],
        choose: Callable[..., Any],
    ) -> tuple[Any, Array, Array, tuple[HeldOut, HeldOut]]:
        """Hold out rows of both samples; return the others, labels, weights, and those held."""
        learned, weights, new = [], [], []
        for (X, w), old in zip(samples, held, strict=True):
            n = X.shape[0]
            rows = choose(old, n, self.validation_fraction)
            rest = np.setdiff1d(np.arange(n), rows, assume_unique=True)
            new.append(old.extended(X[rows], n, None if w is None else w[rows]))
            learned.append(X[rest])
            # Normalised, so that the mean over the rows is the weighted mean.
            weights.append(np.ones(rest.size) if w is None else w[rest] / w[rest].mean())
        y = np.repeat([1.0, 0.0], [X.shape[0] for X in learned])[:, np.newaxis]
        return stacked(*learned), y, np.concatenate(weights), (new[0], new[1])

    def _check_fraction(self, plan: Plan) -> None:
        """Refuse an invalid ``validation_fraction``."""
        why = "It is the share of the rows that are not learned."
        fraction = self.validation_fraction
        check_real("validation_fraction", fraction, low=0.0, high=1.0, open_high=True, why=why)

    def _check_divergence(self, plan: Plan) -> None:
        """Refuse a divergence that is none."""
        as_divergence(self.f_divergence)

    _checks = (*TaskEstimator._checks, _check_fraction, _check_divergence)
    _n_samples = 2

    # -- answers --------------------------------------------------------------------------------

    def log_ratio(self, X: Any) -> Array:
        """Estimate log p(x)/q(x).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        log_ratio : ndarray of shape (n_samples,)
            At least -30 for divergences that learn the ratio itself, which may be 0, and at least
            ``-rho`` for :class:`~mercer.divergences.RelativeNovelty`, which stands for all below.
        """
        f = self.scores(X)[:, 0]
        return self.targets_.divergence.log_ratio(f)

    def ratio(self, X: Any) -> Array:
        """Estimate p(x)/q(x), for example to reweight a sample of q as one of p.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ratio : ndarray of shape (n_samples,)
            At least 0; at most e^30 for divergences that learn its logarithm; at least e^-rho for
            :class:`~mercer.divergences.RelativeNovelty`, which stands for all below.
        """
        f = self.scores(X)[:, 0]
        return self.targets_.divergence.ratio(f)

    def relative_novelty(self, X: Any, rho: float | None = None) -> Array:
        r"""Score rows of p that are rare or absent in q, the background.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.
        rho : float or None, default=None
            Rows have a score above 0 where log p(x)/q(x) is above ``-rho``. None is that of
            :class:`~mercer.divergences.RelativeNovelty` if it was learned, else 0.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            :math:`\max(0, \rho - \log\tau)` with :math:`\tau = q(x)/p(x)`. The mean over rows of p
            is the divergence of :class:`mercer.divergences.RelativeNovelty`.

        Raises
        ------
        ValueError
            If ``rho`` is above that of a relative novelty that was learned: the model does not know
            ratios that small.

        References
        ----------
        Smola, Song and Teo (2009), "Relative novelty detection", cited in DSG, Section 4.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> usual = rng.normal(size=(2000, 1))
        >>> today = np.r_[rng.normal(size=(1800, 1)), rng.normal(4.0, 0.3, size=(200, 1))]
        >>> model = DensityRatio(n_passes=5, random_state=0).fit(today, usual)
        >>> model.relative_novelty([[0.0], [2.0], [4.0]], rho=-1.0) > 0.0
        array([False, False,  True])
        """
        log_ratio, divergence = self.log_ratio(X), self.targets_.divergence
        most = divergence.rho if isinstance(divergence, RelativeNovelty) else np.inf
        if rho is None:
            rho = 0.0 if most == np.inf else most
        why = "It is a difference of log densities, known down to what was learned."
        return np.maximum(check_real("rho", rho, high=most, why=why) + log_ratio, 0.0)

    def divergence(
        self, X_p: Any, X_q: Any, *, sample_weight: tuple[Any, Any] | None = None
    ) -> float:
        r"""Estimate the divergence, KL(p‖q) in nats by default, from rows that were not learned.

        For KL the mean of f over rows of p, minus the mean of e^f over rows of q, plus 1; for
        others :meth:`mercer.divergences.Divergence.lower_bound`. For any f the expectation is at
        most the divergence, and closer the better f fits. On learned rows the estimate is too
        large.

        Parameters
        ----------
        X_p : array-like or CSR matrix of shape (n_p, n_features)
            Rows of p.
        X_q : array-like or CSR matrix of shape (n_q, n_features)
            Rows of q.
        sample_weight : (weights_p, weights_q), default=None
            Weights of the rows, as in :meth:`fit`.

        Returns
        -------
        divergence : float
            May be below 0 by chance, or if f fits badly.
        """
        f_p, f_q = self.scores(X_p)[:, 0], self.scores(X_q)[:, 0]
        (f_p, weights_p), (f_q, weights_q) = weighted(f_p, f_q, sample_weight)
        return self.targets_.divergence.lower_bound(f_p, f_q, weights_p, weights_q)

    @property
    def divergence_(self) -> float:
        """Estimate of the divergence, KL(p‖q) by default, from the held-out rows."""
        self._fitted()
        held_p, held_q = self.targets_.held
        if not (len(held_p.rows) and len(held_q.rows)):
            raise AttributeError(
                f"No rows of both samples were held out (validation_fraction="
                f"{self.validation_fraction!r}), so `divergence_` cannot be measured. Use "
                "`divergence(X_p, X_q)` with rows that were not learned."
            )
        with jobs(self.n_jobs):
            f_p, f_q = (self._evaluate(held.rows)[:, 0] for held in self.targets_.held)
        return self.targets_.divergence.lower_bound(f_p, f_q, held_p.weights, held_q.weights)

    def two_sample_test(self, X_p: Any, X_q: Any, n_permutations: int = 99) -> TwoSampleTest:
        """Test whether two samples come from the same distribution.

        The statistic is ``divergence_`` after a fit with this object's parameters. It is compared
        with the statistics of fits to the same rows, assigned to the samples at random: under the
        null hypothesis the rows are exchangeable. The test has its level for any parameters; its
        power depends on them. This object is not changed.

        Parameters
        ----------
        X_p : array-like of shape (n_p, n_features)
            Sample of p.
        X_q : array-like of shape (n_q, n_features)
            Sample of q.
        n_permutations : int, default=99
            Fits to permuted rows. The smallest possible p-value is 1 / (n_permutations + 1).

        Returns
        -------
        result : TwoSampleTest
            ``statistic``, ``p_value`` and ``null_statistics``.

        Raises
        ------
        ValueError
            For wrong parameters or data.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X_p, X_q = rng.normal(0.0, 1.0, (200, 1)), rng.normal(2.0, 1.0, (200, 1))
        >>> test = DensityRatio(validation_fraction=0.5, n_passes=3, random_state=0)
        >>> test.two_sample_test(X_p, X_q, n_permutations=19).p_value
        0.05
        """
        check_integer("n_permutations", n_permutations, low=1)
        model: DensityRatio = clone(self)
        model.check()
        if model.validation_fraction == 0.0:
            raise ValueError(
                "`validation_fraction` must be above 0 for a test, got 0: on rows that were "
                "learned, any two samples differ."
            )
        X_p, X_q = check_samples(model, X_p, X_q, reset=True)
        if min(X_p.shape[0], X_q.shape[0]) < 2:
            raise ValueError(
                "Each sample needs 2 rows at least, one to learn from and one to test on; got "
                f"{X_p.shape[0]} and {X_q.shape[0]}."
            )
        return permutation_test(model, X_p, X_q, n_permutations)


# -- two samples ----------------------------------------------------------------------------------


def stacked(X_p: Any, X_q: Any) -> Any:
    """Stack the rows of two samples, both dense or both sparse."""
    if isinstance(X_p, np.ndarray):
        return np.concatenate([X_p, X_q])
    return sparse.vstack([X_p, X_q], format="csr")


def check_samples(model: Any, X_p: Any, X_q: Any, *, reset: bool) -> tuple[Any, Any]:
    """Return both samples as arrays, or as sparse matrices, of one type."""
    checked = []
    for name, X, first in (("X_p", X_p, reset), ("X_q", X_q, False)):
        if X is None:
            raise ValueError(
                f"`{name}` is None. A ratio of densities is learned from two samples: pass "
                "the rows of p and the rows of q."
            )
        try:
            X = numeric_rows(
                model,
                X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                reset=first,
            )
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from error
        checked.append(X)
    dtype = np.result_type(*(X.dtype for X in checked))
    if len({isinstance(X, np.ndarray) for X in checked}) == 2:
        checked = [sparse.csr_array(X) for X in checked]
    X_p, X_q = (X.astype(dtype, copy=False) for X in checked)
    return X_p, X_q


def weighted(X_p: Any, X_q: Any, sample_weight: Any) -> list[tuple[Any, Array | None]]:
    """Return rows and weights of each sample, without weight 0; None if weights are equal.

    Raises
    ------
    ValueError
        If ``sample_weight`` is not a pair of weights that fit the rows.
    """
    if sample_weight is None:
        return [(X_p, None), (X_q, None)]
    if not isinstance(sample_weight, tuple | list) or len(sample_weight) != 2:
        raise ValueError(
            "`sample_weight` must be a pair (weights_p, weights_q), one array for the rows of each "
            f"sample, with None for equal weights; got {type(sample_weight).__name__}."
        )
    samples: list[tuple[Any, Array | None]] = []
    for name, X, given in zip("pq", (X_p, X_q), sample_weight, strict=True):
        try:
            weights = check_weights(given, X.shape[0], some=True)
        except ValueError as error:
            raise ValueError(f"Of sample {name}: {error}") from error
        if (weights == weights[0]).all():
            samples.append((X, None))
        else:
            samples.append((X[weights > 0.0], weights[weights > 0.0]))
    return samples


def places_of(y: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the rows of p and of the rows of q."""
    from_p = y[:, 0] > 0.5
    return np.flatnonzero(from_p), np.flatnonzero(~from_p)


def alternate(p: NDArray[np.int64], q: NDArray[np.int64]) -> NDArray[np.int64]:
    """Alternate rows of p and q, repeating the smaller sample, so batches hold equal numbers."""
    n = max(p.size, q.size)
    return np.column_stack([np.resize(p, n), np.resize(q, n)]).ravel()


def permutation_test(model: Any, X_p: Any, X_q: Any, n_permutations: int) -> TwoSampleTest:
    """Compare ``divergence_`` of two samples with its values for random splits of their rows.

    The original split counts as one of the permutations, and a tie counts as at least as large. So
    the p-value is valid for any number of permutations.

    Parameters
    ----------
    model : DensityRatio
        Refitted for each permutation; its ``random_state`` seeds everything.
    X_p, X_q : ndarray or CSR matrix
        The samples, checked.
    n_permutations : int
        Number of permutations, besides the original split.
    """
    rows, n_p = stacked(X_p, X_q), X_p.shape[0]
    generator = check_random_state(model.random_state)
    statistics = np.empty(1 + n_permutations)
    for i in range(statistics.size):
        order = generator.permutation(rows.shape[0]) if i else np.arange(rows.shape[0])
        # A new seed for each fit keeps hold-outs and shuffles exchangeable, too.
        model.set_params(random_state=int(generator.randint(2**31 - 1)))
        statistics[i] = model.fit(rows[order[:n_p]], rows[order[n_p:]]).divergence_
    p_value = float(np.mean(statistics >= statistics[0]))
    return TwoSampleTest(float(statistics[0]), p_value, statistics[1:])
