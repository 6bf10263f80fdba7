"""What a training asks of its estimator: made and planned before, watched and finished later."""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.default import DefaultLearner
from mercer.exceptions import Advice, InPython, ParameterError, Setting
from mercer.expansions import Auto, Dictionary, Expansion, RandomFeatures
from mercer.kernels import as_pair_kernel
from mercer.losses import Loss, Poisson, as_loss
from mercer_app.rows import TASKS, TableRows

# A sum of parts is solved for display when its rows have grown by this factor.
_GROWTH = 8
# Not so late that the last solution follows at once.
_LATEST = 2 / 3
# Rows are stored on the disk for later passes, up to this many bytes.
_MOST_BYTES = 2**33


def expansion_of(estimator: Any) -> Expansion | None:
    """Return the expansion that an estimator will take; None for a Gaussian process."""
    return estimator.plan().expansion if hasattr(estimator, "plan") else None


def chooses_scales(estimator: Any) -> bool:
    """Return whether an estimator scales inputs and target by itself: it chooses its kernel."""
    return hasattr(estimator, "plan") and bool(estimator.plan().scales)


def make_estimator(
    task: str, loss: Loss | None, options: Mapping[str, Any], n_passes: int, seed: int
) -> Any:
    """Create an estimator that has learned no rows.

    Parameters
    ----------
    task : str
        Key of ``TASKS``.
    loss : Loss or None
        None is the default of the estimator.
    options : mapping
        Further parameters of the estimator.
    n_passes, seed : int
        Passes and seed of the training.

    Raises
    ------
    ValueError
        For parameters that it does not have, or that do not go together.
    """
    kind = TASKS[task]
    chosen = dict(options) if loss is None else {**options, "loss": loss}
    accepted = kind.estimator().get_params(deep=False)
    for name in chosen:
        if name not in accepted:
            raise ValueError(f"`{name}` cannot be chosen for {kind.words}.")
    run = {"n_passes": n_passes, "random_state": seed}
    estimator = kind.estimator(
        **{name: value for name, value in run.items() if name in accepted}, **chosen
    )
    if "normalize_y" in accepted and "normalize_y" not in chosen:
        estimator.set_params(normalize_y=_by_deviation(estimator))
    # What is wrong shall be known before hours of reading, not after.
    estimator.check()
    if isinstance(expansion_of(estimator), Auto):
        _check_sums(estimator, kind.words, options)
        if estimator.expansion == "auto":
            estimator.set_params(expansion=Auto(seed=seed))
    return estimator


def _by_deviation(estimator: Any) -> bool:
    """Whether targets are learned in units of their standard deviation.

    A given kernel needs inputs of suitable size. An estimator that chooses its kernel, and sums
    over rows, find scales by themselves; counts have no unit.
    """
    if not hasattr(estimator, "plan"):
        return True
    plan = estimator.plan()
    return not (plan.scales or plan.default or isinstance(as_loss(estimator.loss), Poisson))


def _check_sums(estimator: Any, words: str, options: Mapping[str, Any]) -> None:
    """Refuse what does not go together with parts that learn by sums."""
    if isinstance(estimator.expansion, Auto):
        by_itself = estimator.__class__(**estimator.get_params(deep=False))
        without = {"risk": None} if "risk" in by_itself.get_params(deep=False) else {}
        by_itself.set_params(expansion="auto", **without)
        if not isinstance(expansion_of(by_itself), Auto):
            given: list[str | Setting] = [words]
            for name in ("loss", "risk", "step_size"):
                if name in options:
                    given += [" and ", Setting(name, estimator.get_params()[name])]
            raise ParameterError(
                Advice(
                    Setting(
                        "expansion", estimator.expansion, f"`expansion={estimator.expansion!r}`"
                    ),
                    " learns by sums over rows, which gives the mean of a loss whose scores are "
                    "in units of the targets, or a risk of it, without steps; got ",
                    *given,
                    ".",
                ),
                parameter="expansion",
                value=estimator.expansion,
                mend="Leave out the options of this expansion, or what it cannot do.",
            )
    if options.get("regularization", "auto") != "auto":
        raise ParameterError(
            "`regularization` is of learning by steps, but the default expansion sums over rows, "
            "and chooses ridges on rows that it has not learned.",
            parameter="regularization",
            value=options["regularization"],
            mend=Advice(
                "Leave it out, or choose ",
                InPython(
                    "another expansion, such as komp",
                    ("another one, such as ", Setting("expansion", "komp")),
                ),
                ".",
            ),
        )
    estimator.check_settings(anew=True)


