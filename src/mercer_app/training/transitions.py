"""Logged transitions in tables: which columns are what, and value functions learned from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mercer.columns.views import Levels, check_names, is_table, view_table
from mercer.estimators.transitions import Transitions
from mercer.estimators.value_function import ValueFunction
from mercer_app.files import read_tables
from mercer_app.files.tables import TableFiles, find_files, has_types, in_place
from mercer_app.rows import TableRows, read_groups
from mercer_app.training.tables import columns_for

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TransitionColumns:
    """Which columns of a table of logged steps are rewards, states, episodes and ends.

    A row is a step: the state in which it began, and the reward that followed. Its next state is in
    the next row of the same episode or, with ``next_prefix``, in separate columns. The rows of an
    episode are in order of time; several episodes may be mixed.

    Parameters
    ----------
    reward : str
        Column of the rewards on the way to the next state.
    states : sequence of str, default=()
        Columns of the state; () for all columns without another role.
    episode : str or None, default=None
        Column of the episode that a row is of. None: a new one begins after each terminal row.
    terminal : str or None, default=None
        Column of truth values, or 0 and 1, for the rows after which the episode terminated: the
        next state has value 0. None: no episode terminated.
    ends : bool, default=False
        Whether the last row of each episode ended it for good. Otherwise it was cut off there: the
        state of that row is a next state only.
    next_prefix : str or None, default=None
        Prefix that turns names of state columns into names of next-state columns, such as
        ``"next_"``.
    exclude : sequence of str, default=()
        Columns that are not part of the state, such as the action or the time.

    Raises
    ------
    ValueError
        If the parameters do not go together.

    Examples
    --------
    A walk 0 -> 1 -> 2, whose last step pays 1 and ends it.

    >>> import numpy as np
    >>> from mercer import ValueFunction
    >>> from mercer.kernels import Gaussian
    >>> walk = {"place": np.array([0.0, 1.0, 2.0]), "reward": np.array([0.0, 0.0, 1.0])}
    >>> columns = TransitionColumns(reward="reward", ends=True)
    >>> model = columns.fit(ValueFunction(0.5, kernel=Gaussian(0.2), n_passes=500), walk)
    >>> model.predict({"place": np.array([0.0, 1.0, 2.0])}).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    reward: str
    states: Sequence[str] = ()
    episode: str | None = None
    terminal: str | None = None
    ends: bool = False
    next_prefix: str | None = None
    exclude: Sequence[str] = ()

    def __post_init__(self) -> None:
        roles = [self.reward, self.episode, self.terminal, *self.states]
        named = [name for name in roles if name is not None]
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise ValueError(
                f"The column {twice[0]!r} was named for two things: rewards, states, episodes and "
                "ends must be different columns."
            )
        if self.next_prefix is not None and (self.ends or not self.next_prefix):
            raise ValueError(
                "`next_prefix` must be a text such as 'next_', and leaves no row without a next "
                "state: then `ends` has no meaning, and a `terminal` column says which steps end."
            )

    def fit(
        self,
        estimator: ValueFunction,
        data: Any,
        *,
        scaling: Any = "auto",
        categories: int = 128,
    ) -> ValueFunction:
        """Learn the value function of the states of a table, which is held in memory.

        Rewards are learned in units of their standard deviation (``normalize_rewards``).

        Parameters
        ----------
        estimator : ValueFunction
            Stays as it is.
        data : path, pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            The logged steps; a path as :func:`mercer_app.files.read_tables` takes it.
        scaling, categories
            For the columns of the state: see :class:`mercer_app.training.FileTraining`.

        Returns
        -------
        model : ValueFunction
            Predicts the value of the states of a table.

        Raises
        ------
        ValueError, FileNotFoundError, mercer.exceptions.DivergenceError
            For unusable columns or values, or as :meth:`mercer.ValueFunction.fit`.
        """
        data = data if is_table(data) else TableFiles.of(data)
        names = self._state_names(data)
        others = [name for name in _names_of(data) if name not in names]
        columns = columns_for(
            estimator,
            {"scaling": scaling, "categories": categories, "exclude": (*dict.fromkeys(others),)},
        )
        columns.fit(data if is_table(data) else read_tables(data))
        learns = clone(estimator).set_params(normalize_rewards=True)
        rows = TableRows(learns, columns, self.reward)
        seen = self.read(rows, data)
        learns.fit(seen.states, seen.rewards, seen.next_states, seen.terminals)
        model: ValueFunction = rows.model
        return model

    def read(self, rows: TableRows, data: Any) -> Transitions:
        """Read transitions as inputs, episode by episode.

        Parameters
        ----------
        rows : TableRows
            Knows how columns become inputs.
        data : path, pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            The logged steps.

        Returns
        -------
        transitions : mercer.estimators.transitions.Transitions
            States and next states as inputs, rewards in their own units, and where episodes begin.

        Raises
        ------
        ValueError, FileNotFoundError
            For unusable columns or values, or if no transition is left.
        """
        steps = [self._steps(rows, data)] if is_table(data) else list(self._of_file(rows, data))
        X, next_X, rewards, episodes, terminals = (
            np.concatenate(parts) for parts in zip(*steps, strict=True)
        )
        if self.episode is None and self.next_prefix is None:
            # One after the other: a step that ends an episode is its last.
            episodes = np.concatenate([[0.0], np.cumsum(terminals)[:-1]])
        # Episodes in the order in which they began.
        _, first, which = np.unique(episodes, return_index=True, return_inverse=True)
        episodes = first[which]
        order = np.argsort(episodes, kind="stable")
        X, next_X, rewards, terminals = (a[order] for a in (X, next_X, rewards, terminals))
        changes = np.diff(episodes[order]) != 0
        begins, last = np.append(True, changes), np.append(changes, True)
        if self.next_prefix is None:
            next_X = np.concatenate([X[1:], X[-1:]])
            terminals = terminals | (last & self.ends)
            # After termination the next state is not used; truncated steps have no next state.
            next_X[last] = X[last]
            used = ~last | terminals
            if not used.any():
                raise ValueError(
                    "No row has a next one in its episode, so there is no transition. If the last "
                    "step of an episode ended it, say so by `ends` or a `terminal` column."
                )
            X, next_X, rewards = X[used], next_X[used], rewards[used]
            terminals, begins = terminals[used], begins[used]
        if not np.isfinite(rewards).all():
            bad = int((~np.isfinite(rewards)).sum())
            raise ValueError(
                f"The reward {self.reward!r} has no finite value in {bad:,} of {rewards.size:,} "
                "steps that have a next state. Fill it in, or remove the episodes."
            )
        return Transitions(X, rewards, next_X, terminals, begins)

    def measure(self, model: ValueFunction, data: Any) -> dict[str, float]:
        """Measure a value function on transitions that it has not learned.

        Parameters
        ----------
        model : ValueFunction
            Result of :meth:`fit`.
        data : path, pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Logged steps of the same policy.

        Returns
        -------
        measures : dict of str to float
            ``transitions``; ``mean_td_error`` and ``rms_td_error``, the mean (near 0 if values are
            right on average) and root mean square of the temporal differences; ``return_r2``, R² of
            the values against the discounted rewards that followed, over terminated episodes, if
            there are any.
        """
        rows = TableRows.of_tables(model)
        x, rewards, following, over, begins, _ = self.read(rows, data)
        assert begins is not None
        discount = model.discount
        values, ahead = rows.estimator.predict(x), rows.estimator.predict(following)
        errors = rewards + np.where(over, 0.0, discount) * ahead - values
        measures = {
            "transitions": float(errors.size),
            "mean_td_error": float(errors.mean()),
            "rms_td_error": float(np.sqrt(np.mean(errors**2))),
        }
        if self.next_prefix is None:
            returns = _returns(rewards, over, begins, discount)
            known = np.isfinite(returns)
            if known.sum() > 1 and np.ptp(returns[known]) > 0.0:
                missed = np.mean((returns[known] - values[known]) ** 2)
                measures["return_r2"] = float(1.0 - missed / returns[known].var())
        return measures

    # -- columns --------------------------------------------------------------------------------

    def _state_names(self, data: Any) -> list[str]:
        """Columns of the state, in the order of the table."""
        found = _names_of(data)
        named = [self.reward, self.episode, self.terminal, *self.states, *self.exclude]
        check_names([name for name in named if name is not None], found, "The table")
        if self.states:
            states = set(self.states)
            names = [name for name in found if name in states]
        else:
            other = {self.reward, self.episode, self.terminal, *self.exclude}
            names = [name for name in found if name not in other]
            if self.next_prefix is not None:
                known = set(found)
                names = [name for name in names if f"{self.next_prefix}{name}" in known]
        if not names:
            raise ValueError("No column of the state is left. Name them by `states`.")
        if self.next_prefix is not None:
            check_names([f"{self.next_prefix}{name}" for name in names], found, "The table")
        return names

    def _of_file(self, rows: TableRows, path: Any) -> Iterator[tuple[NDArray[Any], ...]]:
        """Read the steps of a file, table by table; text stays text, even if it is all digits."""
        names = [*rows.preprocessor.feature_names_in_]
        text = [*rows.text_columns_]
        if self.next_prefix is not None:
            names += [f"{self.next_prefix}{name}" for name in names]
            text += [f"{self.next_prefix}{name}" for name in text]
        names += [n for n in (self.reward, self.episode, self.terminal) if n is not None]
        types = {} if has_types(find_files(path)) else dict.fromkeys(text, "string")
        tables = read_tables(path, columns=names, column_types=types)
        return in_place(path, tables, lambda table: self._steps(rows, table))

    def _steps(self, rows: TableRows, table: Any) -> tuple[NDArray[Any], ...]:
        """Return inputs, next inputs, rewards, episodes and terminations of a table."""
        view = view_table(table)
        X = rows.inputs(table, extra="drop")
        rewards = view.column(self.reward)
        if isinstance(rewards, Levels):
            raise ValueError(
                f"The reward {self.reward!r} holds text or truth values, first "
                f"{rewards.first()!r}, but it must be a number."
            )
        episodes = np.zeros(len(X)) if self.episode is None else read_groups(table, self.episode)
        terminals = np.zeros(len(X), dtype=np.bool_)
        if self.terminal is not None:
            terminals = _truths(view.column(self.terminal), self.terminal)
        following = X
        if self.next_prefix is not None:
            names = rows.preprocessor.feature_names_in_
            following = rows.inputs(
                _renamed(table, {f"{self.next_prefix}{name}": name for name in names})
            )
        return X, following, rewards.values.astype(np.float64), episodes, terminals


