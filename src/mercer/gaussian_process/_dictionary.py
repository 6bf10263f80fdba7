"""Sparse Gaussian processes on a dictionary that is chosen from the first rows of a stream."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.features import FeatureOptions
from mercer.functions.feature_blocks import FeatureBlocks
from mercer.gaussian_process._features import FeaturePosterior
from mercer.gaussian_process._inducing import InducingFeatures, InducingPoints
from mercer.kernels import Kernel
from mercer.sums import Rows, check_alike, choose_centers

__all__ = ["DictionaryPosterior"]

Array = NDArray[np.float64]


@dataclass
class _Sums:
    """What is known of the rows through a dictionary.

    Attributes
    ----------
    features : InducingFeatures
        Of the dictionary.
    posterior : FeaturePosterior
        On them.
    prior_sum : float
        Of w k(x, x) over the rows.
    """

    features: InducingFeatures
    posterior: FeaturePosterior
    prior_sum: float = 0.0

    def learn(self, rows: Rows) -> None:
        """Add rows; all of them or, after an error, none."""
        prior = self.features.kernel.diag(rows.X)
        self.posterior.learn(rows.X, rows.targets, rows.weights)
        self.prior_sum += float(rows.weights @ prior)

    def copy(self) -> _Sums:
        """Copy that learns by itself."""
        alone = self.posterior.emptied()
        alone.statistics = self.posterior.statistics.copy()
        return _Sums(self.features, alone, self.prior_sum)

    def merge(self, other: _Sums) -> None:
        """Add the rows of others on the same dictionary."""
        self.posterior.merge(other.posterior)
        self.prior_sum += other.prior_sum


class DictionaryPosterior:
    r"""Sparse Gaussian process whose dictionary is chosen once the first rows are there.

    Rows are seen through the values of the function at the dictionary: the likelihood knows
    :math:`q(x, x')` of :class:`InducingFeatures` (deterministic training conditional, projected
    process). In predictions the part k - q, of which no row says anything, keeps its prior, so that
    far from the dictionary the prior comes back. Mean and variance are those of the variational
    posterior, too, and :meth:`log_marginal_likelihood` is its bound.

    What comes of a stream depends on its rows and their order, not on the calls that brought them.

    Parameters
    ----------
    method : InducingPoints
        How the dictionary is chosen.
    kernel : Kernel
        With its numbers resolved.
    n_targets : int
        Number of targets.
    noise : float
        Variance of the noise.
    normalize : bool
        Whether the model is of the targets less their mean and over their standard deviation.
    chunk : int
        Rows at a time.
    seed : int
        Of the choice of the dictionary.
    n_features : int
        Random features of samples.
    design : str
        How they are drawn.

    References
    ----------
    J. Quiñonero-Candela, C. E. Rasmussen, A unifying view of sparse approximate Gaussian process
    regression, JMLR 2005, Section 5. M. K. Titsias, Variational learning of inducing variables in
    sparse Gaussian processes, AISTATS 2009, Section 3. J. T. Wilson et al., Efficiently sampling
    functions from Gaussian process posteriors, ICML 2020, for :meth:`sample`.
    """

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
        # The first rows; then the sums, and they are gone.
        self._first: Rows | None = None
        self._fixed: _Sums | None = None
        self._provisional: _Sums | None = None

    @property
    def n_rows(self) -> int:
        """Rows learned, those of weight 0 left out."""
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
        """Keep all rows so far; or, once there are enough, choose the dictionary from the first."""
        new, n_first = Rows.joined(rows), self.method.n_first_rows
        if len(new) < n_first:
            self._first, self._provisional = new, None
            return
        fixed = self._start(new[:n_first])
        if len(new) > n_first:
            fixed.learn(new[n_first:])
        self._first, self._provisional, self._fixed = None, None, fixed

    def merge(self, other: DictionaryPosterior) -> None:
        """Add the rows of another posterior, which stays as it is; the noise stays, too.

        They count as having come before this one's. First rows that wait for a dictionary are
        merged, too; two dictionaries that are chosen need to be the same.

        Parameters
        ----------
        other : DictionaryPosterior
            With the same kernel and method, of as many targets, normalised alike.

        Raises
        ------
        ValueError
            If these differ, or the dictionaries; neither posterior has changed then.
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

    def emptied(self) -> Self:
        """Return the same model on the same dictionary, if it is chosen, of no rows."""
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
        # Once for all rows learned, when somebody asks.
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

        It is that of the projected process, :math:`\log N(y | 0, Q + \Sigma)`, less
        :math:`\frac12 \mathrm{tr}\,\Sigma^{-1} (K - Q)` for each target (Titsias, Section 3),
        with :math:`\Sigma` the noise of the rows. The density of the projected process alone may be
        larger than that of the kernel's own: more of it does not mean a better model.

        Parameters
        ----------
        noise : float, default=None
            Another noise than that of the model.
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

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_provisional": None}

    def snapshot(self) -> dict[str, Any]:
        """Return what learning changes, as plain data: the first rows, or points and sums."""
        sums = self._fixed
        if sums is None:
            assert self._first is not None  # a fitted model has rows
            return self._first.to_state()
        points, prior_sum = sums.features.points, sums.prior_sum
        return {"points": points, "prior_sum": prior_sum, **sums.posterior.snapshot()}

    def restore(self, state: dict[str, Any], n_inputs: int) -> None:
        """Inverse of :meth:`snapshot`; ValueError if it does not fit."""
        self._first = self._fixed = self._provisional = None
        if "points" not in state:
            # Of the first files with "rows" for their inputs.
            first = Rows.from_state({"X" if key == "rows" else key: state[key] for key in state})
            if not 0 < len(first) < self.method.n_first_rows:
                raise ValueError("the number of first rows is out of its range")
            sizes = first.X.shape[1], first.targets.shape[1]
            if sizes != (n_inputs, self.n_targets) or first.X.dtype != np.float64:
                raise ValueError("the first rows are of the wrong shape")
            if not (first.weights > 0.0).all():
                raise ValueError("the weights of the first rows are out of their range")
            self._first = first
            return
        points = state["points"]
        if not 0 < len(points) <= self.method.size:
            raise ValueError("the dictionary is larger than it may be, or empty")
        shape = (len(points), n_inputs)
        if points.shape != shape or points.dtype != np.float64 or not np.isfinite(points).all():
            raise ValueError("`points` is of the wrong shape or not finite")
        if state["statistics"]["products"].shape != (len(points), self.n_targets):
            raise ValueError("the sums are of the wrong shape for the points and targets")
        fixed = self._on(points)
        fixed.posterior.restore(state)
        fixed.prior_sum = float(state["prior_sum"])
        if not 0.0 <= fixed.prior_sum < np.inf:
            raise ValueError("the sum of the prior variances is out of its range")
        self._fixed = fixed
