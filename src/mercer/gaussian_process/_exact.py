"""Exact posteriors from streaming sums: on fixed features, or on a dictionary of inducing points.

The points are chosen from the first rows of a stream and then fixed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mercer.component import Component
from mercer.features import FeatureOptions
from mercer.functions.feature_blocks import FeatureBlocks
from mercer.kernels import Kernel
from mercer.numerics.dense import solve_triangle
from mercer.records import Numbers, Part, Passing, Record, Recorded
from mercer.sums import (
    CENTERS,
    KernelBasis,
    Rows,
    Statistics,
    WeightPosterior,
    check_alike,
    choose_centers,
    factor_ridge,
    weight_posterior,
)
from mercer.validation import choice, integer, or_auto, parameters, real

Array = NDArray[np.float64]

_FEWEST, _MOST = 2_000, 30_000  # limits of the automatic number of first rows


class FeatureSource(Protocol):
    """Features of rows whose inner products equal, or approximate, a kernel."""

    kernel: Kernel

    @property
    def block_size(self) -> int:
        """Number of features M."""
        ...

    def prepare(self, X: Array) -> tuple[Any, ...]:
        """Return arrays for the same number of rows; ValueError outside the kernel's domain."""
        ...

    def of(self, prepared: tuple[Any, ...], number: int = 0) -> Array:
        """Return a new C-ordered array of features of prepared rows, shape (n, M)."""
        ...


