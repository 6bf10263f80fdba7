"""One row per Python call, for rankers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from mercer.estimators._pair_targets import PairLabels, group_numbers
from mercer.estimators._ranking import check_scores
from mercer.estimators._rows import _Rows

__all__ = ["RankingRows"]


class RankingRows(_Rows):
    """``learn_one`` and ``score_one``."""

    _labels: PairLabels
    _take_labels: Callable[[PairLabels], None]

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0, *, group: Any = None) -> Self:
        """Learn one row; a step of its own.

        A model whose first row comes this way fixes the length scale of the kernel and the step
        size on that one row, and cannot know better. Start with a ``partial_fit`` of some hundred
        typical rows.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs. Dicts are read by the names of the first row, sorted; every row must have the
            same ones.
        y : label or float
            Class, grade or number.
        sample_weight : float, default=1.0
            Weight of the row.
        group : label, default=None
            Group of the row; those of one group must come close together (see ``buffer``).

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a row of the wrong length or with missing values, or a label that does not fit; the
            model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model stays as it was.
        """
        groups = None if group is None else [group]
        if "learner_" not in self.__dict__ or not self._is_tuned():
            self._learn_as_batch(x, np.asarray([y]), sample_weight, group=groups)
            return self
        if not 0.0 <= sample_weight < math.inf:
            raise ValueError(
                f"`sample_weight` must be finite and not negative, got {sample_weight!r}."
            )
        labels = self._labels.meet(np.asarray([y]))
        target = np.array([labels.encode([y])[0], group_numbers(groups, 1)[0]])
        self._learn_row(self._vector(x), target, sample_weight)
        if labels is not self._labels:
            self._take_labels(labels)
        self._remember_names(x)
        return self

    def score_one(self, x: Any) -> float:
        """Score g(x) of one row.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs.

        Returns
        -------
        score : float
            0.0 before the first row was learned: River's loops predict first.

        Raises
        ------
        AttributeError
            If the pair kernel is another than the difference kernel.
        """
        if "learner_" not in self.__dict__:
            return 0.0
        check_scores(self)
        return float(self._score_one(x)[0])
