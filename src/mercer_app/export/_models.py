"""Fitted models as trees, and the Python files that they become."""

from __future__ import annotations

import ast
import base64
import inspect
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer import __version__
from mercer.columns import TablePreprocessor
from mercer.columns.null_values import NullValues
from mercer.estimators import (
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
)
from mercer.estimators.estimator import without_columns
from mercer.functions import SumOfComponents
from mercer.losses import Loss, Poisson
from mercer.sums import GlobalPart
from mercer_app.export import _answers, _runtime
from mercer_app.export._functions import function_tree, posterior_tree
from mercer_app.export._kernels import ExportError, Tree, map_tree
from mercer_app.export.columns import gaps_tree, modules_of, probe_table, table_tree

# What an exported model may differ by before it is refused, usually and at most, in units of its
# largest value: models in single precision differ by their own rounding errors.
_USUALLY, _AT_MOST = 1e-3, 5e-2
_PROBES = 64
_LINE = 120  # characters of base 64


def _tree(task: str, function: Tree, n_features: int, n_scores: int, **more: Any) -> Tree:
    usual = {
        "table": None,
        "classes": None,
        "link": None,
        "intercept": 0.0,
        "scale": 1.0,
        "moments": None,
        "offset": 0.0,
        "flat": True,
        "gaps": gaps_tree(NullValues()),
    }
    return {
        "task": task,
        "n_features": n_features,
        "n_scores": n_scores,
        "size": _size(function),
        "function": function,
        **usual,
        **more,
    }


def _size(tree: Any) -> int:
    """Return the number of coefficients, which determines how many rows are evaluated at a time."""
    if isinstance(tree, list):
        return sum(map(_size, tree))
    if not isinstance(tree, dict):
        return 0
    own = len(tree["coefficients"]) if isinstance(tree.get("coefficients"), np.ndarray) else 0
    return own + sum(map(_size, tree.values()))


def model_tree(model: Any) -> Tree:
    """Return a fitted model as a tree.

    Raises
    ------
    ExportError
        If a part of the model cannot be exported.
    """
    if _reads_tables(model):
        return _of_tables(model)
    if isinstance(model, GaussianProcessRegressor):
        check_is_fitted(model, "posterior_")
        function, mean = posterior_tree(model.posterior_)
        n_outputs = int(np.size(mean))
        flat = np.ndim(model.predict(np.zeros((1, model.n_features_in_)))) == 1
        return _tree(
            "gp",
            function,
            model.n_features_in_,
            n_outputs,
            intercept=mean,
            flat=flat,
            moments=_moments_of(model),
        )
    tasks = {
        KernelClassifier: ("classification", _of_classes),
        KernelRegressor: ("regression", _of_quantities),
        KernelRanker: ("rank", _of_scores),
        NoveltyDetector: ("novelty", _of_novelty),
        ValueFunction: ("value", _of_values),
    }
    if type(model) not in tasks:
        raise ExportError(
            f"A {type(model).__name__} cannot be exported. Export a KernelClassifier, "
            "KernelRegressor, KernelRanker, NoveltyDetector, GaussianProcessRegressor or "
            "ValueFunction."
        )
    check_is_fitted(model, "learner_")
    if getattr(model, "_columns", None) is not None:
        at_once = isinstance(model._columns, TablePreprocessor)
        raise ExportError(
            f"This {type(model).__name__} learned columns with gaps, text, categories or dates "
            + ("that have no names" if at_once else "as a stream")
            + ". Exported files know such columns of a DataFrame that `fit` has learned: learn "
            "one, or load the model with mercer."
        )
    task, more = tasks[type(model)]
    if task == "rank" and not hasattr(model, "decision_function"):
        raise ExportError(
            f"This ranking, pair_kernel={model.pair_kernel!r}, answers on pairs of rows, not on "
            "rows. Train with pair_kernel='difference'."
        )
    function = function_tree(model.learner_.current_function())
    if model._map is not None:
        function = {"kind": "behind", "map": map_tree(model._map), "function": function}
    if model._level is not None:
        function = {"kind": "levelled", "level": model._level, "function": function}
    n_scores = model.targets_.n_scores if task != "value" else 1
    return _tree(task, function, model.n_features_in_, n_scores, **more(model))


