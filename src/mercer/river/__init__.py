"""River estimators over mercer's own: ``learn_one``, ``predict_one``, pipelines, evaluation.

Needs River (``pip install "mercer[river]"``), which only this module imports.

>>> from river import datasets, evaluate, metrics
>>> from mercer.river import Classifier
>>> rows = datasets.Phishing().take(300)
>>> result = evaluate.progressive_val_score(rows, Classifier(seed=0), metrics.Accuracy())
>>> result.get() > 0.8
True
"""

try:
    from mercer.river.anomaly import AnomalyDetector
    from mercer.river.supervised import Classifier, Regressor
except ImportError as error:
    if (error.name or "").partition(".")[0] != "river":
        raise
    from importlib.util import find_spec

    state = "none is installed" if find_spec("river") is None else "this one is older"
    raise ImportError(
        f"mercer.river needs River 0.26 or newer, and {state}. Install it with "
        '`pip install "mercer[river]"`. The estimators of mercer itself have `learn_one` and '
        "`predict_one`, and need no River.",
        name=error.name,
    ) from error

__all__ = ["AnomalyDetector", "Classifier", "Regressor"]
