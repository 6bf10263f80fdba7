"""Every table and figure of the papers, and theorems of the one without: what became of it here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "CATALOGUE",
    "OWN_STUDIES",
    "PAPERS",
    "STATES",
    "Item",
    "data_sets",
    "run_minutes",
]

PAPERS = {
    "POLK": "Parsimonious Online Learning with Kernels via sparse projections in function space",
    "COLK": (
        "Nonparametric Compositional Stochastic Optimization for Risk-Sensitive Kernel Learning"
    ),
    "DSG": "Scalable Kernel Methods via Doubly Stochastic Gradients",
    "Y&Z": "Ying and Zhou, Unregularized Online Learning Algorithms with General Loss Functions",
}

_REPRODUCED, _CHANGED, _IN_PART = "reproduced", "changed settings", "in part"
_NOT, _NONE = "not reproducible", "no experiment"
STATES = {
    _REPRODUCED: "done again, and what the paper says is found",
    _CHANGED: "done again with other data or settings, and what the paper says is found with them",
    _IN_PART: "done again, and not all that the paper says is found",
    _NOT: "cannot be done again here",
    _NONE: "there is nothing to measure",
}


@dataclass(frozen=True)
class Item:
    """A table, a figure, a theorem or an example of a paper.

    Attributes
    ----------
    paper : str
        Key of ``PAPERS``.
    place : str
        Its name there.
    shows : str
        What it shows, in a few words.
    state : str
        Key of ``STATES``.
    why : str
        The reason, in a clause.
    experiments : tuple of str
        Experiments that do it again.
    unavailable : str
        Data that are not to be had.
    """

    paper: str
    place: str
    shows: str
    state: str
    why: str
    experiments: tuple[str, ...] = ()
    unavailable: str = ""


def _items(paper: str, *rows: tuple[Any, ...]) -> tuple[Item, ...]:
    return tuple(Item(paper, *row) for row in rows)


_DRAWN_ANEW = "the paper's draw is lost; drawn anew with its Bayes error"
_AHEAD_AT_16 = "drawn anew with the paper's Bayes error; POLK leads at 16 points, not at 129"
_TEXTONS = "filters and textons are not stated; with ours errors are larger, merging is ahead"

CATALOGUE: tuple[Item, ...] = (
    *_items(
        "POLK",
        ("Table 1", "convergence by step size and tolerance", _NONE,
         "a table of theorems; that no step exceeds its tolerance is tested"),
        ("Table 2", "multidist: risk, error, points of five methods", _IN_PART, _AHEAD_AT_16,
         ("polk-multidist",)),
        ("Table 3", "MNIST and Brodatz: risk, error, points", _IN_PART,
         "parsimony a tenth of that printed; merging BSGD is not worse than POLK",
         ("polk-mnist", "polk-brodatz")),
        ("Fig. 1", "the three data sets", _CHANGED,
         "multidist is drawn anew, the textures are like those of the paper",
         ("polk-multidist", "polk-mnist", "polk-brodatz")),
        ("Fig. 2", "multidist, SVM: POLK and BSGD by samples", _IN_PART, _AHEAD_AT_16,
         ("polk-multidist",)),
        ("Fig. 3", "multidist: decisions and dictionary", _CHANGED, _DRAWN_ANEW,
         ("polk-multidist",)),
        ("Fig. 4", "multidist, logistic: POLK by samples", _CHANGED, _DRAWN_ANEW,
         ("polk-multidist",)),
        ("Fig. 5", "MNIST, SVM: POLK and BSGD by samples", _IN_PART,
         "parsimony a tenth of that printed; merging BSGD is not worse than POLK", ("polk-mnist",)),
        ("Fig. 6", "Brodatz, SVM: POLK and BSGD by samples", _IN_PART, _TEXTONS,
         ("polk-brodatz",)),
        ("Fig. 7", "MNIST, logistic: POLK by samples", _CHANGED,
         "parsimony a tenth of that printed", ("polk-mnist",)),
        ("Fig. 8", "Brodatz, logistic: POLK by samples", _IN_PART, _TEXTONS, ("polk-brodatz",)),
    ),
    *_items(
        "COLK",
        ("Table I", "model order and rate, by theory", _CHANGED,
         "states theorems; ours measures: error like step^0.91, points far below the bound",
         ("colk-table1",)),
        ("Fig. 1", "objective, error, points, functions", _IN_PART,
         "noise is not stated; POLK with COLK's step is as good where there are no outliers",
         ("colk-fig1",)),
        ("Fig. 2", "errors over twenty training sets", _IN_PART,
         "lowest mean and deviation in two of ten kinds of noise; Huber's loss is lower in all",
         ("colk-fig2",)),
        ("Fig. 3", "LIDAR with outliers", _IN_PART,
         "diverges as printed; no gain over POLK with COLK's step, much by robust losses",
         ("colk-fig3",)),
        ("Example 1", "robust supervised learning", _IN_PART,
         "any risk of mercer.risks; it cuts tails, but does not resist wrong labels",
         ("colk-fig1", "colk-fig2", "colk-fig3", "colk-guidance")),
        ("Example 2", "policy evaluation", _CHANGED,
         "the paper measures nothing; chain and pendulum are ours", ("colk-policy",)),
    ),
    *_items(
        "DSG",
        ("Table 1", "kernels and their features", _REPRODUCED,
         "all in mercer.kernels, tested against the kernels"),
        ("Table 2", "computation and memory, orders of growth", _NONE,
         "bounds; seconds of the methods stand in the tables of Fig. 4 and 6"),
        ("Table 3", "computation and memory of a step", _NONE,
         "bounds; seconds of the methods stand in the tables of Fig. 4 and 6"),
        ("Table 4", "the ten data sets", _IN_PART,
         "(1), (2), (3), (5) as printed; (4), (6), (7) smaller; (9) similar; no (8), (10)",
         ("dsg-gp", "dsg-ridge", "dsg-adult", "dsg-mnist-8-6", "dsg-covtype", "dsg-mnist",
                 "dsg-cifar10", "dsg-qm7"), "ImageNet, MolecularSpace"),
        ("Fig. 1", "angle of two gradients", _NONE, "a drawing for a proof"),
        ("Fig. 2", "two parts of the error", _NONE, "a drawing for a proof"),
        ("Fig. 3", "structure of the neural nets", _NONE,
         "a drawing; the net of dsg-cifar10 is a smaller one"),
        ("Fig. 4", "ridge regression: function, rate, time", _REPRODUCED,
         "1/t for the first hundred steps, more slowly after them", ("dsg-ridge",)),
        ("Fig. 5", "Gaussian process: mean and variance", _REPRODUCED,
         "variance at 32 of the 1,024 points", ("dsg-gp",)),
        ("Fig. 6 (1, 4)", "Adult: SVM solvers", _CHANGED, "larger batches, Newton steps",
         ("dsg-adult",)),
        ("Fig. 6 (2, 5)", "MNIST 8 or 6: SVM solvers", _CHANGED,
         "12,000 plain digits for 1.6 million distorted ones; ours leads here, too",
         ("dsg-mnist-8-6",)),
        ("Fig. 6 (3, 6)", "Forest covers: SVM solvers", _IN_PART,
         "in equal time k-SDCA leads as well as NORMA; narrower kernel", ("dsg-covtype",)),
        ("Fig. 7 (1)", "MNIST: neural nets", _CHANGED,
         "60,000 plain images for 8 million distorted ones, no convolutions", ("dsg-mnist",)),
        ("Fig. 7 (2)", "CIFAR-10: neural nets", _IN_PART,
         "4,000 images for 50,000, a smaller net, which errs less by two images of 1,000",
         ("dsg-cifar10",)),
        ("Fig. 7 (3)", "ImageNet: neural nets", _NOT,
         "1.3 million images and a trained AlexNet are not to be had", (), "ImageNet 2012"),
        ("Fig. 7 (4)", "QM7: a neural net", _IN_PART,
         "7,101 molecules, energies computed anew; the paper's net is not reached", ("dsg-qm7",)),
        ("Fig. 7 (5)", "MolecularSpace: a neural net", _NOT,
         "2.3 million molecules of the Clean Energy Project are not to be had", (),
         "MolecularSpace"),
        ("Fig. 8", "from a molecule to inputs", _REPRODUCED,
         "random Coulomb matrices and their steps, each tested", ("dsg-qm7",)),
    ),
    *_items(
        "Y&Z",
        ("Theorem 1", "Algorithm 1 converges", _REPRODUCED,
         "the excess risk of the last iterate falls towards 0", ("yz-rates",)),
        ("Theorem 2", "rate of Algorithm 1", _REPRODUCED, "measured rates keep within the bound",
         ("yz-rates",)),
        ("Theorem 3", "rate of Algorithm 2", _REPRODUCED, "measured rates keep within the bound",
         ("yz-rates",)),
        ("Theorem 4", "the same, bounded slopes", _REPRODUCED,
         "measured rates keep within the bound", ("yz-rates",)),
        ("Example 1", "q-norm hinge, Algorithm 1", _IN_PART,
         "measured for q = 2; for smaller q only slopes and steps are tested", ("yz-rates",)),
        ("Example 2", "logistic loss, Algorithm 1", _REPRODUCED,
         "measured rates keep within the bound", ("yz-rates",)),
        ("Example 3", "squared hinge, Algorithm 2", _REPRODUCED,
         "measured rates keep within the bound", ("yz-rates",)),
        ("Example 4", "logistic loss, Algorithm 2", _REPRODUCED,
         "measured rates keep within the bound", ("yz-rates",)),
    ),
)  # fmt: skip

#: Experiments that repeat nothing of a paper, and the question that they answer.
OWN_STUDIES = {
    "dsg-losses": "does every loss of DSG reach its exact minimiser",
    "colk-tracking": "how well is the inner expectation tracked",
    "yz-memory": "what does an unregularised model keep",
    "yz-auc": "what do pairs gain in AUC over rows",
    "yz-buffers": "how many earlier rows does a pair need",
    "yz-same-digit": "can a similarity be learned from agreement",
    "yz-ranking": "can an order be learned from pairs",
}


def data_sets(files: tuple[str, ...]) -> str:
    """Short names of the data that files of the data directory hold.

    Examples
    --------
    >>> data_sets(("adult_train.parquet", "adult_test.parquet", "cifar10_5k.npz"))
    'adult, cifar10'
    """
    stems = (Path(name).stem for name in files)
    short = (stem.removesuffix("_train").removesuffix("_test") for stem in stems)
    names = {"cifar10_5k": "cifar10", "qm7_7101": "qm7", "protein_casp": "casp"}
    return ", ".join(dict.fromkeys(names.get(name, name) for name in short))


def run_minutes(names: tuple[str, ...]) -> tuple[float, bool] | None:
    """CPU minutes of the committed full runs of experiments.

    Parameters
    ----------
    names : tuple of str
        Of experiments.

    Returns
    -------
    minutes, exact : (float, bool) or None
        Not exact: at least so many. None: not recorded for one of them, or none is named.
    """
    found = [_run_times().get(name) for name in names]
    times = [time for time in found if time is not None]
    if not times or len(times) < len(found):
        return None
    return sum(time["cpu_minutes"] for time in times), all(time["exact"] for time in times)


@cache
def _run_times() -> Mapping[str, Any]:
    # Written by benchmarks/reproduce.py from the records of the runs.
    times: Mapping[str, Any] = json.loads(Path(__file__).with_name("run_times.json").read_text())
    return times
