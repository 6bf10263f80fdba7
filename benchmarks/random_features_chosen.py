"""Do random features that the rows choose beat features that are drawn without looking at them?

At an equal number of features, a ridge regression on

- *drawn*: cosine and sine of frequencies of a Gaussian kernel, of the design "auto";
- *leverage*: frequencies drawn from a pool eight times as large, with probabilities like their
  ridge leverage scores on the rows, and weighted by one over the root of these (DSG, Section 8,
  [47]);
- *highest leverage*: those of the pool with the highest scores, without weights;
- *gradients*: the drawn ones after ``Cosines.refined``, which descends on the squared loss of the
  rows; coefficients are solved for anew at the end (DSG, Section 8, [36]).

The length scale (of three multiples of the median distance, by the drawn features) and the ridge
are chosen on held-out rows. Errors are mean squared errors of the standardised target (of labels -1
and +1 on covtype), means over five draws. Seconds are those of choosing features and of solving at
one ridge, on one thread.

To run it, set ``MERCER_DATA`` to the folder of the data sets.
"""

from __future__ import annotations

import _common
import defaults
import numpy as np

from mercer.kernels import Gaussian, cosines
from mercer.maps import Cosines

DATA = ("california_housing", "protein_casp", "covtype")
SIZES = (64, 256)
MULTIPLES = (0.25, 0.5, 1.0)
RIDGES = 10.0 ** np.arange(-8, 0)
POOL, SEEDS = 8, 5
TRAIN, HELD_OUT, TEST = 8000, 2000, 10_000


def frequencies(kernel, n_inputs, m, seed):
    """Frequencies of m / 2 pairs, shape (n_inputs, m / 2)."""
    return cosines(kernel, n_inputs, m, seed).frequencies


def features(X, W, weights=1.0):
    return Cosines(W)(X) * np.tile(np.broadcast_to(weights, W.shape[1]), 2)


def solutions(Z, y, ridges=RIDGES):
    """Coefficients at each ridge, shape (n_ridges, m)."""
    values, vectors = np.linalg.eigh(Z.T @ Z / len(Z))
    projected = vectors.T @ (Z.T @ y / len(Z))
    return np.array([vectors @ (projected / (np.maximum(values, 0) + ridge)) for ridge in ridges])


def leverage(Z, ridge):
    """Ridge leverage scores of the columns, and of the pairs that they make."""
    C = Z.T @ Z / len(Z)
    scores = np.diag(np.linalg.solve(C + ridge * np.eye(len(C)), C))
    return scores.reshape(2, -1).sum(axis=0)


def split(name):
    X, y, X_test, y_test = defaults.load(name)
    rng = np.random.default_rng(0)
    order, others = rng.permutation(len(X)), rng.permutation(len(X_test))[:TEST]
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    X, X_test = ((A - mean) / np.where(deviation > 0, deviation, 1) for A in (X, X_test))
    if name not in defaults.REGRESSIONS:
        y, y_test = (np.where(v == np.unique(y)[1], 1.0, -1.0) for v in (y, y_test))
    kept, held = order[:TRAIN], order[TRAIN : TRAIN + HELD_OUT]
    return (X[kept], y[kept]), (X[held], y[held]), (X_test[others], y_test[others])


def errors_of(W, weights, train, held_out, test, ridges=RIDGES):
    found = solutions(features(train[0], W, weights), train[1] - train[1].mean(), ridges)
    Z = features(held_out[0], W, weights)
    held = [np.mean((Z @ a + train[1].mean() - held_out[1]) ** 2) for a in found]
    best = int(np.argmin(held))
    scores = features(test[0], W, weights) @ found[best] + train[1].mean()
    return held[best], float(np.mean((scores - test[1]) ** 2)), best


def measure(name, m):
    train, held_out, test = split(name)
    d, centred = train[0].shape[1], (train[0], train[1] - train[1].mean())
    median = Gaussian().resolve(train[0], 0).length_scale
    kernels = [Gaussian(multiple * median) for multiple in MULTIPLES]
    kernel = min(
        kernels, key=lambda k: errors_of(frequencies(k, d, m, 99), 1.0, train, held_out, test)[0]
    )
    found = {way: [] for way in ("drawn", "leverage", "highest leverage", "gradients")}
    seconds = dict.fromkeys(found, 0.0)
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        W = frequencies(kernel, d, m, seed)
        _, error, best = errors_of(W, 1.0, train, held_out, test)
        found["drawn"].append(error)
        ridge = RIDGES[best]

        def chosen(way, W=W, ridge=ridge, seed=seed, rng=rng):
            if way == "drawn":
                return W, 1.0
            if way == "gradients":
                return Cosines(W).refined(*train, ridge=ridge, seed=seed).frequencies, 1.0
            pool = frequencies(kernel, d, POOL * m, 1000 + seed)
            scores = leverage(features(train[0], pool), ridge)
            if way == "highest leverage":
                return pool[:, np.argsort(-scores)[: m // 2]], 1.0
            p = scores / scores.sum()
            drawn = rng.choice(len(p), m // 2, p=p)
            return pool[:, drawn], 1 / np.sqrt(len(p) * p[drawn])

        for way in found:
            spent, (frequency, weights) = _common.cpu_seconds(lambda way=way: chosen(way))
            more, _ = _common.cpu_seconds(
                lambda f=frequency, w=weights: solutions(
                    features(train[0], f, w), centred[1], RIDGES[:1]
                )
            )
            seconds[way] += (spent + more) / SEEDS
            if way != "drawn":
                found[way].append(errors_of(frequency, weights, train, held_out, test)[1])
    drawn = np.array(found["drawn"])
    rows = []
    for way, errors in found.items():
        better = int(np.sum(np.array(errors) < drawn))
        rows.append(
            {
                "data": name,
                "features": m,
                "chosen by": way,
                "error": float(np.mean(errors)),
                "deviation": float(np.std(errors, ddof=1)),
                "better than drawn": "" if way == "drawn" else f"{better} of {SEEDS}",
                "CPU s": seconds[way],
            }
        )
    return rows


def main():
    rows = []
    for name in DATA:
        for m in SIZES:
            rows += measure(name, m)
            print(*rows[-4:], sep="\n", flush=True)
    _common.publish(
        "random_features_chosen",
        rows,
        "8,000 training rows and up to 10,000 test rows. The pool of leverage scores is eight "
        "times as large, and costs its matrix; refined frequencies are kept in the model, where "
        "drawn ones are a seed.",
    )


if __name__ == "__main__":
    main()
