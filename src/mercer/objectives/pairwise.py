"""The mean of a loss over pairs of rows: E l(f(x, x'), y, y')."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.buffers import Buffer
from mercer.exceptions import Advice, ParameterError, Setting
from mercer.kernels.pairs import FunctionPairKernel, PairKernel
from mercer.losses import MarginLoss
from mercer.objectives.objective import Anchors, Array, Batch, Objective
from mercer.records import FLOATS, Numbers, Record, Several
from mercer.validation import check_choice, integer, real

Indices = NDArray[np.int64]

PAIR_LABELS = ("difference", "sign", "same")
NORMALIZATIONS = ("opposite", "all", "balanced")
LABEL, GROUP = range(2)
_DRAWN = 20  # partners per row when rows are only judged


class _Pairs(NamedTuple):
    """Pairs of a step, each of a row and an earlier point."""

    rows: Indices  # (n_pairs,), numbers of points
    partners: Indices  # (n_pairs,), numbers of points
    labels: Array  # (n_pairs,)
    shares: Array  # (n_pairs,), weights; the weights of a row's pairs sum to at most 1


class _Kept(NamedTuple):
    """Rows in the buffer, by place; empty places have weight 0."""

    X: NDArray[np.floating]  # (n_places, n_features)
    targets: Array  # (n_places, 2)
    weights: Array  # (n_places,)


_STORED = Record(
    intercept=real(),
    counts=Several(integer(low=0), 2),
    X=Numbers("n", "n_features", dtype=FLOATS),
    targets=Numbers("n", 2),
    weights=Numbers("n", low=0.0),
)


class Pairwise(Objective):
    r"""Expected loss of pairs of rows (Ying and Zhou, Section 1 and Algorithm 2).

    .. math:: E\big[\phi\big(\tau(y, y') f(x, x')\big)\big]

    Every row is paired with earlier rows, which a buffer holds. The slopes of its pairs are
    averaged, so a step is

    .. math:: f \leftarrow f - \frac{\gamma_t}{n_t} \sum_j \phi'(\tau_j f(x_t, x_j))\, \tau_j\,
        K_{(x_t, x_j)}

    With :class:`mercer.buffers.Everything`, ``normalize="all"`` and ``pair_label="difference"``
    this is Algorithm 2 of the paper.

    Targets have two columns: the label (-1 or +1 for two classes) and the number of the group. Only
    rows of one group are paired. Rows of a batch are paired with each other as if they came one
    after the other, but all at the same function.

    Parameters
    ----------
    loss : MarginLoss
        Loss phi.
    pair_kernel : PairKernel
        Kind of function on pairs.
    pair_label : {"difference", "sign", "same"}
        tau: y - y', its sign, or 1 if y = y' and -1 otherwise.
    buffer : Buffer
        Which earlier rows a row is paired with.
    normalize : {"opposite", "all", "balanced"}
        n_t: the number of partners with nonzero tau, the number of all partners, or, for
        ``pair_label="same"``, twice the number of partners with the same tau.
    label_scale : float, default=1.0
        Root mean square of nonzero tau: the unit of step sizes and tolerances.

    Attributes
    ----------
    intercept : float
        Constant term of f, if the pair kernel has a bias. The ridge does not shrink it.

    Raises
    ------
    ValueError
        For labels that do not match the symmetry of the functions: nothing could be learned.

    Notes
    -----
    Weights: a row's pairs are averaged with the weights of its partners, and the result is
    multiplied by the row's own weight. Rows of weight 0 do not enter the buffer.

    Examples
    --------
    >>> from mercer.buffers import FIFO
    >>> from mercer.losses import Logistic
    >>> objective = Pairwise(Logistic(), PairKernel("difference"), "sign", FIFO(5), "opposite")
    >>> batch = Batch(np.zeros((2, 1)), np.array([[-1.0, 0.0], [1.0, 0.0]]), np.ones(2))
    >>> objective.slopes(np.zeros((2, 1)), batch)[0].ravel()  # the second should be above
    array([ 0.25, -0.25])
    """

    _remedy = "; standardise the columns, or use a loss with bounded slopes such as 'logistic'."

    def __init__(
        self,
        loss: MarginLoss,
        pair_kernel: PairKernel | FunctionPairKernel,
        pair_label: str,
        buffer: Buffer,
        normalize: str,
        label_scale: float = 1.0,
    ) -> None:
        self.loss, self.pair_kernel, self.buffer = loss, pair_kernel, buffer
        self.pair_label: str = check_choice("pair_label", pair_label, PAIR_LABELS)
        self.normalize: str = check_choice("normalize", normalize, NORMALIZATIONS)
        check_pair_parts(pair_kernel, pair_label, normalize)
        self.pattern = pair_kernel.weights
        self.label_scale = label_scale
        # The square of a sum of two values is at most this multiple of the sum of their squares.
        self._spread = float(np.abs(self.pattern).sum())
        if loss.curvature is not None:
            self.curvature = loss.curvature * (label_scale * self._spread) ** 2
        if loss.lipschitz is not None:
            self.lipschitz = loss.lipschitz * label_scale * self._spread
        self.intercept = 0.0
        self.counts = (0, 0)
        self.kept = _Kept(np.empty((0, 0)), np.empty((0, 2)), np.empty(0))

    # -- points and pairs -----------------------------------------------------------------------

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """Return the rows, followed by the rows of the buffer."""
        occupied = self._occupied()
        if occupied.size == 0:
            return batch.X
        buffered = self.kept.X[occupied].astype(batch.X.dtype, copy=False)
        return np.vstack([batch.X, buffered])

    def _occupied(self) -> Indices:
        return np.flatnonzero(self.kept.weights > 0.0)

    def places(self, targets: Array, weights: Array) -> Indices:
        """Return the places of rows in the buffer, -1 for none."""
        places = np.full(weights.size, -1, np.int64)
        entering = np.flatnonzero(weights > 0.0)
        positive = targets[entering, LABEL] > 0.0
        places[entering] = self.buffer.places(positive, self.counts)
        return places

    def anchors(self, batch: Batch) -> Anchors | None:
        n, occupied = batch.weights.size, self._occupied()
        before = np.concatenate([np.full(n, -1, np.int64), occupied])
        after = before.copy()
        # If several rows claim one place, the last one keeps it.
        last = {int(place): i for i, place in enumerate(self.places(*batch[1:3])) if place >= 0}
        after[np.isin(before, np.fromiter(last, np.int64, len(last)))] = -1
        for place, i in last.items():
            after[i] = place
        return Anchors(before, after)

    def _pairs(self, batch: Batch, n_points: int) -> _Pairs:
        """Return the pairs of the batch, without the buffer if it is not among the points."""
        n = batch.weights.size
        occupied = self._occupied() if n_points > n else np.empty(0, np.int64)
        targets = np.vstack([batch.targets, self.kept.targets[occupied]])
        weights = np.concatenate([batch.weights, self.kept.weights[occupied]])
        rows, partners = self._meetings(batch, occupied)
        together = targets[rows, GROUP] == targets[partners, GROUP]
        rows, partners = rows[together], partners[together]
        tau = pair_label_of(self.pair_label, targets[rows, LABEL], targets[partners, LABEL])
        acting = tau != 0.0
        # Pairs with the same label and pairs with different labels each get half of the weight.
        kind = rows + n * (tau > 0.0) * (self.normalize == "balanced")
        counted = np.ones(tau.size, np.bool_) if self.normalize == "all" else acting
        totals = np.bincount(kind[counted], weights[partners[counted]], minlength=2 * n)
        rows, partners, tau, kind = rows[acting], partners[acting], tau[acting], kind[acting]
        shares = weights[partners] / totals[kind]
        return _Pairs(rows, partners, tau, 0.5 * shares if self.normalize == "balanced" else shares)

    def _meetings(self, batch: Batch, occupied: Indices) -> tuple[Indices, Indices]:
        """Return all meetings of a row with a point in the buffer, as two lists of numbers."""
        n = batch.weights.size
        if n == 1:
            return np.zeros(occupied.size, np.int64), 1 + np.arange(occupied.size)
        places = self.places(*batch[1:3])
        highest = max(int(places.max()), int(occupied.max(initial=-1)))
        content = np.full(highest + 1, -1, np.int64)
        content[occupied] = n + np.arange(occupied.size)
        met = np.empty((n, content.size), np.int64)
        for i, place in enumerate(places.tolist()):
            met[i] = content
            if place >= 0:
                content[place] = i
        rows, columns = np.nonzero(met >= 0)
        return rows, met[rows, columns]

    # -- values and slopes ----------------------------------------------------------------------

    def values_of_pairs(self, values: Array, first: Indices, second: Indices) -> Array:
        """Return the values of f on pairs of points.

        Parameters
        ----------
        values : ndarray of shape (n_points, 1) or (n_points, n_points)
            The function at :meth:`points`: first or second order of the pair kernel.
        first, second : ndarray of shape (n_pairs,) of int64
            Indices of the points.
        """
        ends = first, second
        if self.pair_kernel.order == 1:
            f = self.pattern[0] * values[first, 0] + self.pattern[1] * values[second, 0]
        else:
            f = np.zeros(first.size)
            for (p, q), weight in np.ndenumerate(self.pattern):
                if weight:
                    f += weight * values[ends[p], ends[q]]
        return np.asarray(f + self.intercept)

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """Return slopes and losses; a row without partners has the loss of a tie.

        Slopes have the shape of the values, (n_points, 1) or (n_points, n_points).
        """
        n = batch.weights.size
        pairs = self._pairs(batch, values.shape[0])
        losses, pull = self._losses_and_pull(values, batch, pairs)
        slopes: Array = np.zeros_like(values)
        ends = pairs.rows, pairs.partners
        if self.pair_kernel.order == 1:
            for end, weight in zip(ends, self.pattern, strict=True):
                slopes[:, 0] += weight * np.bincount(end, pull, minlength=values.shape[0])
        else:
            for (p, q), weight in np.ndenumerate(self.pattern):
                if weight:
                    np.add.at(slopes, (ends[p], ends[q]), weight * pull)
        return slopes, self._of_rows(losses, pairs, n)

    def _of_rows(self, losses: Array, pairs: _Pairs, n: int) -> Array:
        """Return the losses of rows from those of their pairs."""
        of_rows = np.bincount(pairs.rows, losses * pairs.shares, minlength=n).astype(float)
        of_rows[np.bincount(pairs.rows, minlength=n) == 0] = self.loss.value([1.0], [0.0])[0]
        return of_rows

    def _losses_and_pull(self, values: Array, batch: Batch, pairs: _Pairs) -> tuple[Array, Array]:
        """Return the losses of the pairs, and the derivatives of the objective in f there."""
        margins = pairs.labels * self.values_of_pairs(values, pairs.rows, pairs.partners)
        losses, slopes = self.loss.value_and_derivative(np.ones(margins.size), margins)
        own = batch.weights[pairs.rows] / batch.weights.size
        return losses, own * pairs.shares * pairs.labels * slopes

    def at_zero(self, targets: Array, weights: Array, n_outputs: int) -> tuple[Array, Array]:
        """Return slopes and losses at f = 0, as if every row had a partner with another label."""
        loss, slope = self.loss.value_and_derivative(np.ones(1), np.zeros(1))
        size = float(slope[0]) * self.label_scale / weights.size
        with np.errstate(over="ignore"):  # the loop finds and reports overflow
            slopes = np.full((weights.size, n_outputs), size) * weights[:, np.newaxis]
        return slopes, np.full(weights.size, float(loss[0]))

    def losses_of(self, values: Array, batch: Batch) -> Array:
        """Return losses on pairs drawn within groups, with a fixed seed."""
        targets, n = batch.targets, batch.weights.size
        order = np.argsort(targets[:, GROUP], kind="stable")
        _, start, of_group, count = np.unique(
            targets[order, GROUP], return_index=True, return_inverse=True, return_counts=True
        )
        group = np.empty(n, np.int64)
        group[order] = of_group
        drawn = np.random.default_rng(0).random((n, _DRAWN)) * count[group][:, np.newaxis]
        partners = order[start[group][:, np.newaxis] + drawn.astype(np.int64)].ravel()
        rows = np.repeat(np.arange(n), _DRAWN)
        tau = pair_label_of(self.pair_label, targets[rows, LABEL], targets[partners, LABEL])
        acting = (tau != 0.0) & (rows != partners)
        rows, partners, tau = rows[acting], partners[acting], tau[acting]
        margins = tau * self.values_of_pairs(values, rows, partners)
        losses = self.loss.value(np.ones(margins.size), margins)
        n_pairs = np.bincount(rows, minlength=n)
        mean: Array = np.bincount(rows, losses, minlength=n) / np.maximum(n_pairs, 1)
        return mean

    def steepness(self, batch: Batch, n_points: int) -> Array:
        """Return weights of the points; every pair counts at both of its points."""
        pairs = self._pairs(batch, n_points)
        shares = batch.weights[pairs.rows] * pairs.shares
        shares *= np.square(pairs.labels / self.label_scale)
        weights = np.zeros(n_points)
        for end, size in zip((pairs.rows, pairs.partners), np.abs(self.pattern), strict=True):
            weights += size / self._spread * np.bincount(end, shares, minlength=n_points)
        return weights * (n_points / batch.weights.size)

    # -- the buffer -----------------------------------------------------------------------------

    def update(self, values: Array, batch: Batch, step_size: float) -> None:
        """Move the intercept, and add the rows to the buffer."""
        if self.pair_kernel.bias:
            pairs = self._pairs(batch, values.shape[0])
            pull = self._losses_and_pull(values, batch, pairs)[1].sum()
            self.intercept -= step_size * float(self.pair_kernel.bias) * float(pull)
        self._enter(batch)

    def _enter(self, batch: Batch) -> None:
        places = self.places(*batch[1:3])
        entering = places >= 0
        self._count(*batch[1:3])
        if not entering.any():
            return
        room = self._room(batch, int(places.max()) + 1)
        X, targets, weights = room.X.copy(), room.targets.copy(), room.weights.copy()
        X[places[entering]] = batch.X[entering]
        targets[places[entering]] = batch.targets[entering]
        weights[places[entering]] = batch.weights[entering]
        self.kept = _Kept(X, targets, weights)

    def _count(self, targets: Array, weights: Array) -> None:
        """Count rows of each class, except rows of weight 0."""
        positive = targets[weights > 0.0, LABEL] > 0.0
        n, n_positive = positive.size, int(positive.sum())
        self.counts = self.counts[0] + n - n_positive, self.counts[1] + n_positive

    def take_buffer(
        self,
        X: NDArray[np.floating],
        kept_targets: Array,
        kept_weights: Array,
        targets: Array,
        weights: Array,
    ) -> None:
        """Adopt a buffer through which rows with these targets and weights have gone.

        Parameters
        ----------
        X, kept_targets, kept_weights : ndarray
            Rows by place, their targets and weights; the objective takes over the arrays.
        targets, weights : ndarray
            Targets and weights of the rows that went through.
        """
        self._count(targets, weights)
        self.kept = _Kept(X, kept_targets, kept_weights)

    def _room(self, batch: Batch, n_places: int) -> _Kept:
        """Return the buffer, enlarged to at least ``n_places`` places."""
        old = self.kept
        have = old.weights.size
        if n_places <= have:
            return old
        capacity = self.buffer.capacity
        new = max(n_places, 2 * have + 16)
        new = new if capacity is None else min(new, capacity)
        X = np.zeros((new, batch.X.shape[1]), batch.X.dtype)
        if have:
            X[:have] = old.X
        targets, weights = np.zeros((new, 2)), np.zeros(new)
        targets[:have], weights[:have] = old.targets, old.weights
        return _Kept(X, targets, weights)

    def state(self) -> dict[str, Any]:
        # No copies: arrays are replaced, never changed in place.
        return {"intercept": self.intercept, "counts": list(self.counts), **self.kept._asdict()}

    def set_state(self, state: dict[str, Any]) -> None:
        values, capacity = _STORED.read(state, {}), self.buffer.capacity
        kept = _Kept(*(values[name] for name in _Kept._fields))
        if capacity is not None and len(kept.weights) > capacity:
            raise ValueError("The rows of the buffer do not fit together.")
        self.kept, self.counts, self.intercept = kept, values["counts"], values["intercept"]


class JoinedPairwise(Pairwise):
    """The same for any kernel of pairs: f takes the two points of a pair side by side.

    The points of a step are its pairs, so none of them returns in a later step. Only for functions
    that are sums over points and learned by steps. Parameters are those of :class:`Pairwise`, with
    a :class:`mercer.kernels.FunctionPairKernel`.

    Examples
    --------
    >>> from mercer.buffers import FIFO
    >>> from mercer.kernels import FunctionPairKernel, Gaussian
    >>> from mercer.losses import Logistic
    >>> kernel = FunctionPairKernel(lambda X1, X2, U1, U2: Gaussian(1.0)(X1 - X2, U1 - U2))
    >>> objective = JoinedPairwise(Logistic(), kernel, "sign", FIFO(5), "opposite")
    >>> batch = Batch(np.array([[3.0], [4.0]]), np.array([[-1.0, 0.0], [1.0, 0.0]]), np.ones(2))
    >>> objective.points(batch)  # the second row meets the first
    array([[4., 3.]])
    >>> objective.slopes(np.zeros((1, 1)), batch)[0]
    array([[-0.25]])
    """

    def _met(self, batch: Batch) -> _Pairs:
        return self._pairs(batch, batch.weights.size + self._occupied().size)

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """Return the pairs: the points of each side by side, (n_pairs, 2 n_features)."""
        pairs, points = self._met(batch), super().points(batch)
        return np.hstack([points[pairs.rows], points[pairs.partners]])

    def anchors(self, batch: Batch) -> None:
        return None

    def values_of_pairs(self, values: Array, first: Indices, second: Indices) -> Array:
        """Return the values of f at :meth:`points`, which are its values on the pairs."""
        return values[:, 0]

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """Return slopes of the pairs, (n_pairs, 1), and losses of the rows."""
        pairs = self._met(batch)
        losses, pull = self._losses_and_pull(values, batch, pairs)
        return pull[:, np.newaxis], self._of_rows(losses, pairs, batch.weights.size)


def pair_label_of(pair_label: str, first: Array, second: Array) -> Array:
    """Return pair labels tau from point labels: differences, signs, or 1 for equal and -1 else.

    Parameters
    ----------
    pair_label : {"difference", "sign", "same"}
        Kind of pair label.
    first, second : ndarray of shape (n_pairs,)
        Labels of the points.
    """
    if pair_label == "same":
        return np.where(first == second, 1.0, -1.0)
    difference = first - second
    return np.asarray(difference if pair_label == "difference" else np.sign(difference))


def check_pair_parts(
    pair_kernel: PairKernel | FunctionPairKernel, pair_label: str, normalize: str
) -> None:
    """Refuse pair labels for which the best function on pairs is 0."""
    skew = pair_label != "same"
    if pair_kernel.symmetry == (1 if skew else -1):
        kind, other, advice = (
            ("symmetric", "changes sign", ("same", "difference"))
            if skew
            else ("skew", "stays", ("sign", "symmetric"))
        )
        raise ParameterError(
            Advice(
                Setting("pair_label", pair_label),
                f" does not go with the pair kernel {pair_kernel.pattern!r}: its functions are "
                f"{kind} when the two points of a pair change places, while the label {other}. A "
                "pair taken both ways would cost least at f = 0, and nothing would be learned.",
            ),
            parameter="pair_label",
            value=pair_label,
            mend=Advice(
                "Use ",
                Setting("pair_label", advice[0]),
                ", or ",
                Setting("pair_kernel", advice[1]),
                ".",
            ),
        )
    if normalize == "balanced" and skew:
        raise ParameterError(
            Advice(
                Setting("normalize", "balanced"),
                " weighs the pairs that are the same and those that are not by one half each: it "
                "goes with ",
                Setting("pair_label", "same"),
                " only, got ",
                Setting("pair_label", pair_label),
                ".",
            ),
            parameter="normalize",
            value=normalize,
            mend="Use 'opposite' or 'all'.",
        )
