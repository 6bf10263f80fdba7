"""Export fitted models as single Python files that need only NumPy."""

from __future__ import annotations

import os
from typing import Any

from mercer.model_file import replacing
from mercer_app.export.trees import ExportError, source_of

__all__ = ["ExportError", "export_python"]


def export_python(model: Any, path: str | os.PathLike[str]) -> int:
    """Write a fitted model as one Python file that predicts without mercer.

    The file imports NumPy and the standard library. It has the model's numbers in it, and the
    functions ``predict``, for classes with probabilities ``predict_proba``, and for classes,
    novelty and rankings ``decision_function``. Before it is written, what it predicts is compared
    with the model on a few rows.

    Parameters
    ----------
    model : estimator
        A fitted KernelClassifier, KernelRegressor, KernelRanker, NoveltyDetector,
        GaussianProcessRegressor or ValueFunction. The file of one that learned tables takes rows
        with named columns: numbers, categories, dates and gaps.
    path : str or path-like
        File to write; an existing one is replaced once the new one is complete.

    Returns
    -------
    size : int
        Bytes written.

    Raises
    ------
    mercer_app.export.ExportError
        If the model cannot be exported; the message says why. Not supported are the default for
        streams, random features, rankings of pairs, columns of free text, kernels and maps other
        than those chosen by defaults, and user-defined losses.
    sklearn.exceptions.NotFittedError
        If the model has not learned any rows.
    OSError
        If the file cannot be written.

    Notes
    -----
    Files have the default of tables, dictionaries, points with coefficients (as of KOMP) and the
    means of Gaussian processes. Models in single precision (`precision` of their expansion, or as
    the default chooses) are evaluated in double precision on the same numbers, so that they differ
    by the rounding errors of the model.

    Examples
    --------
    >>> import runpy, tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from mercer import KernelClassifier
    >>> from mercer_app.export import export_python
    >>> X, y = load_iris(return_X_y=True)
    >>> path = Path(tempfile.mkdtemp()) / "iris.py"
    >>> size = export_python(KernelClassifier(random_state=0).fit(X, y), path)
    >>> predict = runpy.run_path(str(path))["predict"]
    >>> predict(X[::50])
    array([0, 1, 2])
    """
    text = source_of(model).encode()
    with replacing(path) as file:
        file.write_bytes(text)
    return len(text)