def _of_classes(model: KernelClassifier) -> Tree:
    _check_loss(model.loss_)
    link = type(model.loss_).__name__.lower() if hasattr(model, "predict_proba") else None
    classes = np.array(model.classes_.tolist())
    if classes.dtype.kind not in "biufU" or classes.shape != model.classes_.shape:
        raise ExportError(
            f"The classes {model.classes_[:5]!r} are neither numbers, truth values nor text, which "
            "is all that an exported file holds. Number them."
        )
    return {"classes": classes, "link": link}


def _of_quantities(model: KernelRegressor) -> Tree:
    _check_loss(model.loss_)
    return {
        "intercept": np.array(model.targets_.intercept),
        "scale": np.array(model.targets_.unit),
        "moments": _moments_of(model),
        "link": "exponential" if isinstance(model.loss_, Poisson) else None,
        "flat": bool(model.targets_.flat),
    }


def _check_loss(loss: Loss) -> None:
    if not type(loss).__module__.startswith("mercer.losses"):
        raise ExportError(
            f"The loss {loss!r} is code of your own, and says what predictions are of scores. Use "
            "one of mercer.losses."
        )


def _of_scores(model: Any) -> Tree:
    return {}


def _of_values(model: ValueFunction) -> Tree:
    return {"scale": np.array([model.targets_.scale])}


def _of_novelty(model: NoveltyDetector) -> Tree:
    return {"offset": float(model.offset_)}


def _reads_tables(model: Any) -> bool:
    """Whether a model makes inputs of columns with names."""
    columns = getattr(model, "_columns", None)
    return isinstance(columns, TablePreprocessor) and hasattr(model, "feature_names_in_")


def _of_tables(model: Any) -> Tree:
    tree = model_tree(without_columns(model))
    tree["table"] = table_tree(model.preprocessor_)
    tree["gaps"] = gaps_tree(model.preprocessor_.nulls_)
    if tree["task"] in ("regression", "gp"):
        tree["moments"] = _moments_of(model)
    return tree


def _moments_of(model: Any) -> Any:
    """Return how dates or times are answered; None for numbers."""
    return None if model.target_form_ is None else model.target_form_.moments


# -- checking --------------------------------------------------------------------------------------


def check_tree(tree: Tree, model: Any) -> None:
    """Compare what a tree predicts with the model, on a few rows.

    Raises
    ------
    ExportError
        If they differ by more than rounding errors of single precision.
    """
    # Dates are compared as numbers.
    exported = _answers.Model({**tree, "table": None, "moments": None})
    estimator = without_columns(model)
    rows: Any = None
    if _reads_tables(model):
        table = probe_table(model.preprocessor_)
        rows = model.preprocessor_.transform(table, extra="drop")
        found = _answers.encoded(tree["table"], table)
        if not np.allclose(found, rows):
            at = int(np.argmax(np.abs(found - rows).max(axis=0)))
            name = model.preprocessor_.feature_names_out()[at]
            raise ExportError(
                f"The input {name!r} is made of its column in a way that exported files do not "
                "know. Leave the column out, or load the model with mercer."
            )
    else:
        rows = _probes(model)
    scored = hasattr(estimator, "decision_function")
    if scored:
        expected, found = estimator.decision_function(rows), exported.decision_function(rows)
    else:
        expected = estimator.predict(rows)
        found = exported.predict(rows)
    largest = float(np.abs(expected).max(initial=0.0))
    differ = np.abs(np.asarray(found) - expected)
    fits = np.median(differ) <= _USUALLY * largest and differ.max() <= _AT_MOST * largest
    if not fits:
        raise ExportError(
            f"The exported model would differ from this one by up to {float(differ.max()):.2g} "
            f"where its values reach {largest:.2g}. This is a fault of mercer: please report it, "
            "and load the model with mercer until then."
        )


