"""``mercer evaluate``, ``mercer predict`` and ``mercer inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from mercer.cli._console import guarded, note, print_result
from mercer.cli._evaluation import check_test_data, encoded_tables, evaluate, note_extra
from mercer.cli._files import check_writable, table_writer
from mercer.cli._report import ROWS_FOR_PICTURES, report, title_of
from mercer.data import schema
from mercer.data.columns import check_names
from mercer.estimators import TableModel
from mercer.inspection import describe, describe_pairs
from mercer.model_file import load_model

__all__ = ["evaluate_command", "inspect_command", "predict_command"]

ModelFile = Annotated[Path, typer.Argument(help="Model file written by `mercer fit`.")]
Data = Annotated[Path, typer.Argument(help="Parquet, CSV or Arrow: a file, a folder or a glob.")]


def load_table_model(path: Path) -> TableModel:
    """Load a model of tables.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it is no model of tables.
    """
    model = _load(path)
    if not isinstance(model, TableModel):
        raise ValueError(
            f"{path} holds a {type(model).__name__} of arrays without named columns, as `save` "
            "writes it. Use `mercer.load_model` in Python, or train with `mercer fit`."
        )
    return model


def _load(path: Path) -> Any:
    if not path.exists():
        raise FileNotFoundError(f"There is no model file {path}.")
    return load_model(path)


@guarded
def evaluate_command(
    model: ModelFile,
    data: Data,
    target: Annotated[
        str | None, typer.Option(help="Column of the targets, if named otherwise than in training.")
    ] = None,
    outlier: Annotated[
        str | None,
        typer.Option(help="Value of the target that marks novel rows; else the rarer of two."),
    ] = None,
    report_file: Annotated[
        Path | None, typer.Option("--report", help="HTML report to write.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure a model on data that it has not learned.

    Classification: error, balanced error (mean over the classes), log loss where the model has
    probabilities, AUC for two classes, and the error of the commonest class. Regression, in units
    of the target: MSE, RMSE, MAE, R²; for quantiles pinball loss and coverage; for a Gaussian
    process mean log predictive density and coverage of the 90 % intervals. Regression, and
    classification with a risk: mean, value at risk and CVaR (mean of the worst) of the model's own
    loss; squared is half the squared error. Novelty: share of the rows found novel and, where
    labels are known, share of the novel rows found, false alarms and AUC. Ranking: AUC for two
    classes, with its standard error; else the share of pairs in the right order; within groups, if
    it has any, with the mean NDCG of their first 10 rows. Columns that training did not have are
    named and not looked at.
    """
    if report_file is not None:
        check_writable(report_file, data, model, endings=(".html", ".htm"))
    loaded = load_table_model(model)
    n_keep = 0 if report_file is None else ROWS_FOR_PICTURES
    name = check_test_data(loaded, data, target=target, outlier=outlier)
    note_extra(loaded, data, name)
    evaluation = evaluate(loaded, data, target=target, outlier=outlier, n_keep=n_keep)
    print_result(evaluation.measures, title=f"{model} on {data}", as_json=as_json)
    if report_file is not None:
        report(
            report_file,
            loaded,
            title=title_of(loaded, f"{model.name} on {data.name}"),
            evaluation=evaluation,
            settings={"test data": str(data)},
        )
        note(f"{report_file}: report")


@guarded
def predict_command(
    model: ModelFile,
    data: Data,
    out: Annotated[Path, typer.Option(help="Table to write: .parquet or .csv.")],
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Column of DATA to copy, such as an id; may be repeated."),
    ] = None,
) -> None:
    """Predict for every row of a table, in order.

    Writes `prediction` (quantiles: `quantile_<level>`) and, for classes, `probability_<class>` or,
    where the loss has no probabilities, `score` (more than two classes: `score_<class>`). For
    novelty `prediction` is -1 for a novel row, else 1, and `score` is below 0 for a novel row. A
    Gaussian process adds `std`, the standard deviation of a new observation about its prediction.
    A ranking writes `score` only: rows with higher ones rank above. The target is not looked at,
    and neither are columns that training did not have, which are named.
    """
    check_writable(out, data, model, endings=(".parquet", ".pq", ".csv"))
    loaded = load_table_model(model)
    if loaded.task == "rank" and not loaded.scores_rows:
        raise ValueError(
            f"{model} answers on pairs of rows, not on rows: its pair kernel is "
            f"{describe_pairs(loaded)['pair_kernel']}. In Python, "
            f"`mercer.load_model({model.name!r}).predict_pair(table1, table2)` gives the values of "
            "pairs of rows of two tables. Or train with `--pair-kernel difference`, which gives "
            "scores."
        )
    kept = list(dict.fromkeys(keep or []))
    check_names([*loaded.preprocessor.feature_names_in_, *kept], schema(data).names, f"{data}")
    note_extra(loaded, data, *kept)
    n_rows = 0
    with table_writer(out) as writer:
        for table, X, _ in encoded_tables(loaded, data, more=kept):
            predicted = predictions(loaded, X)
            clash = sorted(set(kept) & set(predicted))
            if clash:
                raise ValueError(
                    f"`--keep {clash[0]}` has the name of a column of the predictions. Rename it."
                )
            writer.write({**{name: table.column(name) for name in kept}, **predicted})
            n_rows += len(X)
        if not n_rows:
            raise ValueError(f"{data} holds no rows, so there is nothing to predict.")
    note(f"{out}: {n_rows:,} predictions")


def predictions(model: TableModel, X: NDArray[np.floating]) -> dict[str, NDArray[Any]]:
    """Columns of predictions for encoded rows."""
    estimator: Any = model.estimator
    predicted = model.predict_inputs(X)
    if model.task == "rank":
        return {"score": predicted}
    if predicted.ndim == 2:
        levels = np.atleast_1d(np.asarray(estimator.loss_.levels, dtype=float))
        return {f"quantile_{t:g}": q for t, q in zip(levels, predicted.T.copy(), strict=True)}
    columns: dict[str, NDArray[Any]] = {"prediction": predicted}
    if model.task == "gp":
        return {**columns, "std": model.predict_std(X)}
    if model.task == "regression":
        return columns
    if model.task == "novelty":
        return {**columns, "score": estimator.decision_function(X)}
    classes = estimator.classes_.tolist()
    if hasattr(estimator, "predict_proba"):
        values, kind = estimator.predict_proba(X), "probability"
    else:
        values, kind = estimator.decision_function(X), "score"
    if values.ndim == 1:
        return {**columns, kind: values}
    named = zip(classes, values.T, strict=True)
    return {**columns, **{f"{kind}_{c}": np.ascontiguousarray(v) for c, v in named}}


@guarded
def inspect_command(
    model: Annotated[Path, typer.Argument(help="Model file or checkpoint.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what is in a model file."""
    values = {"file": str(model), "bytes": 0, **describe(_load(model))}
    values["bytes"] = model.stat().st_size
    print_result(values, title=str(model), as_json=as_json)
