"""Sparse Gaussian processes on a dictionary that is chosen from the first rows of a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._component import Component
from mercer._validation import check_choice, check_integer
from mercer.gaussian_process._inducing import InducingPosterior
from mercer.kernels import Kernel
from mercer.second_order import CENTERS, choose_centers

__all__ = ["DictionaryPosterior", "InducingPoints"]

Array = NDArray[np.float64]

_FEWEST, _MOST = 2_000, 30_000  # first rows, where their number is chosen
_ROWS = ("rows", "targets", "weights")


class InducingPoints(Component):
    """A dictionary of inducing points, chosen from the first rows and then fixed.

    The first rows are kept until there are enough of them to choose the points from; from then on
    sums over the rows that take ``size``² numbers. Until then predictions are those of points
    chosen from the rows so far: of up to ``size`` rows all, which is the exact Gaussian process.

    Parameters
    ----------
    size : int, default=1000
        Most inducing points.
    centers : {"kmeans", "uniform", "leverage"}, default="kmeans"
        How they are chosen: means of clusters of the first rows, rows drawn at random, or rows
        drawn by their ridge leverage (:func:`mercer.second_order.choose_centers`).
    first_rows : int or "auto", default="auto"
        Rows that they are chosen from, at least ``size``. "auto" means five times ``size``, but
        from 2,000 to 30,000 where ``size`` allows.

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

    def __init__(
        self, size: int = 1000, centers: str = "kmeans", first_rows: int | str = "auto"
    ) -> None:
        self.size = size
        self.centers = centers
        self.first_rows = first_rows
        self._check()

    def _check(self) -> None:
        check_integer("size", self.size, low=1)
        check_choice("centers", self.centers, CENTERS)
        if isinstance(self.first_rows, str):
            check_choice("first_rows", self.first_rows, ("auto",))
        else:
            check_integer("first_rows", self.first_rows, low=self.size)

    @property
    def n_first_rows(self) -> int:
        """Rows that the points are chosen from."""
        if isinstance(self.first_rows, str):
            return max(self.size, min(max(5 * self.size, _FEWEST), _MOST))
        return int(self.first_rows)


