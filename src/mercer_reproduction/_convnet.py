"""Convolutional nets, whose features a kernel machine learns on. They need PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Labels = NDArray[np.int64]

_AT_ONCE = 500  # images for prediction
_RISE = 0.2  # part of the rows in which the step size rises; then it fades


def require_torch() -> Any:
    """Import PyTorch.

    Raises
    ------
    ImportError
        If it is not there; says how to get it.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "This experiment trains a convolutional net for the features that the kernel machine "
            "learns on, and needs PyTorch for that: `pip install torch`."
        ) from error
    return torch


class Layers(NamedTuple):
    """A net in two parts: up to its last max-pooling, flat, and what comes after.

    Attributes
    ----------
    features, head : torch.nn.Module
        The head's outputs are scores of the classes.
    """

    features: Any
    head: Any


def lenet(seed: int = 0, filters: tuple[int, int] = (16, 32), units: int = 128) -> Layers:
    """LeNet-5 with rectified linear units, 16 and 32 filters, 128 units (DSG, Section 7.4).

    For images of 28 x 28 the last pooling has 7 x 7 places: 1,568 features.
    """
    torch = require_torch()
    nn, (first, second) = torch.nn, filters
    with own_torch(seed):
        features = nn.Sequential(
            *(nn.Conv2d(1, first, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(first, second, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Flatten(),
        )
        head = nn.Sequential(nn.Linear(49 * second, units), nn.ReLU(), nn.Linear(units, 10))
    return Layers(features, head)


def photo_net(seed: int = 0, filters: tuple[int, int, int] = (32, 64, 64)) -> Layers:
    """Make a net for photographs, after the one with 11 % in DSG, Section 7.4.

    As there, a convolution of 5 x 5, 64 x 6 x 6 = 2,304 features of crops of 24 x 24, then two
    layers of 3 x 3 with 64 and 32 filters. Other than there, the first convolution has 32 filters,
    two convolutions of 3 x 3 stand for the second one of 5 x 5, the last two layers share their
    weights over the places, and batches are normalised in place of contrasts.
    """
    torch = require_torch()
    nn, (first, second, third) = torch.nn, filters

    def convolution(n_inputs: int, n_outputs: int, size: int = 3) -> list[Any]:
        layer = nn.Conv2d(n_inputs, n_outputs, size, padding=size // 2, bias=False)
        return [layer, nn.BatchNorm2d(n_outputs), nn.ReLU()]

    with own_torch(seed):
        features = nn.Sequential(
            *(*convolution(3, first, 5), nn.MaxPool2d(2)),
            *(*convolution(first, second), *convolution(second, third), nn.MaxPool2d(2)),
            nn.Flatten(),
        )
        head = nn.Sequential(
            *(nn.Unflatten(1, (third, 6, 6)), *convolution(third, 64), *convolution(64, 32)),
            *(nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 36, 10)),
        )
    # On processors this layout takes a quarter less time.
    return Layers(*(part.to(memory_format=torch.channels_last) for part in (features, head)))


class Network:
    """A net that learns rows as they come, by Adam with a step size that rises and then fades.

    Parameters
    ----------
    layers : torch.nn.Module
        From rows to scores of the classes.
    n_rows : int
        Rows that it will learn; the step size is 0 after them.
    step_size : float, default=3e-3
        The largest.
    batch_size : int, default=128
        Rows of a step.
    seed : int, default=0
        Of what layers draw while they learn.
    """

    def __init__(
        self,
        layers: Any,
        n_rows: int,
        step_size: float = 3e-3,
        batch_size: int = 128,
        seed: int = 0,
    ) -> None:
        self.layers, self._n_rows, self._step_size = layers, n_rows, step_size
        self._batch_size, self._seed, self._seen = batch_size, seed, 0
        self._optimizer = require_torch().optim.AdamW(layers.parameters(), weight_decay=0.02)

    def learn(self, X: Rows, y: Labels) -> None:
        """Learn rows, a batch at a time, in their order."""
        torch = require_torch()
        self.layers.train()
        with own_torch(self._seed + self._seen):
            parts = (torch.from_numpy(part).split(self._batch_size) for part in (X, y))
            for rows, labels in zip(*parts, strict=True):
                done = self._seen / self._n_rows
                for group in self._optimizer.param_groups:
                    group["lr"] = self._step_size * min(done / _RISE, (1 - done) / (1 - _RISE))
                loss = torch.nn.functional.cross_entropy(self.layers(rows), labels)
                self._optimizer.zero_grad()
                loss.backward()
                self._optimizer.step()
                self._seen += len(rows)
        self.layers.eval()

    def probabilities(self, X: Rows) -> Rows:
        """Probabilities of the classes, (n_rows, n_classes)."""
        scores = outputs(self.layers, X)
        return np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))


def outputs(layers: Any, X: Rows) -> Rows:
    """Return what layers that learn no more give, one row for each row of ``X``."""
    torch = require_torch()
    with torch.no_grad(), own_torch(0):
        parts = torch.from_numpy(np.ascontiguousarray(X)).split(_AT_ONCE)
        return np.concatenate([layers(part).numpy() for part in parts])


@contextmanager
def own_torch(seed: int) -> Iterator[None]:
    """Use one thread and a separate seed, then restore the settings of PyTorch."""
    torch = require_torch()
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(n_threads)