def _probes(model: Any) -> NDArray[Any]:
    """Return some rows to compare a model of arrays on: of its points, if it has any."""
    n = model.n_features_in_
    rows = np.abs(np.random.default_rng(0).normal(size=(_PROBES, n)))
    learner = getattr(model, "learner_", None)
    function = None if learner is None else learner.current_function()
    if isinstance(function, SumOfComponents):
        parts = [part for _, part in function.used if isinstance(part, GlobalPart)]
        found = [part.dictionary[:_PROBES] for part in parts]
    else:
        found = [p[:_PROBES] for p in [getattr(model, "dictionary_", None)] if p is not None]
    found = [np.asarray(points, dtype=np.float64) for points in found if len(points)]
    return np.concatenate(found) if found else rows


# -- files -----------------------------------------------------------------------------------------


def source_of(model: Any) -> str:
    """Return the text of a Python file that predicts as a model does.

    Raises
    ------
    ExportError
        If it cannot be exported.
    """
    tree = model_tree(model)
    check_tree(tree, model)
    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_without_arrays(tree, arrays), allow_nan=False)
    archive = io.BytesIO()
    np.savez_compressed(archive, **arrays)  # type: ignore[arg-type]
    packed = base64.b64encode(archive.getvalue()).decode()
    lines = "\n".join(packed[i : i + _LINE] for i in range(0, len(packed), _LINE))
    return "\n".join([_head(model, tree), _runtime_text(tree), *_tail(tree, text, lines)])


def _without_arrays(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Put names in the place of arrays."""
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, dict):
        return {key: _without_arrays(each, arrays) for key, each in value.items()}
    return [_without_arrays(each, arrays) for each in value] if isinstance(value, list) else value


def _runtime_text(tree: Tree) -> str:
    """Return the text of the modules that predict, as one module without a docstring."""
    imports: dict[str, None] = {}
    bodies = []
    for module in (*modules_of(tree), _runtime, _answers):
        source, last = inspect.getsource(module), 0
        for node in ast.parse(source).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                if not (getattr(node, "module", None) or "").startswith("mercer"):
                    imports[ast.unparse(node)] = None
            elif not ast.unparse(node).startswith("__all__ ="):
                continue
            last = node.end_lineno or 0
        bodies.append("\n".join(source.splitlines()[last:]).strip("\n"))
    future, *others = sorted(imports, key=_place_of_import)
    return "\n".join([future, "", *others, "", "\n\n\n".join(bodies), ""])


def _place_of_import(line: str) -> tuple[bool, bool, bool, str]:
    return "__future__" not in line, "numpy" in line, line.startswith("from"), line


def _head(model: Any, tree: Tree) -> str:
    answers = ", ".join(f"{name}(rows)" for name in _answers_of(tree))
    if tree["table"] is None:
        rows = f"rows: an array of shape (n_rows, {tree['n_features']})"
    else:
        names = [column["name"] for column in tree["table"]["columns"]]
        rows = (
            "rows: a dict of columns, a list of dicts, or a data frame, with the columns\n"
            f"{json.dumps(names)}"
        )
    text = (
        f"{type(model).__name__}, exported by mercer {__version__}. Needs NumPy only.\n\n"
        f"{answers}\n{rows}\n\n"
        "As a program it takes a CSV file and writes predictions as CSV."
    )
    # Names of columns are any text: none may end the docstring.
    return f"{_docstring(text)}\n"


def _docstring(text: str) -> str:
    return '"""' + text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') + '\n"""'


def _answers_of(tree: Tree) -> Iterator[str]:
    yield "predict"
    if tree["link"] in ("logistic", "softmax"):
        yield "predict_proba"
    if tree["task"] in ("classification", "novelty", "rank"):
        yield "decision_function"


def _tail(tree: Tree, text: str, lines: str) -> Iterator[str]:
    yield f"\n_TREE = {text!r}\n"
    yield f'_ARRAYS = """\n{lines}\n"""\n'
    yield "model = load(_TREE, _ARRAYS)"
    for name in _answers_of(tree):
        yield f"{name} = model.{name}"
    yield '\nif __name__ == "__main__":\n    main(model, sys.argv[1:])\n'