class FeaturePosterior(Passing, Recorded):
    r"""Gaussian process whose kernel is :math:`z(x)^T z(x')` for M features.

    The posterior is exact for that kernel. For random features it is a Monte Carlo estimate of the
    posterior of the intended kernel, with an error that falls like :math:`1 / \sqrt{M}`. Memory is
    M²/2 numbers, and M² more to predict, for any number of rows, which may come in any number of
    calls.

    Parameters
    ----------
    blocks : FeatureSource
        Features; block 0 is used.
    n_targets : int
        Number of targets.
    noise : float
        Variance of the noise.
    normalize : bool
        Whether to subtract the mean of the targets and divide by their standard deviation.
    chunk : int
        Number of rows processed at a time.
    """

    _passing: ClassVar[dict[str, Any]] = {"_solved": None}
    _record = Record(statistics=Part(Statistics, "n_features", "n_targets"))

    def __init__(
        self, blocks: FeatureSource, n_targets: int, noise: float, normalize: bool, chunk: int
    ) -> None:
        self.blocks = blocks
        self.noise = noise
        self.normalize = normalize
        self.chunk = chunk
        self.statistics = Statistics(blocks.block_size, n_targets)
        self._solved: tuple[WeightPosterior, float, Array, Array] | None = None

    @property
    def n_rows(self) -> int:
        """Rows learned, without rows of weight 0."""
        return self.statistics.n_rows

    def learn(self, X: Array, targets: Array, weights: Array) -> None:
        """Add rows; all of them or, if an error occurs, none.

        Parameters
        ----------
        X : ndarray of shape (n, n_inputs)
            Inputs.
        targets : ndarray of shape (n, n_targets)
            Targets.
        weights : ndarray of shape (n,)
            Weights, at least 0: the noise of a row is ``noise / weight``.

        Raises
        ------
        ValueError
            For inputs outside the kernel's domain or features that are not finite.
        """
        used = weights > 0.0
        if not used.all():
            X, targets, weights = X[used], targets[used], weights[used]
        if weights.size == 0:
            return
        prepared = self.blocks.prepare(X)
        several = weights.size > self.chunk
        statistics = self.statistics.copy() if several else self.statistics
        origin = statistics.origin
        if self.normalize and statistics.n_rows == 0:
            origin = np.average(targets, axis=0, weights=weights)
        for start in range(0, weights.size, self.chunk):
            rows = slice(start, start + self.chunk)
            Z = self.blocks.of(tuple(part[rows] for part in prepared))
            if not np.isfinite(Z).all():
                raise ValueError(
                    f"Features of {self.blocks.kernel!r} are not finite on these rows, "
                    f"whose largest input is {float(np.abs(X[rows]).max()):.3g}. Rescale the "
                    "inputs, for example with sklearn.preprocessing.StandardScaler."
                )
            statistics.origin = origin
            statistics.add(Z, targets[rows], weights[rows])
        self.statistics, self._solved = statistics, None

    def merge(self, other: FeaturePosterior) -> None:
        """Add the rows of another posterior, which is not changed; this one keeps its noise.

        Parameters
        ----------
        other : FeaturePosterior
            Posterior with the same features, number of targets and normalisation.

        Raises
        ------
        ValueError
            If these differ; then neither posterior is changed.
        """
        if self.blocks != other.blocks:
            raise ValueError(
                f"Posteriors on other features cannot be merged: {_named(self.blocks)} and "
                f"{_named(other.blocks)}. Make both with the same kernel, features and seed, or on "
                "the same inducing points."
            )
        check_alike(
            "`normalize`",
            self.normalize,
            other.normalize,
            "Normalise the targets of both, or none.",
        )
        statistics = self.statistics.copy()
        statistics.merge(other.statistics)
        self.statistics, self._solved = statistics, None

    def emptied(self) -> Self:
        """Return the same model without rows, to learn rows elsewhere."""
        n_targets = self.statistics.products.shape[1]
        return type(self)(self.blocks, n_targets, self.noise, self.normalize, self.chunk)

    def mean(self, X: Array) -> Array:
        """Posterior means, shape (n, n_targets)."""
        posterior, _, mean, scale = self.solution()
        return self.by_chunks(X, lambda Z: Z @ posterior.mean) * scale + mean

    def variance(self, X: Array) -> Array:
        """Posterior variances of the function without noise, shape (n, n_targets)."""
        posterior, _, _, scale = self.solution()
        return np.outer(self.by_chunks(X, posterior.variances), scale**2)

    def covariance(self, X: Array) -> Array:
        """Posterior covariances between rows, shape (n, n, n_targets)."""
        posterior, _, _, scale = self.solution()
        covariance = posterior.covariance(self.features(X))
        return np.multiply.outer(covariance, scale**2)

    def sample(self, X: Array, n_samples: int, generator: np.random.RandomState) -> Array:
        """Values of functions drawn from the posterior, shape (n, n_targets, n_samples)."""
        weights = self.draw(n_samples, generator)
        values = self.by_chunks(X, lambda Z: Z @ weights)
        return self.in_units(values, n_samples)

    def draw(self, n_samples: int, generator: np.random.RandomState) -> Array:
        """Weights drawn from their posterior, shape (n_features, n_targets * n_samples)."""
        posterior = self.solution()[0]
        M, C = posterior.mean.shape
        deviations = posterior.draw(generator.standard_normal((M, C * n_samples)))
        return np.repeat(posterior.mean, n_samples, axis=1) + deviations

    def in_units(self, values: Array, n_samples: int) -> Array:
        """Return values of drawn functions, (n, n_targets * n_samples), in units of the targets.

        Returns
        -------
        values : ndarray of shape (n, n_targets, n_samples)
        """
        mean, scale = self.normalization()
        scaled: Array = values.reshape(-1, scale.size, n_samples) * scale[:, np.newaxis]
        return scaled + mean[:, np.newaxis]

    def log_marginal_likelihood(self, noise: float | None = None) -> float:
        """Return the log density of the learned targets, for this or another noise."""
        return self.solution(noise)[1]

    def effective_dimension(self) -> float:
        """Return the number of features that the data determine, between 0 and M."""
        return self.solution()[0].effective_dimension()

    def features(self, X: Array) -> Array:
        """Features of rows, shape (n, n_features)."""
        return self.blocks.of(self.blocks.prepare(X))

    @property
    def size(self) -> int:
        """Number of features."""
        return self.blocks.block_size

    @property
    def coefficients(self) -> Array:
        """Weights of the posterior mean, in units of the targets, (n_features, n_targets)."""
        posterior, _, _, scale = self.solution()
        return posterior.mean * scale

    def normalization(self) -> tuple[Array, Array]:
        """Mean and scale of the targets; 0 and 1 unless they are normalised."""
        if self.normalize:
            return self.statistics.normalization()
        n_targets = self.statistics.products.shape[1]
        return np.zeros(n_targets), np.ones(n_targets)

    def set_noise(self, noise: float) -> None:
        """Change the noise; the sums do not depend on it."""
        if noise != self.noise:
            self.noise, self._solved = noise, None

    def solution(self, noise: float | None = None) -> tuple[WeightPosterior, float, Array, Array]:
        """Return the posterior of the weights, log likelihood, mean and scale of the targets.

        Parameters
        ----------
        noise : float, default=None
            Noise to use in place of the model's.
        """
        if noise is not None and noise != self.noise:
            mean, scale = self.normalization()
            return *weight_posterior(self.statistics, noise, mean, scale), mean, scale
        # Computed once for all learned rows, on request.
        if self._solved is None:
            mean, scale = self.normalization()
            self._solved = *weight_posterior(self.statistics, self.noise, mean, scale), mean, scale
        return self._solved

    def by_chunks(self, X: Array, function: Callable[[Array], Array]) -> Array:
        """Return a function of the features of rows, computed for some rows at a time."""
        prepared = self.blocks.prepare(X)
        parts = [
            function(self.blocks.of(tuple(part[start : start + self.chunk] for part in prepared)))
            for start in range(0, X.shape[0], self.chunk)
        ]
        return np.concatenate(parts)


