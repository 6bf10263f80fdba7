"""Methods of models that tell which columns matter to them, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mercer.answers.explain import Dependence, Explained, Explanation, Importances
    from mercer.numerics.attribution import Effects

Array = NDArray[np.float64]


class Explaining:
    """``feature_importances_``, ``explain`` and ``partial_dependence``; not for direct use."""

    _importances: Importances | None = None
    #: Tells what explanations need; AttributeError if rows have no predictions.
    _explained: Callable[[], Explained]

    @property
    def feature_importances_(self) -> Array:
        r"""How much the prediction varies with each column, as shares of 1.

        The share of column j is :math:`T_j / \sum_i T_i`, where

        .. math:: T_j = \tfrac12 E \bigl(f(x) - f(x_{-j}, x'_j)\bigr)^2

        over rows x and x' among those that the model keeps (1,024 at most): what the prediction
        changes, squared, if the value of the column is that of another row. It is the total effect
        of Sobol, by Jansen's estimate. f is the prediction, of a classifier the score of each
        class, which for losses with probabilities is a log-odds: probabilities of a classifier that
        is sure move in the few rows that flip only. Terms of several outputs are added up; several
        targets count the same, whatever their units.

        Inputs that are made of one column count together, and columns that are left out have 0. All
        are 0 for a constant function. No target is looked at: what matters to a poor model may be
        of no use.

        Shape (n_features_in_,), or of a table's model one for each of its
        ``feature_names_in_``. It is computed when asked for and kept until the function changes;
        ``feature_importances_errors_`` tells how far the shares may be off.

        Raises
        ------
        AttributeError
            If the model is not fitted, answers on pairs of rows only, or learned sparse rows, of
            which it keeps none.
        """
        return self._shares().effects.copy()

    @property
    def feature_importances_errors_(self) -> Array:
        """Standard errors of ``feature_importances_``: not all rows are compared with all others.

        They say how far the shares of this function may be off, not how far those of a function
        learned with another seed or from other rows would be.

        Raises
        ------
        AttributeError
            As ``feature_importances_``.
        """
        return self._shares().standard_errors.copy()

    def _shares(self) -> Effects:
        """Return importances and their standard errors."""
        from mercer.answers.explain import importances

        self._importances = importances(self._explained(), self._importances)
        return self._importances.shares

    def explain(
        self,
        X: Any,
        *,
        output: Any = None,
        background: Any = None,
        n_permutations: int = 2,
        random_state: Any = 0,
    ) -> Explanation:
        r"""Say what each column adds to the prediction for each row.

        Contributions are Shapley values. With the columns of a set S from the row and all others
        from a background row, a column adds what it changes on average over all orders in which
        columns go from the background row to the row; the mean over the background rows is its
        contribution. The baseline is the mean prediction for these, and baseline and contributions
        sum to the prediction.

        Orders are drawn, and each is gone through forward and backward: contributions are exact
        where columns act alone or in twos, and where few columns differ (up to 5 with the usual
        ``n_permutations``), and are off by about their ``standard_errors`` elsewhere.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features); a table for a table's model
            Rows to explain, dense.
        output : object, default=None
            What to explain of several outputs: the label of a class, a quantile level, the number
            of a target. By default of two classes the second, of more for each row the one that is
            predicted, and of quantile levels the middle one. Of several targets it must be given.
        background : array-like, DataFrame or table, default=None
            Rows to compare with. By default up to 100 of those that the model has learned and
            keeps, fewer (down to 16) of more than 80 columns.
        n_permutations : int, default=2
            Orders of the columns for each background row.
        random_state : int, RandomState instance or None, default=0
            Seed of the orders.

        Returns
        -------
        explanation : Explanation
            Contributions in units of the prediction; of a classifier of the probability, or of the
            score if its loss has no probabilities.

        Raises
        ------
        AttributeError
            If the model is not fitted, or answers on pairs of rows only.
        ValueError
            For rows that the model cannot predict for, an output that is not there, or if there
            are no rows to compare with.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 3))
        >>> model = KernelRegressor(random_state=0).fit(X, 2.0 * X[:, 0] - X[:, 1])
        >>> told = model.explain([[1.0, 0.0, 0.5]], background=np.zeros((1, 3)))
        >>> np.round(told.contributions, 1) + 0.0
        array([[2., 0., 0.]])
        """
        from mercer.answers.explain import explanation

        return explanation(
            self._explained(),
            X,
            output=output,
            background=background,
            n_permutations=n_permutations,
            random_state=random_state,
        )

    def partial_dependence(
        self,
        feature: Any,
        *,
        grid: Any = None,
        grid_size: int = 40,
        output: Any = None,
        background: Any = None,
    ) -> Dependence:
        """Say how the prediction depends on one column, all others being as they are.

        Each background row is given each value of the grid in turn; the curve is the mean of the
        predictions, and those of the single rows are kept, too. Where columns go together, some of
        the rows are such as there are none.

        Parameters
        ----------
        feature : str or int
            Name or number of the column. Of a date "when" the names "when:hour", "when:weekday",
            "when:day" and "when:day_of_year" are its parts, where it has them; where dates of the
            grid are a day apart or more, rows keep their own times of the day, if they are weeks
            apart their weekdays, too, and if years apart their days of the year.
        grid : array-like, default=None
            Values of the column, in its own units: categories, numbers or times. By default those
            that background rows have if these are few, else equally spaced numbers from the 2.5 %
            to the 97.5 % quantile; of categories the most frequent ones.
        grid_size : int, default=40
            Largest number of values.
        output : object, default=None
            As for :meth:`explain`; without it, of more than two classes one must be named.
        background : array-like, DataFrame or table, default=None
            Rows whose predictions are averaged; those that the model keeps by default.

        Returns
        -------
        dependence : Dependence
            Values and curves, in units of the prediction.

        Raises
        ------
        AttributeError
            If the model is not fitted, or answers on pairs of rows only.
        ValueError
            If the column or the output is not there, is text and ``grid`` is not given, or if there
            are no rows.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
        >>> model = KernelRegressor(random_state=0).fit(X, X[:, 0] ** 2)
        >>> curve = model.partial_dependence(0, grid=[-0.5, 0.0, 0.5])
        >>> np.round(curve.values, 2) + 0.0
        array([0.25, 0.  , 0.25])
        """
        from mercer.answers.explain import dependence

        return dependence(
            self._explained(),
            feature,
            grid=grid,
            grid_size=grid_size,
            output=output,
            background=background,
        )
