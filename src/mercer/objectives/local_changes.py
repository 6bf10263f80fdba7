"""Learning the gradient of a regression from the changes between neighbouring rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.losses import RegressionLoss, loss_and_slopes
from mercer.objectives.objective import Array, Batch, Objective


class LocalChanges(Objective):
    r"""Expected loss of what a field of gradients says of the change between two rows.

    .. math:: \frac{1}{u}\, E\, w(x - x')\, \ell\bigl(f(x)\cdot(x - x'),\; y - y'\bigr),
        \qquad w(x) = e^{-\|x\|^2 / (2 s^2)}

    f has an output for each input. Where :math:`y = g(x)` is smooth, :math:`y - y'` is about
    :math:`\nabla g(x)\cdot(x - x')` for neighbours, so f becomes the gradient of g. The rows of a
    batch are paired with each other, in both orders.

    Parameters
    ----------
    loss : RegressionLoss
        Loss of a change, one of residuals.
    width : float
        s: distance at which rows stop being neighbours.
    n_partners : int, default=1
        Partners of each row in a full batch; in a shorter one those that are missing count as 0.
    unit : float, default=1.0
        u: largest curvature of the mean over partners, for a loss of curvature 1, so that steps and
        ridges are in usual units.
    nearness : float, default=1.0
        Mean of w, which sets the unit of tolerances.

    Notes
    -----
    A row's pairs are averaged with the weights of its partners, and the result is multiplied by the
    row's own weight.

    References
    ----------
    Mukherjee and Zhou (2006), "Learning coordinate covariances via gradients". Ying and Zhou,
    Section 1, name it as an instance of learning from pairs.

    Examples
    --------
    >>> from mercer.losses import Squared
    >>> objective = LocalChanges(Squared(), width=1e6)
    >>> batch = Batch(np.array([[0.0], [1.0]]), np.array([[0.0], [3.0]]), np.ones(2))
    >>> objective.slopes(np.zeros((2, 1)), batch)[0].ravel()  # y rises by 3 a unit
    array([-1.5, -1.5])
    """

    def __init__(
        self,
        loss: RegressionLoss,
        width: float,
        n_partners: int = 1,
        unit: float = 1.0,
        nearness: float = 1.0,
    ) -> None:
        self.loss, self.width, self.n_partners = loss, width, n_partners
        self.unit, self.nearness = unit, nearness
        self.curvature = loss.curvature

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """Return the rows themselves."""
        return batch.X

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        n, y = batch.weights.size, batch.targets[:, 0]
        rows, near = neighbours(batch.X, self.width)
        partners = batch.weights * (n / (batch.weights.sum() or 1.0))
        shares = near * partners / (self.unit * max(n - 1, self.n_partners))
        said = np.sum(values * rows, axis=1)[:, np.newaxis] - values @ rows.T
        losses, pulls = loss_and_slopes(
            self.loss, said.reshape(-1, 1), np.subtract.outer(y, y).reshape(-1, 1)
        )
        pulls = shares * pulls.reshape(n, n)
        slopes = pulls.sum(axis=1)[:, np.newaxis] * rows - pulls @ rows
        slopes *= (batch.weights / n)[:, np.newaxis]
        return slopes, np.sum(shares * losses.reshape(n, n), axis=1)

    def at_zero(self, targets: Array, weights: Array, n_outputs: int) -> tuple[Array, Array]:
        """Return slopes and losses at f = 0, as if every row had partners of the mean target."""
        y = targets - targets.mean(axis=0)
        losses, pulls = loss_and_slopes(self.loss, np.zeros_like(y), y)
        slopes = np.zeros((weights.size, n_outputs))
        size = np.sqrt(2.0 * self.nearness / self.unit) / weights.size
        slopes[:, 0] = size * pulls[:, 0] * weights
        return slopes, losses * 2.0 * self.nearness / self.unit


def neighbours(X: NDArray[np.floating], width: float) -> tuple[Array, Array]:
    """Return rows about their mean, and how near they are to each other.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        Rows.
    width : float
        Distance at which rows stop being neighbours.

    Returns
    -------
    rows : ndarray of shape (n, n_features)
        The rows less their mean, so that little is lost in differences of products.
    near : ndarray of shape (n, n)
        exp(-|x_i - x_j|² / (2 width²)), and 0 for i = j.
    """
    rows = np.asarray(X, dtype=np.float64)
    rows = rows - rows.mean(axis=0)
    own = np.square(rows).sum(axis=1)
    squares = np.add.outer(own, own) - 2.0 * rows @ rows.T
    near: Array = np.exp(-np.maximum(squares, 0.0) / (2.0 * width**2))
    np.fill_diagonal(near, 0.0)
    return rows, near


def local_curvatures(rows: Array, near: Array) -> Array:
    """Return the sums over partners of nearness times the outer square of the difference.

    Parameters
    ----------
    rows, near : ndarray
        From :func:`neighbours`.

    Returns
    -------
    curvatures : ndarray of shape (n, n_features, n_features)

    Examples
    --------
    >>> local_curvatures(*neighbours(np.array([[0.0], [2.0]]), 1e9)).ravel()
    array([4., 4.])
    """
    n, d = rows.shape
    products = np.einsum("ik,il->ikl", rows, rows)
    of_partners = (near @ products.reshape(n, -1)).reshape(n, d, d)
    mixed = np.einsum("ik,il->ikl", rows, near @ rows)
    total = near.sum(axis=1)[:, np.newaxis, np.newaxis]
    return np.asarray(total * products - mixed - mixed.transpose(0, 2, 1) + of_partners)
