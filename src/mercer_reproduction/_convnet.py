"""A small convolutional net whose features a kernel machine learns on. Needs PyTorch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Array = NDArray[np.float64]

_BATCH = 64
_AT_ONCE = 500  # images for prediction


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


class ConvNet:
    """Two convolutions with max-pooling after each, and a linear softmax on the last pooling.

    For images of 32 x 32 the last pooling has 6 x 6 places, as in DSG, Section 7.4: with 64 filters
    2,304 features.

    Parameters
    ----------
    n_filters : (int, int), default=(32, 64)
        Filters of the two layers.
    n_epochs : int, default=30
        Passes over the images; each is seen mirrored in half of them.
    seed : int, default=0
        Of weights, orders and mirrors.

    Attributes
    ----------
    cpu_seconds_ : float
        CPU time of ``fit``.
    """

    def __init__(
        self, n_filters: tuple[int, int] = (32, 64), n_epochs: int = 30, seed: int = 0
    ) -> None:
        self._n_filters, self._n_epochs, self._seed = n_filters, n_epochs, seed

    def fit(
        self, images: Rows, labels: Array, say: Callable[[str], object] | None = None
    ) -> ConvNet:
        """Train by Adam with a step size that fades to 0.

        Parameters
        ----------
        images : ndarray of shape (n_images, height, width, n_channels)
            Numbers from 0 to 1.
        labels : ndarray of shape (n_images,)
            0, 1, ...
        say : callable or None, default=None
            Told of progress.
        """
        torch = require_torch()
        start = time.process_time()
        axes = (0, 1, 2)
        self._mean, self._spread = images.mean(axis=axes), images.std(axis=axes)
        x, y = self._tensor(images), torch.from_numpy(labels.astype(np.int64))
        with _own_torch(torch, self._seed):
            self._features, self._head = self._layers(torch, x.shape[1:], int(labels.max()) + 1)
            net = torch.nn.Sequential(self._features, torch.nn.Dropout(0.5), self._head)
            optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
            n_steps = self._n_epochs * -(-len(x) // _BATCH)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
            for epoch in range(self._n_epochs):
                total = 0.0
                for rows in torch.randperm(len(x)).split(_BATCH):
                    batch = x[rows]
                    mirrored = torch.rand(len(rows)) < 0.5
                    batch[mirrored] = batch[mirrored].flip(3)
                    loss = torch.nn.functional.cross_entropy(net(batch), y[rows])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    schedule.step()
                    total += float(loss.detach()) * len(rows)
                if say is not None and (epoch + 1) % 5 == 0:
                    say(f"net, epoch {epoch + 1} of {self._n_epochs}: loss {total / len(x):.3f}")
        self._features.eval()
        self.cpu_seconds_ = time.process_time() - start
        return self

    def features(self, images: Rows) -> Rows:
        """Last max-pooling, one row for each image."""
        torch = require_torch()
        with torch.no_grad(), _own_torch(torch, self._seed):
            parts = [self._features(part).numpy() for part in self._tensor(images).split(_AT_ONCE)]
        return np.concatenate(parts)

    def classify(self, features: Rows) -> Array:
        """Labels by the net's own softmax, from :meth:`features`."""
        torch = require_torch()
        with torch.no_grad():
            scores = self._head(torch.from_numpy(features)).numpy()
        labels: Array = scores.argmax(axis=1).astype(np.float64)
        return labels

    def _tensor(self, images: Rows) -> Any:
        standardised = (images - self._mean) / self._spread
        planes = np.ascontiguousarray(standardised.transpose(0, 3, 1, 2), dtype=np.float32)
        return require_torch().from_numpy(planes)

    def _layers(self, torch: Any, shape: Any, n_classes: int) -> tuple[Any, Any]:
        nn, (first, second) = torch.nn, self._n_filters
        features = nn.Sequential(
            nn.Conv2d(shape[0], first, 5, padding=2, bias=False),
            nn.BatchNorm2d(first),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, 5, bias=False),
            nn.BatchNorm2d(second),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        places = ((shape[1] // 2 - 4) // 2) * ((shape[2] // 2 - 4) // 2)
        return features, nn.Linear(second * places, n_classes)


@contextmanager
def _own_torch(torch: Any, seed: int) -> Iterator[None]:
    """Use one thread and a separate seed, then restore the settings of PyTorch."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(n_threads)