class RunPlan(NamedTuple):
    """Sizes of a training.

    Attributes
    ----------
    n_passes : int
        Passes over the data.
    rows_per_step : int
        Rows that a step learns.
    cuts_matter : bool
        Whether what is learned depends, in its last digits, on where the rows are cut into chunks:
        random features evaluate old blocks on a whole chunk at once, and sums are taken chunk by
        chunk.
    """

    n_passes: int
    rows_per_step: int
    cuts_matter: bool


def plan_run(estimator: Any, n_passes: int, n_rows: int | None, n_outputs: int = 1) -> RunPlan:
    """Plan a training; give the estimator the sizes that depend on the number of rows.

    Parameters
    ----------
    estimator : estimator
        One that has not learned yet, or whose sizes are known.
    n_passes : int
        Passes that were asked for.
    n_rows : int or None
        Rows of a pass, if known.
    n_outputs : int, default=1
        Components of the function.

    Returns
    -------
    plan : RunPlan
    """
    planned = hasattr(estimator, "plan")
    batch_size = estimator.plan().batch_size if planned else estimator.batch_size
    expansion = expansion_of(estimator)
    # Functions of pairs of second order have a fixed number of features, in ordinary steps.
    bilinear = as_pair_kernel(getattr(estimator, "pair_kernel", "difference")).order == 2
    if isinstance(expansion, Auto):
        # Cells are laid out for the rows to come, if it is known how many these are.
        if n_rows is not None:
            estimator.set_params(expansion=expansion.sized(n_rows, n_outputs))
        return RunPlan(n_passes, batch_size, cuts_matter=True)
    if bilinear or not isinstance(expansion, RandomFeatures):
        return RunPlan(n_passes, batch_size, cuts_matter=isinstance(expansion, Dictionary))
    plan = expansion.plan(batch_size, n_passes, n_rows, n_outputs)
    made = n_passes if n_rows is None else plan.n_passes
    if n_rows is not None:
        estimator.set_params(expansion=expansion.sized(n_rows, n_outputs), n_passes=made)
    return RunPlan(made, plan.rows_per_step, cuts_matter=True)


class TrainingProgress(NamedTuple):
    """What a callback is given after every chunk.

    Attributes
    ----------
    n_rows : int
        Rows learned so far, over all passes and including those before a resumed checkpoint.
    n_total : int or None
        Rows of all passes; None during the first pass over files of unknown length.
    loss : float or None
        Mean loss of the chunk's rows, each before it was learned (regression by a kernel that was
        given: of the standardised target). Of a sum of parts: at its last solution, of the rows
        kept back until then; None before the first one. None for a Gaussian process, which has
        none.
    model_order : int
        Number of dictionary points, or of random features; 0 before there are any.
    rows_per_second : float
        Since the end of the first chunk, which may include compilation.
    """

    n_rows: int
    n_total: int | None
    loss: float | None
    model_order: int
    rows_per_second: float