def _names_of(data: Any) -> list[str]:
    return list(view_table(data).names) if is_table(data) else TableFiles.of(data).columns.names


def _renamed(table: Any, names: Mapping[str, str]) -> Any:
    """Return some columns of a table under other names."""
    if hasattr(table, "rename_columns"):  # Arrow
        return table.select(list(names)).rename_columns(list(names.values()))
    return {new: table[old] for old, new in names.items()}


def _truths(column: Any, name: str) -> NDArray[np.bool_]:
    """Truth values of a column, or of one of zeros and ones."""
    if isinstance(column, Levels):
        present, fits = column.codes, column.boolean and bool((column.codes >= 0).all())
    else:
        present, fits = column.values, bool(np.isin(column.values, (0.0, 1.0)).all())
    if not fits:
        raise ValueError(
            f"The column {name!r} must say in each row whether the episode ended for good, by "
            "truth values or 0 and 1, without gaps. An episode that was only cut off did not end."
        )
    return np.asarray(present == 1)


def _returns(rewards: Array, over: NDArray[np.bool_], begins: Any, discount: float) -> Array:
    """Discounted sums of rewards from each step on; NaN where the end was not seen."""
    returns = np.full(rewards.size, np.nan)
    stops = np.append(np.flatnonzero(begins)[1:], rewards.size) if rewards.size else ()
    ends = set(np.asarray(stops) - 1)
    ahead = np.nan
    for i in range(rewards.size - 1, -1, -1):
        if over[i]:
            ahead = 0.0
        elif i in ends:
            ahead = np.nan
        ahead = rewards[i] + discount * ahead
        returns[i] = ahead
    return returns