class DictionaryPosterior:
    """Sparse Gaussian process whose dictionary is chosen once the first rows are there.

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
        # The first rows, their targets and weights; then the posterior, and they are gone.
        self._first: tuple[Array, ...] | None = None
        self._fixed: InducingPosterior | None = None
        self._provisional: InducingPosterior | None = None

    @property
    def n_rows(self) -> int:
        """Rows learned, those of weight 0 left out."""
        if self._fixed is not None:
            return self._fixed.posterior.n_rows
        return 0 if self._first is None else self._first[2].size

    def learn(self, X: Array, targets: Array, weights: Array) -> None:
        """Add rows; all of them or, after an error, none.

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
            For inputs outside the kernel's domain or kernel values that are not finite.
        """
        used = weights > 0.0
        if not used.any():
            return
        new: tuple[Array, ...] = (X[used], targets[used], weights[used])
        self._check_rows(new[0])
        if self._fixed is not None:
            self._fixed.learn(*new)
            return
        if self._first is not None:
            new = tuple(np.concatenate(pair) for pair in zip(self._first, new, strict=True))
        n_first = self.method.n_first_rows
        if new[2].size < n_first:
            self._first, self._provisional = new, None
            return
        fixed = self._start(*(part[:n_first] for part in new))
        if new[2].size > n_first:
            fixed.learn(*(part[n_first:] for part in new))
        self._first, self._provisional, self._fixed = None, None, fixed

    def _check_rows(self, X: Array) -> None:
        values = self.kernel(X, X[:1])[:, 0] + self.kernel.diag(X)
        if not np.isfinite(values).all():
            raise ValueError(
                f"Values of {self.kernel!r} are not finite on these rows, whose largest input is "
                f"{float(np.abs(X).max()):.3g}. Rescale the inputs, for example with "
                "sklearn.preprocessing.StandardScaler."
            )

    def _start(self, X: Array, targets: Array, weights: Array) -> InducingPosterior:
        """Posterior of these rows on a dictionary chosen from them."""
        points = choose_centers(
            X, self.method.size, self.method.centers, kernel=self.kernel, seed=self.seed
        )
        posterior = self._on(points.astype(np.float64, copy=False))
        posterior.learn(X, targets, weights)
        return posterior

    def _on(self, points: Array) -> InducingPosterior:
        return InducingPosterior(
            self.kernel,
            points,
            self.n_targets,
            noise=self.noise,
            normalize=self.normalize,
            chunk=self.chunk,
        )

    def current(self) -> InducingPosterior:
        """Posterior of all rows learned."""
        if self._fixed is not None:
            return self._fixed
        # Once for all rows learned, when somebody asks.
        if self._provisional is None:
            assert self._first is not None  # nobody asks before there are rows
            self._provisional = self._start(*self._first)
        return self._provisional

    def mean(self, X: Array) -> Array:
        """Posterior means, shape (n, n_targets)."""
        return self.current().mean(X)

    def variance(self, X: Array) -> Array:
        """Posterior variances of the function without noise, shape (n, n_targets)."""
        return self.current().variance(X)

    def covariance(self, X: Array) -> Array:
        """Posterior covariances between rows, shape (n, n, n_targets)."""
        return self.current().covariance(X)

    def sample(self, X: Array, n_samples: int, generator: np.random.RandomState) -> Array:
        """Values of functions drawn from the posterior, shape (n, n_targets, n_samples)."""
        return self.current().sample(X, n_samples, generator, self.n_features, self.design)

    def log_marginal_likelihood(self, noise: float | None = None) -> float:
        """Lower bound of the log density of the targets learned, for this noise or another one."""
        return self.current().log_marginal_likelihood(noise)

    def effective_dimension(self) -> float:
        """Return the number of directions that the data determine, between 0 and the points'."""
        return self.current().posterior.effective_dimension()

    def normalization(self) -> tuple[Array, Array]:
        """Mean and scale of the targets; 0 and 1 unless they are normalised."""
        return self.current().posterior.normalization()

    @property
    def dictionary(self) -> Array:
        """Inducing points, shape (n_points, n_inputs)."""
        return self.current().features.points

    @property
    def size(self) -> int:
        """Number of inducing points."""
        return self.current().features.block_size

    @property
    def coefficients(self) -> Array:
        """Coefficients of the mean on the dictionary, in units of the targets."""
        return self.current().coefficients

    def set_noise(self, noise: float) -> None:
        """Take another noise; the sums do not depend on it."""
        self.noise = noise
        for posterior in (self._fixed, self._provisional):
            if posterior is not None:
                posterior.posterior.set_noise(noise)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_provisional": None}

    def snapshot(self) -> dict[str, Any]:
        """Return what learning changes, as plain data: the first rows, or points and sums."""
        if self._fixed is not None:
            return self._fixed.snapshot()
        assert self._first is not None  # a fitted model has rows
        return dict(zip(_ROWS, self._first, strict=True))

    def restore(self, state: dict[str, Any], n_inputs: int) -> None:
        """Inverse of :meth:`snapshot`; ValueError if it does not fit."""
        self._first = self._fixed = self._provisional = None
        if "points" in state:
            points = state["points"]
            if not 0 < len(points) <= self.method.size:
                raise ValueError("the dictionary is larger than it may be, or empty")
            _check_array("points", points, (len(points), n_inputs))
            sums = state["statistics"]
            if sums["products"].shape != (len(points), self.n_targets):
                raise ValueError("the sums are of the wrong shape for the points and targets")
            fixed = self._on(points)
            fixed.restore(state)
            self._fixed = fixed
            return
        n = len(state["weights"])
        if not 0 < n < self.method.n_first_rows:
            raise ValueError("the number of first rows is out of its range")
        first = tuple(state[name].copy() for name in _ROWS)
        for name, part, shape in zip(
            _ROWS, first, [(n, n_inputs), (n, self.n_targets), (n,)], strict=True
        ):
            _check_array(name, part, shape)
        if not (first[2] > 0.0).all():
            raise ValueError("the weights of the first rows are out of their range")
        self._first = first


def _check_array(name: str, array: Array, shape: tuple[int, ...]) -> None:
    if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
        raise ValueError(f"`{name}` is of the wrong shape or not finite")
