"""COLK step by step with lists of points: slow and obvious."""

import numpy as np


class ColkOracle:
    """Algorithm 1 without compression, one pair of rows a step, for the squared loss (f - y)²/2.

    phi(l, g) = l + weight * deviation(l - g), in raw units; ``deviation`` returns d and d'.
    """

    def __init__(self, kernel, deviation, weight, step_size, ridge, rate, rule, direction_rate=0.1):
        self.kernel, self.deviation, self.weight = kernel, deviation, weight
        self.step_size, self.ridge, self.rate, self.rule = step_size, ridge, rate, rule
        self.direction_rate = direction_rate
        self.points, self.coefficients, self.before, self.direction = [], [], [], []
        self.g, self.clamped = None, 0

    def value(self, x, coefficients=None):
        coefficients = self.coefficients if coefficients is None else coefficients
        return sum(
            w * self.kernel(p[None], x[None])[0, 0]
            for p, w in zip(self.points, coefficients, strict=False)
        )

    def step(self, x, y, x2, y2):
        residual, residual2 = self.value(x) - y, self.value(x2) - y2
        loss, h = residual**2 / 2, residual2**2 / 2
        now = h if self.g is None else self.g
        if self.g is None:
            self.g = h
        elif self.rule == "momentum":
            old = (self.value(x2, self.before) - y2) ** 2 / 2
            self.g = (1 - self.rate) * (self.g - old) + h
        else:
            self.g = (1 - self.rate) * self.g + self.rate * h
        self.g = max(self.g, 0.0)
        seen = now if self.rule == "nasa" else self.g
        a = 1 + self.weight * self.deviation(loss - seen)[1]
        self.clamped += a < 0
        a = max(a, 0.0)
        self.before = list(self.coefficients)
        gradient = [0.0] * len(self.points) + [a * residual, (1 - a) * residual2]
        self.points += [x, x2]
        self.before += [0.0, 0.0]
        keep = 1 - self.step_size * self.ridge
        if self.rule == "nasa":
            rho = self.direction_rate
            direction = [*self.direction, 0.0, 0.0]
            self.direction = [
                (1 - rho) * d + rho * s for d, s in zip(direction, gradient, strict=True)
            ]
            gradient = self.direction
        self.coefficients = [
            keep * w - self.step_size * s
            for w, s in zip([*self.coefficients, 0.0, 0.0], gradient, strict=True)
        ]


def tracked_slopes(losses, slopes, inner, effect, weight, deviation):
    """Slopes of rows that serve as both samples, for phi = l + weight * deviation(l - g)."""
    result = []
    for loss, slope in zip(losses, slopes, strict=True):
        a = max(1 + weight * deviation(loss - inner)[1], 0.0)
        result.append((a + effect) * slope)
    return np.array(result)