def _named(features: FeatureSource) -> str:
    return f"{features.block_size:,} of {features.kernel!r}"


def _check_first_rows(points: InducingPoints) -> None:
    or_auto(integer(low=points.size))("first_rows", points.first_rows)


class InducingPoints(Component):
    """A dictionary of inducing points, chosen from the first rows and then fixed.

    The first rows are kept until there are enough to choose the points; afterwards only sums over
    the rows are kept, which take ``size``² numbers. Until then predictions use points chosen from
    the rows so far: all of them, up to ``size`` rows, which is the exact Gaussian process.

    Parameters
    ----------
    size : int, default=1000
        Largest number of inducing points.
    centers : {"kmeans", "uniform", "leverage"}, default="kmeans"
        How points are chosen: means of clusters of the first rows, rows drawn at random, or rows
        drawn by their ridge leverage (:func:`mercer.sums.choose_centers`).
    first_rows : int or "auto", default="auto"
        Number of rows from which points are chosen, at least ``size``. "auto" is five times
        ``size``, between 2,000 and 30,000 if ``size`` allows.

    Raises
    ------
    ValueError
        For values out of range.

    References
    ----------
    J. Quiñonero-Candela, C. E. Rasmussen, A unifying view of sparse approximate Gaussian process
    regression, JMLR 2005, for the posterior. M. K. Titsias, Variational learning of inducing
    variables in sparse Gaussian processes, AISTATS 2009, for the marginal likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GaussianProcessRegressor
    >>> from mercer.gaussian_process import InducingPoints
    >>> from mercer.kernels import Gaussian
    >>> x = np.linspace(-3, 3, 50)[:, None]
    >>> model = GaussianProcessRegressor(
    ...     Gaussian(1.0), noise=0.01, method=InducingPoints(12), random_state=0
    ... )
    >>> mean, std = model.fit(x, np.sin(x[:, 0])).predict([[1.0], [9.0]], return_std=True)
    >>> mean.round(1) + 0.0, std.round(1)
    (array([0.8, 0. ]), array([0., 1.]))
    >>> model.model_order_
    12
    """

    _parameters = parameters(size=integer(low=1), centers=choice(*CENTERS))
    _relations = (_check_first_rows,)

    def __init__(
        self, size: int = 1000, centers: str = "kmeans", first_rows: int | str = "auto"
    ) -> None:
        self.size = size
        self.centers = centers
        self.first_rows = first_rows
        self._check()

    @property
    def n_first_rows(self) -> int:
        """Number of rows from which the points are chosen."""
        if isinstance(self.first_rows, str):
            return max(self.size, min(max(5 * self.size, _FEWEST), _MOST))
        return int(self.first_rows)


