"""Correction of a least squares fit to another loss: a small function of the inputs and the fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from mercer.kernels import Kernel
from mercer.losses import Loss, loss_and_slopes
from mercer.records import Config, Maybe, Numbers, Part, Record, Recorded
from mercer.risks import Risk, RiskOfRows, risk_of_rows
from mercer.sums.rows import Rows
from mercer.validation import positive, real

Array = NDArray[np.float64]

# Most points, and most rows that choose the ridge and the features.
_POINTS, _JUDGES = 200, 2000
# Rows from which a line is fitted instead of a constant per score, and from which a curve is.
_LINE, _CURVE = 20, 200
# Length scale in standard deviations of the values: for features of the values alone, and for
# features with the inputs; and the weight of the kernel of the inputs in the latter.
_ALONE, _TOGETHER, _INPUTS = 0.5, 1.0, 0.3
# Ridges from the strongest to the weakest. Weaker ridges are not tried once the loss is so far
# above the least, in units of the usual slope times the usual residual.
_RIDGES, _WORSE = 10.0 ** -np.arange(0.0, 8.0), 0.02
# Slopes with jumps are smoothed: they are means at these places, in units of this part of the usual
# residual.
_WIDTH, _PLACES = 0.1, (-0.8, -0.4, 0.0, 0.4, 0.8)
_STEPS = 100  # most iterations of the descent
_RANK, _TINY = 1e-6, 1e-300
# Least standard deviation of values, in units of the usual residual.
_LEAST_SCALE = 0.2
_CHUNK = 16_384


@dataclass(frozen=True, eq=False)
class Features(Recorded):
    """Features of a correction: kernel functions of the inputs x and of the values g(x)."""

    kernel: Kernel | None  # kernel of the inputs; None for the values alone
    length: float  # length scale of the values, in standard deviations
    points: Array  # (n_points, n_features)
    values: Array  # (n_points, n_values), in standard deviations

    _record = Record(
        kernel=Maybe(Config(Kernel, lambda kernel: kernel.is_resolved)),
        length=positive(),
        points=Numbers("n_points", "n_features"),
        values=Numbers("n_points", "n_values"),
    )

    def __call__(self, X: Any, values: Array) -> Array:
        """Return features of rows, (n, n_points); values are in standard deviations."""
        squares = np.zeros((len(values), len(self.values)))
        for mine, theirs in zip(values.T, self.values.T, strict=True):
            squares += (mine[:, np.newaxis] - theirs) ** 2
        near: Array = np.exp(squares / (-2.0 * values.shape[1] * self.length**2))
        if self.kernel is None:
            return near
        alike = np.asarray(self.kernel(X, self.points), dtype=np.float64)
        own = np.sqrt(np.outer(self.kernel.diag(X), self.kernel.diag(self.points)))
        alike = _INPUTS * np.divide(alike, own, out=np.zeros_like(alike), where=own > 0.0)
        return np.asarray(near + alike * (1.0 + near))


class Correction(Recorded):
    r"""Function h of inputs and of values g there, chosen so that g + h minimises a loss.

    Least squares estimates the conditional mean g from all rows. The minimiser of another loss
    differs from g, by the distance to a quantile or a shift due to outliers. This difference is
    simpler than g and varies with g: high prices spread more than low ones. So h is
    :math:`a + B u + \sum_j c_j K(z, z_j)` of z = (x, u), with u the values in standard deviations
    and the product kernel :math:`K = k_u + .3\, k_x (1 + k_u)`, or :math:`k_u` alone if that is
    better on held out rows.

    Parameters
    ----------
    features : Features
        Kernel functions at points; without points, h is a line.
    centre, scale : ndarray of shape (n_values,)
        Mean and scale in u = (g - centre) / scale.
    ends : ndarray of shape (2, n_values)
        Lowest and highest u, beyond which h is constant.
    line : ndarray of shape (1 + n_values, n_scores)
        a and B.
    coefficients : ndarray of shape (n_points, n_scores)
        c.
    inner, scalars : ndarray
        Expectations g and scalars v of the risk at the minimum.
    clamped : float, default=0
        Share of rows whose weights a safeguard of the risk changed, at the minimum.
    """

    _record = Record(
        features=Part(Features, "n_points", "n_features", "n_values"),
        centre=Numbers("n_values"),
        scale=Numbers("n_values"),
        ends=Numbers(2, "n_values"),
        line=Numbers("n_values+1", "n_scores"),
        coefficients=Numbers("n_points", "n_scores"),
        inner=Numbers("n_inner"),
        scalars=Numbers("n_scalars"),
        clamped=real(low=0.0, high=1.0),
    )
    #: Risk, or mean loss, of each half of the rows by a fit to the other half (if rows are few, of
    #: all rows by a fit to them).
    error = np.nan

    def __init__(
        self,
        features: Features,
        centre: Array,
        scale: Array,
        ends: Array,
        line: Array,
        coefficients: Array,
        inner: Array,
        scalars: Array,
        clamped: float = 0.0,
    ) -> None:
        self.features = features
        self.inner, self.scalars, self.clamped = inner, scalars, clamped
        self.centre, self.scale, self.ends = centre, scale, ends
        self.line, self.coefficients = line, coefficients

    @property
    def n_scores(self) -> int:
        """Number of scores."""
        return int(self.line.shape[1])

    @property
    def n_values(self) -> int:
        """Number of values g."""
        return int(self.centre.size)

    @classmethod
    def constant(cls, numbers: Array, n_features: int) -> Self:
        """Return the correction that adds a constant number to each value."""
        n = numbers.size
        line = np.zeros((1 + n, n))
        line[0] = numbers
        features = Features(None, 1.0, np.empty((0, n_features)), np.empty((0, n)))
        none, ends = np.empty(0), np.zeros((2, n))
        return cls(features, np.zeros(n), np.ones(n), ends, line, np.empty((0, n)), none, none)

    @classmethod
    def fitted(
        cls,
        rows: Rows,
        values: Array,
        loss: Loss,
        n_scores: int,
        *,
        risk: Risk | None = None,
        unit: Array | float = 1.0,
        kernel: Kernel | None = None,
    ) -> Self:
        """Fit h: minimise the loss of g + h, or a risk of it, at rows that g has not learned.

        Parameters
        ----------
        rows : Rows
            Rows with targets as the loss encodes them.
        values : ndarray of shape (n, n_values)
            Values g at the rows; if the loss has several scores per target, one value per target.
        loss : Loss
            Loss to minimise.
        n_scores : int
            Number of scores of the loss, a multiple of the number of values.
        risk : Risk or None, default=None
            Risk of the loss; None for its mean.
        unit : float or ndarray of shape (n_values,), default=1.0
            Usual size of the residuals of g for each target, above 0.
        kernel : Kernel or None, default=None
            Kernel of the inputs, with its numbers resolved; its cosine is used. None: h is a
            function of the values alone.
        """
        centre = np.average(values, axis=0, weights=rows.weights)
        scale = np.sqrt(np.average((values - centre) ** 2, axis=0, weights=rows.weights))
        # Values that vary less than this depend mostly on which rows were left out.
        tell = scale > _LEAST_SCALE * np.asarray(unit)
        scale = np.where(tell, scale, 1.0)
        u, n = np.where(tell, (values - centre) / scale, 0.0), len(rows)
        ends = np.stack([u.min(axis=0), u.max(axis=0)])
        start = np.repeat(values, n_scores // values.shape[1], axis=1)
        places = np.linspace(0, n - 1, min(n, _POINTS) if n >= _CURVE else 0).astype(int)
        points, at = rows.X[places].astype(np.float64), u[places]
        if n < _LINE:
            u = u[:, :0]
        choices = [Features(None, _ALONE, points, at)]
        if kernel is not None and len(places):
            choices.append(Features(kernel, _TOGETHER, points, at))
        raced, lowest = [], _lowest(u.shape[1], scale, n_scores)
        for features in choices:
            white = _whitening(features(points, at)) if len(places) else np.zeros((0, 0))
            curve = features(rows.X, u) @ white if len(places) else np.empty((n, 0))
            Z = np.column_stack([np.ones(n), u, curve])
            problem = Z, lowest, rows, start, loss, risk
            fits = [_Descent(*problem, *each) for each in _groups(rows, start, unit, risk)]
            judged = [fit.best_ridge() for fit in fits]
            error = sum(error / fit.worth for fit, (error, _) in zip(fits, judged, strict=True))
            raced.append((error, features, white, list(zip(fits, judged, strict=True))))
        _, features, white, fitted = min(raced, key=lambda each: each[0])
        solutions = [fit.solve(ridge) for fit, (_, ridge) in fitted]
        solution, n_line = np.hstack([w for w, _ in solutions]), 1 + u.shape[1]
        found = [fit.found(*each) for (fit, _), each in zip(fitted, solutions, strict=True)]
        of_risk = found[0].inner, solutions[0][1], found[0].clamped  # of all targets together
        errors = [error for _, (error, _) in fitted] if len(places) else [f.value for f in found]
        line = np.zeros((1 + values.shape[1], n_scores))
        line[:n_line] = solution[:n_line]
        coefficients = np.ascontiguousarray(white @ solution[n_line:])
        made = cls(features, centre, scale, ends, line, coefficients, *of_risk)
        made.error = float(sum(errors))
        return made

    def __call__(self, X: Any, values: Array) -> Array:
        """Return g + h at rows, (n, n_scores), from the values g, (n, n_values)."""
        found = np.repeat(values, self.n_scores // values.shape[1], axis=1)
        for start in range(0, len(found), _CHUNK):
            cut = slice(start, start + _CHUNK)
            # Beyond the range of the rows that it was fitted to, h is constant in u.
            u = np.clip((values[cut] - self.centre) / self.scale, *self.ends)
            found[cut] += self.line[0] + u @ self.line[1:]
            if len(self.coefficients):
                found[cut] += self.features(X[cut], u) @ self.coefficients
        return found


class _Descent:
    """Risk of the loss of start + Z w at rows, to be minimised over w with a ridge."""

    def __init__(
        self,
        Z: Array,
        lowest: Array,
        rows: Rows,
        start: Array,
        loss: Loss,
        risk: Risk | None,
        targets: slice,
        scores: slice,
        unit: float,
    ) -> None:
        rows, start = replace(rows, targets=rows.targets[:, targets]), start[:, scores]
        self.Z, self.rows, self.start, self.loss, self.risk = Z, rows, start, loss, risk
        self.unit = unit  # of coefficients: the usual residual
        n_line = len(lowest)
        self.is_curve = np.arange(Z.shape[1])[:, np.newaxis] >= n_line
        self.lowest = np.full((Z.shape[1], start.shape[1]), -np.inf)
        self.lowest[:n_line] = lowest[:, scores] / unit
        jumps = loss.curvature is None and loss.lipschitz is not None
        moves = [place * _WIDTH * unit for place in _PLACES] if jumps else [0.0]
        self.moves = np.reshape(moves, (-1, 1, 1))
        losses, slopes = self._losses(rows, start)
        steep = float(np.average(np.abs(slopes).mean(axis=1), weights=rows.weights))
        self.worth = max(unit * (steep or 1.0), _TINY)
        self.size = float(np.average(np.abs(losses), weights=rows.weights)) or 1.0
        if risk is not None and risk.units != "running":
            self.size = float(risk.units)

    def _losses(self, rows: Rows, values: Array) -> tuple[Array, Array]:
        """Return smoothed losses of rows, and their slopes."""
        n_moves = len(self.moves)
        moved = (values + self.moves).reshape(-1, values.shape[1])
        targets = np.tile(rows.targets, (n_moves, 1))
        losses, slopes = loss_and_slopes(self.loss, moved, targets)
        shape = n_moves, *values.shape
        return losses.reshape(shape[:2]).mean(axis=0), slopes.reshape(shape).mean(axis=0)

    def risk_at(self, rows: Rows, values: Array, scalars: Array | None = None) -> RiskOfRows:
        """Return the risk of rows, by default with the initial scalars for these losses."""
        losses, slopes = self._losses(rows, values)
        if scalars is None:
            scalars = _first_scalars(self.risk, losses)
        share = rows.weights / rows.weights.sum()
        return risk_of_rows(
            self.risk, rows.targets, values, losses, slopes, share, scalars, self.size
        )

    def best_ridge(self) -> tuple[float, float]:
        """Return the least two-fold cross-validated risk, and the ridge that reaches it."""
        n = len(self.rows)
        if not self.is_curve.any():
            return np.inf, float(_RIDGES[0])
        halves = np.array_split(np.linspace(0, n - 1, min(n, _JUDGES)).astype(int), 2)
        if self.rows.groups is not None:
            some, middle = np.concatenate(halves), self.rows.whole(int(halves[1][0]), least=1)
            halves = [some[some < middle], some[some >= middle]]
        solutions: list[Array | None] = [None, None]
        best, least = float(_RIDGES[0]), np.inf
        for ridge in _RIDGES:
            error = 0.0
            for number, (learned, judged) in enumerate((halves, halves[::-1])):
                w = solutions[number] = self.solve(float(ridge), learned, solutions[number])[0]
                values = self.start[judged] + self.Z[judged] @ w
                error += self.risk_at(self.rows[judged], values).value / 2.0
            if error < least:
                best, least = float(ridge), error
            elif error > least + _WORSE * self.worth:
                break
        return least, best

    def found(self, w: Array, scalars: Array) -> RiskOfRows:
        """Return the risk at a solution."""
        return self.risk_at(self.rows, self.start + self.Z @ w, scalars)

    def solve(
        self, ridge: float, some: Any = slice(None), first: Array | None = None
    ) -> tuple[Array, Array]:
        """Minimise on some rows: return coefficients, (n_features, n_scores), and scalars."""
        Z, start, rows = self.Z[some], self.start[some], self.rows[some]
        # The loss of linearly separable classes has no minimum, so the line gets a ridge that
        # weighs as much as one row.
        of_line = 1.0 / len(Z) if self.loss.task == "classification" else 0.0
        pull = np.where(self.is_curve, ridge, of_line)
        shape = Z.shape[1], start.shape[1]
        scalars = _first_scalars(self.risk, self._losses(rows, start)[0])
        sizes = np.maximum(np.abs(scalars), self.size)
        n_scalars = scalars.size

        def value(flat: Array) -> tuple[float, Array]:
            w = flat[n_scalars:].reshape(shape)
            values = start + self.unit * (Z @ w)
            found = self.risk_at(rows, values, sizes * flat[:n_scalars])
            total = found.value / self.worth + 0.5 * float(np.sum(pull * w * w))
            gradient = Z.T @ found.slopes * (self.unit / self.worth) + pull * w
            return total, np.append(sizes * found.by_scalars / self.worth, gradient)

        w = np.zeros(shape) if first is None else first / self.unit
        flat = np.append(scalars / sizes, w)
        lowest = np.append(np.full(n_scalars, -np.inf), self.lowest)
        found = minimize(
            value,
            flat,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(lowest, np.inf),
            options={"maxiter": _STEPS},
        ).x
        return self.unit * found[n_scalars:].reshape(shape), sizes * found[:n_scalars]


def _lowest(n_values: int, scale: Array, n_scores: int) -> Array:
    """Return least coefficients of a line, (1 + n_values, n_scores): g + h must not fall with g.

    The leave-one-out prediction of a row falls as its own target rises. If predictions carry no
    other information, a line without this bound would reverse their order.
    """
    lowest = np.full((1 + n_values, n_scores), -np.inf)
    each = n_scores // scale.size
    for value in range(n_values):
        lowest[1 + value, each * value : each * (value + 1)] = -scale[value]
    return lowest


def _groups(
    rows: Rows, start: Array, unit: Array | float, risk: Risk | None
) -> Iterator[tuple[slice, slice, float]]:
    """Yield the targets whose losses are minimised together, with their scores and their unit.

    The loss of several targets with units is a sum, so each target is a separate problem. A risk
    is of the sum, so all targets are one problem.
    """
    units = np.atleast_1d(unit)
    if risk is not None or np.size(unit) == 1:
        yield slice(None), slice(None), float(units.mean())
        return
    each = start.shape[1] // units.size
    for target, size in enumerate(units.tolist()):
        yield slice(target, target + 1), slice(each * target, each * (target + 1)), size


def _first_scalars(risk: Risk | None, losses: Array) -> Array:
    return np.empty(0) if risk is None or not risk.n_scalars else risk.start(losses)


def _whitening(K: Array) -> Array:
    """Return the matrix that makes kernel functions at points orthonormal, (n, rank)."""
    squares, vectors = np.linalg.eigh(K)
    used = squares > _RANK * squares[-1]
    return np.asarray(vectors[:, used] / np.sqrt(squares[used]))
