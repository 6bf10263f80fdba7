"""One row per Python call: checked once, then little more than the arithmetic."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from mercer._threads import one_blas_thread
from mercer.learner import Learner
from mercer.losses import Logistic, Loss, as_loss
from mercer.numerics.row_loop import score_row

__all__ = ["ClassifierRows", "RegressorRows", "has_probabilities"]

Array = NDArray[np.float64]

# Up to this model order a row costs less than telling BLAS how many threads to use.
_FEW_POINTS = 64


def has_probabilities(model: Any) -> bool:
    """Whether a classifier's loss models probabilities.

    Raises
    ------
    AttributeError
        If not, with the losses that do.
    """
    loss = getattr(model, "loss_", None)
    if loss is None:
        loss = Logistic() if model.loss == "auto" else as_loss(model.loss, "classification")
    if not loss.has_probabilities:
        raise AttributeError(
            "Probabilities exist for the losses 'logistic' and 'softmax', which model them; this "
            f"classifier has loss={model.loss!r}."
        )
    return True


class _Rows:
    """Rows as vectors, or as dicts of features as River users write them."""

    learner_: Learner
    loss_: Loss
    n_features_in_: int
    partial_fit: Callable[..., Any]
    _is_tuned: Callable[[], bool]
    _n_scores: Callable[[], int]
    _row_names: list[Any]

    def _vector(self, x: Any) -> Array:
        """Return one row as an array of the model's type."""
        if isinstance(x, Mapping):
            x = self._values(x)
        with np.errstate(over="ignore", invalid="ignore"):
            row: Array = np.asarray(x, dtype=self.learner_.function.dtype)
            if row.shape != (self.n_features_in_,):
                raise ValueError(
                    f"A row must be a vector of {self.n_features_in_} numbers (or a dict of as "
                    f"many), got shape {row.shape}."
                )
            # The square is finite unless a value is not, or it overflows: then look closely.
            finite = math.isfinite(row.dot(row)) or np.isfinite(row).all()
        if not finite:
            raise ValueError(
                f"The row has a value that is NaN or infinite, or too large for {row.dtype}. "
                "Impute it, or skip it."
            )
        # Compiled code is made for plain arrays that may be written to.
        return row if row.flags.carray else row.copy()

    def _values(self, x: Mapping[Any, Any]) -> list[Any]:
        """Return the features of a dict in the order of the columns."""
        names = self.__dict__.get("_row_names")
        if names is None:
            names = self._name_features(x)
        try:
            values = [x[name] for name in names]
        except KeyError as error:
            raise ValueError(
                f"The row has no feature {error.args[0]!r}; it has {list(x)[:8]}. Every row "
                "must have the features of the first one."
            ) from None
        if len(x) != len(names):
            extra = [name for name in x if name not in names]
            raise ValueError(
                f"The row has the feature(s) {extra[:8]} besides {list(names)[:8]}. Features "
                "cannot be added on a running stream: all points have those of the first row. "
                "Leave them out, or start with all of them, 0 where a row has none."
            )
        return values

    def _name_features(self, x: Mapping[Any, Any]) -> list[Any]:
        """Names of the features of dicts, in the order of the columns."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            return list(names)
        n = self.__dict__.get("n_features_in_", len(x))
        if len(x) != n:
            raise ValueError(
                f"The row has {len(x)} feature(s), {list(x)[:8]}, but the model has {n}."
            )
        return sorted(x, key=lambda name: (type(name).__name__, name))

    def _remember_names(self, x: Any) -> None:
        """Keep the names of a row that was learned: later ones are read by them."""
        if "_row_names" not in self.__dict__ and isinstance(x, Mapping):
            self._row_names = self._name_features(x)

    def _learn_row(self, row: Array, target: Array, sample_weight: float) -> None:
        """Learn one checked row by the quickest way."""
        learner = self.learner_
        if learner.function.size <= _FEW_POINTS:
            learner.learn_row(row, target, sample_weight)
        else:
            with one_blas_thread():
                learner.learn_row(row, target, sample_weight)

    def _learn_as_batch(self, x: Any, y: Any, sample_weight: float, **options: Any) -> None:
        """Learn one row by ``partial_fit``, which takes over parameters set anew, too."""
        if "learner_" not in self.__dict__:
            self._learn_first(x, y, sample_weight, **options)
            return
        row = self._vector(x)[np.newaxis]
        with warnings.catch_warnings():
            # Rows need no names, or were put in the order of the names just now.
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            self.partial_fit(row, y, sample_weight=np.array([float(sample_weight)]), **options)
        self._remember_names(x)

    def _learn_first(self, x: Any, y: Any, sample_weight: float, **options: Any) -> None:
        """Start the model with one row."""
        names = self._name_features(x) if isinstance(x, Mapping) else None
        values = x if names is None else [x[name] for name in names]
        row = np.asarray(values, dtype=np.float64)
        if row.ndim != 1:
            raise ValueError(
                f"A row must be a vector of numbers, or a dict of them, got shape {row.shape}."
            )
        weight = np.array([float(sample_weight)])
        self.partial_fit(row[np.newaxis], y, sample_weight=weight, **options)
        self.__dict__.pop("_row_names", None)
        if names is not None:
            self._row_names = names

    def _score_one(self, x: Any) -> Array:
        """Values of f at one row, shape (n_outputs,)."""
        learner = self.learner_
        row = self._vector(x)
        f = learner.function
        functions = learner.compiled(f.dtype)
        if functions is None:
            with one_blas_thread():
                return np.asarray(learner.evaluate(row[np.newaxis])[0, : self._n_scores()])
        scores = np.empty(f.n_outputs)
        if f.averaging is None:
            score_row(functions, f.arrays, f.size, 0, f.scale, row, scores)
        else:
            score_row(functions, f.arrays, f.size, f.n_outputs, 1.0, row, scores)
        return scores


class ClassifierRows(_Rows):
    """``learn_one`` and friends of the classifier."""

    classes_: NDArray[Any]
    class_counts_: Array
    class_weight: Any
    _probabilities: Callable[[Array], Array]
    _row_targets: tuple[Loss, NDArray[Any], dict[Any, tuple[Array, int]]]

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> Self:
        """Learn one row; a step of its own.

        A model whose first row comes this way fixes the length scale of the kernel, the automatic
        step size and the automatic tolerance on that one row, and cannot know better. Start with
        a ``partial_fit`` of some hundred typical rows, or give numbers.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs. Dicts are read by the names of the first row, sorted; every row must have the
            same ones.
        y : label
            A label not seen before adds a class.
        sample_weight : float, default=1.0
            Weight of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a row of the wrong length or with missing values; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model stays as it was.

        Examples
        --------
        >>> from mercer import KernelClassifier
        >>> model = KernelClassifier(kernel="gaussian")
        >>> for x, y in [([0.0, 0.0], "a"), ([2.0, 2.0], "b")] * 20:
        ...     model = model.learn_one(x, y)
        >>> str(model.predict_one([1.9, 2.1]))
        'b'
        """
        known = self.__dict__.get("_row_targets")
        if known is None or known[0] is not self.loss_ or known[1] is not self.classes_:
            return self._learn_slowly(x, y, sample_weight)
        entry = known[2].get(y) if isinstance(y, Hashable) else None
        if (
            entry is None
            or self.class_weight is not None
            or not 0.0 <= sample_weight < math.inf
            or not self._is_tuned()
        ):
            return self._learn_slowly(x, y, sample_weight)
        self._learn_row(self._vector(x), entry[0], sample_weight)
        self.class_counts_[entry[1]] += 1.0
        self._remember_names(x)
        return self

    def _learn_slowly(self, x: Any, y: Any, sample_weight: float) -> Self:
        """Learn a row by ``partial_fit``, then prepare for the next ones."""
        self._learn_as_batch(x, np.asarray([y]), sample_weight)
        targets = self.loss_.encode(np.arange(self.classes_.size), self.classes_.size)
        by_label = {label: (targets[i], i) for i, label in enumerate(self.classes_.tolist())}
        self._row_targets = (self.loss_, self.classes_, by_label)
        return self

    def predict_one(self, x: Any) -> Any:
        """Label of one row.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs.

        Returns
        -------
        label : element of ``classes_`` or None
            None before the first row was learned: River's loops predict first.
        """
        if "learner_" not in self.__dict__:
            return None
        scores = self._score_one(x)
        if self.classes_.size == 1:
            return self.classes_[0]
        best = int(scores[0] > 0.0) if scores.size == 1 else int(scores.argmax())
        return self.classes_[best]

    @available_if(has_probabilities)
    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Probabilities of the classes for one row, as a dict.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs.

        Returns
        -------
        probabilities : dict from label to float
            Empty before the first row was learned.
        """
        if "learner_" not in self.__dict__:
            return {}
        scores = self._score_one(x)[np.newaxis]
        return dict(
            zip(self.classes_.tolist(), self._probabilities(scores)[0].tolist(), strict=True)
        )