class InducingFeatures:
    r"""Features :math:`z(x) = L^{-1} k(D, x)` with :math:`LL^T = k(D, D)` for a dictionary D.

    Their inner products are :math:`q(x, x') = k(x, D) k(D, D)^{-1} k(D, x')`, the part of the
    kernel that functions on D represent: k itself if x or x' is in D, otherwise at most k.

    Parameters
    ----------
    kernel : Kernel
        Kernel with its numbers resolved.
    points : ndarray of shape (n_points, n_inputs)
        Dictionary, in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> features = InducingFeatures(Gaussian(1.0), np.array([[0.0], [1.0]]))
    >>> Z = features.of(features.prepare(np.array([[0.0], [9.0]])))
    >>> (Z @ Z.T).round(9) + 0.0
    array([[1., 0.],
           [0., 0.]])
    """

    def __init__(self, kernel: Kernel, points: Array) -> None:
        self.kernel = kernel
        self.basis = KernelBasis(kernel, points)
        # Jitter amounts to a little noise at the points: the result is still a part of the kernel.
        self._lower = factor_ridge(self.basis.penalty(), 0.0).lower

    def __eq__(self, other: object) -> bool:
        """Return whether kernel and points are equal."""
        return isinstance(other, InducingFeatures) and self.basis == other.basis

    __hash__ = None  # type: ignore[assignment]

    @property
    def points(self) -> Array:
        """Dictionary, shape (n_points, n_inputs)."""
        return np.asarray(self.basis.points, dtype=np.float64)

    @property
    def block_size(self) -> int:
        """Number of points, and of features."""
        return self.basis.size

    def prepare(self, X: Array) -> tuple[Array]:
        """Rows, C-ordered, in float64."""
        return (np.ascontiguousarray(X, dtype=np.float64),)

    def of(self, prepared: tuple[Array], number: int = 0) -> Array:
        """Return features of prepared rows, shape (n, n_points); there is only one block."""
        return self.whiten(self.basis.features(prepared[0]).T).T

    def whiten(self, values: Any) -> Array:
        """Weights in z of the functions with given values at the points: L⁻¹ values."""
        return solve_triangle(self._lower, values)

    def coefficients(self, weights: Array) -> Array:
        """Coefficients of the kernel functions at the points for weights in z: L'⁻¹ weights."""
        return solve_triangle(self._lower, weights, transposed=True)


@dataclass
class _Sums:
    """Sums over the rows, on the features of a dictionary.

    Attributes
    ----------
    features : InducingFeatures
        Features of the dictionary.
    posterior : FeaturePosterior
        Posterior on these features.
    prior_sum : float
        Sum of w k(x, x) over the rows.
    """

    features: InducingFeatures
    posterior: FeaturePosterior
    prior_sum: float = 0.0

    def learn(self, rows: Rows) -> None:
        """Add rows; all of them or, if an error occurs, none."""
        prior = self.features.kernel.diag(rows.X)
        self.posterior.learn(rows.X, rows.targets, rows.weights)
        self.prior_sum += float(rows.weights @ prior)

    def copy(self) -> _Sums:
        """Return an independent copy."""
        alone = self.posterior.emptied()
        alone.statistics = self.posterior.statistics.copy()
        return _Sums(self.features, alone, self.prior_sum)

    def merge(self, other: _Sums) -> None:
        """Add the rows of other sums on the same dictionary."""
        self.posterior.merge(other.posterior)
        self.prior_sum += other.prior_sum


_STORED = Record(
    points=Numbers("n_points", "n_inputs"),
    prior_sum=real(low=0.0),
    statistics=Part(Statistics, "n_targets", n_features="n_points"),
)