class Watch:
    """Loss, size and speed of a model along a training.

    What it asks for depends on the rows that were learned only, so that it does not matter to the
    model file when, or how often, a training was stopped. A sum of parts is solved when somebody
    asks, which takes a second or two; here that is each time there are eight times the rows.

    Parameters
    ----------
    rows : TableRows
        What is trained, perhaps resumed.
    n_rows : int
        Rows that it has learned.
    """

    def __init__(self, rows: TableRows, n_rows: int) -> None:
        self.estimator = rows.estimator
        self._sum = self._sum_of_losses()
        self._n_rows = self._n_timed = n_rows
        self._timed_from = time.perf_counter()
        self._looked = False

    def look(self, n_rows: int, n_total: int | None) -> TrainingProgress:
        """Say how far the training has come, after a chunk.

        Parameters
        ----------
        n_rows : int
            Rows learned so far.
        n_total : int or None
            Rows of the training, if known.
        """
        loss, model_order = self._loss_and_order(n_rows - self._n_rows, n_total)
        now = time.perf_counter()
        speed = (n_rows - self._n_timed) / max(now - self._timed_from, 1e-9)
        if not self._looked:
            self._n_timed, self._timed_from, self._looked = n_rows, now, True
        self._n_rows = n_rows
        return TrainingProgress(n_rows, n_total, loss, model_order, speed)

    def _loss_and_order(self, n_new: int, n_total: int | None) -> tuple[float | None, int]:
        """Loss of the rows learned since the last look, and model order."""
        learner = getattr(self.estimator, "learner_", None)
        if isinstance(learner, DefaultLearner):
            late = n_total is not None and learner.n_rows > _LATEST * n_total
            grown = learner.n_rows >= _GROWTH * learner.solved_at
            if learner.is_decided and grown and not late:
                learner.current_function()
            if not learner.solved_at:
                return None, 0
            return float(learner.held_loss), learner.function.size
        before, self._sum = self._sum, self._sum_of_losses()
        if before is None or self._sum is None:
            return None, int(self.estimator.model_order_)
        return (self._sum - before) / n_new, int(self.estimator.model_order_)

    def _sum_of_losses(self) -> float | None:
        """Losses of all rows so far; None for a model whose history has no losses."""
        if not hasattr(self.estimator, "learner_"):
            return 0.0 if hasattr(type(self.estimator), "history_") else None
        history = self.estimator.history_
        return float(history.loss @ np.diff(history.n_samples, prepend=0))


def offer_revisits(estimator: Any, n_rows: int | None) -> bool:
    """Tell a sum of parts, before it is laid out, that its rows can be visited again.

    Parameters
    ----------
    estimator : estimator
        Estimator being trained; only a classifier with the default expansion is changed. Balanced
        classes are weighted in the order of arrival, which a second reading cannot repeat.
    n_rows : int or None
        Rows of the training, if known.

    Returns
    -------
    offered : bool
    """
    learner = getattr(estimator, "learner_", None)
    balanced = getattr(estimator, "class_weight", None) is not None
    if not isinstance(learner, DefaultLearner) or balanced:
        return False
    function = learner.function
    row_bytes = function.n_features * function.dtype.itemsize
    promised, few = learner.revisits, n_rows is None or n_rows * row_bytes <= _MOST_BYTES
    learner.revisits = learner.loss.task == "classification" and few
    if promised and not few:
        most = f"{n_rows:,} rows of {row_bytes:,} bytes are more than {_MOST_BYTES / 2**30:.3g} GiB"
        _warn(f"{most} that would be laid down for it")
    return learner.revisits


def _warn(why: str) -> None:
    warnings.warn(
        f"Newton steps on the loss are left out: {why}. The model is that of least squares on "
        "labels; a file of fewer rows, or Python and `fit`, has the steps.",
        stacklevel=3,
    )


def finish_with_revisits(
    estimator: Any, again: Callable[[], Iterable[Any]], n_rows: int, folder: Path
) -> bool:
    """Say that all rows came, and let steps on the loss follow where they help.

    Parameters
    ----------
    estimator : estimator
        After its last row.
    again : callable
        Gives all its rows once more, in pieces (X, y), in the order in which they were learned.
    n_rows : int
        How many they are.
    folder : Path
        Where to lay them down meanwhile.

    Returns
    -------
    finished : bool
        False if the rows cannot be visited again, so that the model is to be finished without.
    """
    learner: Any = getattr(estimator, "learner_", None)
    if not offer_revisits(estimator, n_rows) or not learner.is_decided:
        return False
    n_features, dtype = learner.function.n_features, learner.function.dtype
    needed = 2 * n_rows * n_features * dtype.itemsize
    if shutil.disk_usage(folder).free < needed:
        _warn(f"{folder} has no {needed / 2**30:.3g} GiB of room")
        return False
    laid: list[NDArray[Any]] = []

    def take(numbers: NDArray[np.int64]) -> tuple[Any, Any, Any]:
        if not laid:
            laid.append(np.memmap(file, dtype, "w+", shape=(n_rows, n_features)))
            labels, at = [], 0
            for X, y in again():
                laid[0][at : at + len(y)] = X
                labels.append(y)
                at += len(y)
            laid.append(estimator.targets_.encode(np.concatenate(labels)))
        inputs, targets = laid
        return inputs[numbers], targets[numbers], np.ones(len(numbers))

    with tempfile.TemporaryFile(dir=folder) as file:
        learner.finish(take)
    return True