class RegressorRows(_Rows):
    """``learn_one`` and friends of the regressor."""

    n_targets_: int
    _targets: Callable[[Array], Array]

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> Self:
        """Learn one row; a step of its own.

        A model whose first row comes this way fixes the length scale of the kernel, the automatic
        step size and the automatic tolerance on that one row, and cannot know better. Start with
        a ``partial_fit`` of some hundred typical rows, or give numbers.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs. Dicts are read by the names of the first row, sorted; every row must have the
            same ones.
        y : float or array-like of shape (n_targets,)
            Target.
        sample_weight : float, default=1.0
            Weight of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a row of the wrong length or with missing values; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model stays as it was.
        """
        target = np.array(y, dtype=np.float64, ndmin=1)
        if "learner_" not in self.__dict__:
            self._learn_as_batch(
                x, target if np.ndim(y) == 0 else target[np.newaxis], sample_weight
            )
            return self
        if target.shape != (self.n_targets_,):
            raise ValueError(
                f"The target must be {self.n_targets_} finite number(s), got shape {target.shape}."
            )
        if not 0.0 <= sample_weight < math.inf:
            raise ValueError(
                f"`sample_weight` must be finite and not negative, got {sample_weight!r}."
            )
        if not self._is_tuned():
            self._learn_as_batch(x, target[np.newaxis], sample_weight)
            return self
        target = self.loss_.encode(target[np.newaxis], self.n_targets_)[0]
        self._learn_row(self._vector(x), target, sample_weight)
        self._remember_names(x)
        return self

    def predict_one(self, x: Any) -> Any:
        """Prediction for one row.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs.

        Returns
        -------
        y : float or ndarray of shape (n_outputs,)
            0.0 before the first row was learned: River's loops predict first.
        """
        if "learner_" not in self.__dict__:
            return 0.0
        values = self._targets(self._score_one(x)[np.newaxis])[0]
        return float(values) if np.ndim(values) == 0 else values