class DictionaryPosterior(Passing):
    r"""Sparse Gaussian process whose dictionary is chosen from the first rows.

    The likelihood depends only on the values of the function at the dictionary: its kernel is
    :math:`q(x, x')` of :class:`InducingFeatures` (deterministic training conditional, projected
    process). In predictions the remaining part k - q, about which rows carry no information, keeps
    its prior, so that far from the dictionary the prior returns. Mean and variance also equal those
    of the variational posterior, and :meth:`log_marginal_likelihood` is its bound.

    The result for a stream depends on its rows and their order, not on how calls cut it.

    Parameters
    ----------
    method : InducingPoints
        How the dictionary is chosen.
    kernel : Kernel
        Kernel with its numbers resolved.
    n_targets : int
        Number of targets.
    noise : float
        Variance of the noise.
    normalize : bool
        Whether to subtract the mean of the targets and divide by their standard deviation.
    chunk : int
        Number of rows processed at a time.
    seed : int
        Seed for the choice of the dictionary.
    n_features : int
        Number of random features used for samples.
    design : str
        How they are drawn.

    References
    ----------
    J. Quiñonero-Candela, C. E. Rasmussen, A unifying view of sparse approximate Gaussian process
    regression, JMLR 2005, Section 5. M. K. Titsias, Variational learning of inducing variables in
    sparse Gaussian processes, AISTATS 2009, Section 3. J. T. Wilson et al., Efficiently sampling
    functions from Gaussian process posteriors, ICML 2020, for :meth:`sample`.
    """

    _passing: ClassVar[dict[str, Any]] = {"_provisional": None}

    def __init__(
        self,
        method: InducingPoints,
        kernel: Kernel,
        n_targets: int,
        *,
        noise: float,
        normalize: bool,
        chunk: int,
        seed: int,
        n_features: int,
        design: str,
    ) -> None:
        self.method = method
        self.kernel = kernel
        self.n_targets = n_targets
        self.noise = noise
        self.normalize = normalize
        self.chunk = chunk
        self.seed = seed
        self.n_features = n_features
        self.design = design
        # The first rows, until sums replace them.
        self._first: Rows | None = None
        self._fixed: _Sums | None = None
        self._provisional: _Sums | None = None

    @property
    def n_rows(self) -> int:
        """Rows learned, without rows of weight 0."""
        if self._fixed is not None:
            return self._fixed.posterior.n_rows
        return 0 if self._first is None else len(self._first)

    def learn(self, X: Array, targets: Array, weights: Array) -> None:
        """Add rows; see :meth:`FeaturePosterior.learn`."""
        used = weights > 0.0
        if not used.any():
            return
        new = Rows(X[used], targets[used], weights[used])
        self._check_rows(new.X)
        if self._fixed is not None:
            self._fixed.learn(new)
            return
        self._wait([new] if self._first is None else [self._first, new])

    def _wait(self, rows: list[Rows]) -> None:
        """Keep all rows so far, or choose the dictionary once there are enough first rows."""
        new, n_first = Rows.joined(rows), self.method.n_first_rows
        if len(new) < n_first:
            self._first, self._provisional = new, None
            return
        fixed = self._start(new[:n_first])
        if len(new) > n_first:
            fixed.learn(new[n_first:])
        self._first, self._provisional, self._fixed = None, None, fixed

    def merge(self, other: DictionaryPosterior) -> None:
        """Add the rows of another posterior, which is not changed; this one keeps its noise.

        They count as earlier than the rows of this posterior. First rows that wait for a dictionary
        are merged, too; if both dictionaries are chosen, they must be equal.

        Parameters
        ----------
        other : DictionaryPosterior
            Posterior with the same kernel, method, number of targets and normalisation.

        Raises
        ------
        ValueError
            If these, or the dictionaries, differ; then neither posterior is changed.
        """
        for name in ("kernel", "method", "n_targets", "normalize"):
            check_alike(
                f"`{name}`",
                getattr(self, name),
                getattr(other, name),
                "Make both with the same settings.",
            )
        if other._fixed is None and other._first is None:
            return
        if self._fixed is None and other._fixed is None:
            self._wait([rows for rows in (other._first, self._first) if rows is not None])
            return
        theirs = other._fixed
        if self._fixed is None:
            assert theirs is not None
            fixed = theirs.copy()
            fixed.posterior.set_noise(self.noise)
            if self._first is not None:
                fixed.learn(self._first)
        else:
            fixed = self._fixed.copy()
            if theirs is not None:
                fixed.merge(theirs)
            elif other._first is not None:
                fixed.learn(other._first)
        self._first, self._provisional, self._fixed = None, None, fixed

    def fix(self) -> None:
        """Choose the dictionary now, from the rows so far, however few."""
        self._first, self._provisional, self._fixed = None, None, self._sums()

    def emptied(self) -> Self:
        """Return the same model without rows, on the same dictionary if it is chosen."""
        alone = copy.copy(self)
        alone._first = alone._provisional = None
        if self._fixed is not None:
            sums = self._fixed
            alone._fixed = _Sums(sums.features, sums.posterior.emptied())
        return alone

    def _check_rows(self, X: Array) -> None:
        values = self.kernel(X, X[:1])[:, 0] + self.kernel.diag(X)
        if not np.isfinite(values).all():
            raise ValueError(
                f"Values of {self.kernel!r} are not finite on these rows, whose largest input is "
                f"{float(np.abs(X).max()):.3g}. Rescale the inputs, for example with "
                "sklearn.preprocessing.StandardScaler."
            )

    def _start(self, rows: Rows) -> _Sums:
        """Choose a dictionary from rows, and learn them on it."""
        points = choose_centers(
            rows.X, self.method.size, self.method.centers, kernel=self.kernel, seed=self.seed
        )
        sums = self._on(points.astype(np.float64, copy=False))
        sums.learn(rows)
        return sums

    def _on(self, points: Array) -> _Sums:
        features = InducingFeatures(self.kernel, points)
        return _Sums(
            features,
            FeaturePosterior(features, self.n_targets, self.noise, self.normalize, self.chunk),
        )

    def _sums(self) -> _Sums:
        """Return the sums over all rows learned."""
        if self._fixed is not None:
            return self._fixed
        # Computed once for all learned rows, on request.
        if self._provisional is None:
            assert self._first is not None  # nobody asks before there are rows
            self._provisional = self._start(self._first)
        return self._provisional

    @property
    def posterior(self) -> FeaturePosterior:
        """Posterior on the features of the dictionary."""
        return self._sums().posterior

    @property
    def features(self) -> InducingFeatures:
        """Features of the dictionary."""
        return self._sums().features

    def mean(self, X: Array) -> Array:
        """Posterior means, shape (n, n_targets), by the kernel itself: M operations a row."""
        mean, chunk = self.posterior.normalization()[0], self.posterior.chunk
        coefficients = self.coefficients
        parts = [
            self.features.basis.features(X[start : start + chunk]) @ coefficients
            for start in range(0, X.shape[0], chunk)
        ]
        return np.concatenate(parts) + mean

    def variance(self, X: Array) -> Array:
        """Posterior variances of the function without noise, shape (n, n_targets)."""
        weights, _, _, scale = self.posterior.solution()
        known, held = self.posterior.by_chunks(
            X, lambda Z: np.column_stack([weights.variances(Z), np.sum(Z**2, axis=1)])
        ).T
        # Next to a point k - q is the rounding error of either.
        rest = np.maximum(self.features.kernel.diag(X) - held, 0.0)
        return np.outer(known + rest, scale**2)

    def covariance(self, X: Array) -> Array:
        """Posterior covariances between rows, shape (n, n, n_targets)."""
        weights, _, _, scale = self.posterior.solution()
        Z = self.posterior.features(X)
        rest = np.asarray(self.features.kernel(X), dtype=np.float64) - Z @ Z.T
        diagonal = np.einsum("ii->i", rest)
        np.maximum(diagonal, 0.0, out=diagonal)
        return np.multiply.outer(weights.covariance(Z) + rest, scale**2)

    def sample(
        self,
        X: Array,
        n_samples: int,
        generator: np.random.RandomState,
    ) -> Array:
        r"""Values of functions drawn from the posterior, shape (n, n_targets, n_samples).

        A function of the prior, g, made of random features, is corrected to have values at the
        dictionary that are drawn from the posterior: :math:`g(x) + z(x)^T (w - L^{-1} g(D))`. So
        random features stand for the part k - q only, and one function is drawn for all x.

        Parameters
        ----------
        X : ndarray of shape (n, n_inputs)
            Inputs.
        n_samples : int
            Number of functions.
        generator : RandomState
            Source of randomness.

        Raises
        ------
        ValueError
            If the kernel has no random features.
        """
        kernel, points = self.features.kernel, self.features.points
        weights = self.posterior.draw(n_samples, generator)
        try:
            blocks = FeatureBlocks(
                kernel,
                points.shape[1],
                self.n_features,
                int(generator.randint(2**31)),
                FeatureOptions(paired=True, design=self.design),
            )
        except ValueError as error:
            raise ValueError(
                "A sample needs random features, for the part of the function that the dictionary "
                f"does not hold. {error} `predict(X, return_cov=True)` needs none: values at few "
                "rows can be drawn from that normal distribution."
            ) from error
        normals = generator.standard_normal((self.n_features, weights.shape[1]))

        def of_prior(rows: Array) -> Array:
            values = np.zeros((rows.shape[0], weights.shape[1]))
            blocks.add(blocks.prepare(rows), 0, normals, values)
            return values

        correction = weights - self.features.whiten(of_prior(points))
        values = self.posterior.by_chunks(X, lambda Z: Z @ correction)
        return self.posterior.in_units(values + of_prior(X), n_samples)

    def log_marginal_likelihood(self, noise: float | None = None) -> float:
        r"""Titsias' lower bound of the log density of the targets learned.

        It is the density of the projected process, :math:`\log N(y | 0, Q + \Sigma)`, minus
        :math:`\frac12 \mathrm{tr}\,\Sigma^{-1} (K - Q)` for each target (Titsias, Section 3), with
        :math:`\Sigma` the noise of the rows. The density of the projected process alone may exceed
        that of the kernel itself, so a larger value of it does not mean a better model.

        Parameters
        ----------
        noise : float, default=None
            Noise to use in place of the model's.
        """
        weights, log_likelihood, _, scale = self.posterior.solution(noise)
        held = float(np.trace(self.posterior.statistics.gram))
        rest = max(self._sums().prior_sum - held, 0.0)
        return log_likelihood - 0.5 * scale.size * rest / weights.noise

    @property
    def coefficients(self) -> Array:
        """Coefficients of the mean on the dictionary, in units of the targets."""
        return self.features.coefficients(self.posterior.coefficients)

    def effective_dimension(self) -> float:
        """Return the number of directions that the data determine, between 0 and the points'."""
        return self.posterior.effective_dimension()

    def normalization(self) -> tuple[Array, Array]:
        """Mean and scale of the targets; 0 and 1 unless they are normalised."""
        return self.posterior.normalization()

    @property
    def dictionary(self) -> Array:
        """Inducing points, shape (n_points, n_inputs)."""
        return self.features.points

    @property
    def size(self) -> int:
        """Number of inducing points."""
        return self.features.block_size

    def set_noise(self, noise: float) -> None:
        """Take another noise; the sums do not depend on it."""
        self.noise = noise
        for sums in (self._fixed, self._provisional):
            if sums is not None:
                sums.posterior.set_noise(noise)

    def to_state(self) -> dict[str, Any]:
        """Return what learning changes, as plain data: the first rows, or points and sums."""
        sums = self._fixed
        if sums is None:
            assert self._first is not None  # a fitted model has rows
            return self._first.to_state()
        return _STORED.written_of(
            {
                "points": sums.features.points,
                "prior_sum": sums.prior_sum,
                "statistics": sums.posterior.statistics,
            }
        )

    def restore(self, state: dict[str, Any], n_inputs: int) -> None:
        """Inverse of :meth:`to_state`; ValueError if it does not fit."""
        self._first = self._fixed = self._provisional = None
        if "points" not in state:
            first = Rows.from_state(state, n_features=n_inputs, n_targets=self.n_targets)
            if not 0 < len(first) < self.method.n_first_rows:
                raise ValueError("the number of first rows is out of its range")
            if first.X.dtype != np.float64:
                raise ValueError("the first rows are not in double precision")
            if not (first.weights > 0.0).all():
                raise ValueError("the weights of the first rows are out of their range")
            self._first = first
            return
        values = _STORED.read(state, {"n_inputs": n_inputs, "n_targets": self.n_targets})
        if not 0 < len(values["points"]) <= self.method.size:
            raise ValueError("the dictionary is larger than it may be, or empty")
        self._fixed = self._on(values["points"])
        self._fixed.posterior.statistics = values["statistics"]
        self._fixed.prior_sum = values["prior_sum"]
