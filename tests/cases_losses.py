"""Every loss with its oracle, and random rows for it."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st

import oracles_losses as oracle
from mercer.losses import (
    AbsoluteError,
    EpsilonInsensitive,
    Hinge,
    Huber,
    LeastSquaresMargin,
    Logistic,
    MulticlassHinge,
    Poisson,
    QNormHinge,
    Quantile,
    Softmax,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)

ORACLES = [
    (Squared(), oracle.squared),
    (AbsoluteError(), oracle.absolute_error),
    (Huber(), oracle.huber(1.0)),
    (Huber(delta=0.3), oracle.huber(0.3)),
    (EpsilonInsensitive(), oracle.epsilon_insensitive(0.1)),
    (EpsilonInsensitive(epsilon=0.0), oracle.absolute_error),
    (SquaredEpsilonInsensitive(epsilon=0.5), oracle.squared_epsilon_insensitive(0.5)),
    (SquaredEpsilonInsensitive(epsilon=0.0), oracle.squared),
    (Quantile(), oracle.quantile(0.5)),
    (Quantile(levels=0.9), oracle.quantile(0.9)),
    (Quantile(levels=[0.1, 0.5, 0.8]), oracle.quantile([0.1, 0.5, 0.8])),
    (Poisson(), oracle.poisson),
    (Logistic(), oracle.logistic),
    (Hinge(), oracle.hinge),
    (SquaredHinge(), oracle.squared_hinge),
    (QNormHinge(), oracle.q_norm_hinge(1.5)),
    (QNormHinge(q=2), oracle.squared_hinge),
    (LeastSquaresMargin(), oracle.least_squares_margin),
    (Softmax(), oracle.softmax),
    (MulticlassHinge(), oracle.multiclass_hinge),
]
LOSSES = [loss for loss, _ in ORACLES]
REGRESSIONS = [loss for loss in LOSSES if loss.task == "regression"]
CLASSIFICATIONS = [loss for loss in LOSSES if loss.task == "classification"]
MARGINS = [loss for loss in CLASSIFICATIONS if not loss.multiclass]
MULTICLASS = [loss for loss in CLASSIFICATIONS if loss.multiclass]

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
every_oracle = pytest.mark.parametrize(("loss", "slow"), ORACLES, ids=map(repr, LOSSES))
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=25, deadline=None)  # the first example compiles


def random_rows(loss, rng, n_rows=6, spread=2.0):
    """Targets and scores of one to four targets or classes."""
    size = int(rng.integers(1, 5))
    if loss.task == "classification":
        y = loss.encode(rng.integers(size, size=n_rows), n_classes=size)
    elif isinstance(loss, Poisson):
        y = rng.poisson(2.0, size=(n_rows, size)).astype(float)
    else:
        y = rng.normal(scale=spread, size=(n_rows, size))
    return y, rng.normal(scale=spread, size=(n_rows, loss.n_scores(size)))
