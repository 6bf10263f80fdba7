"""Every table and figure of the papers, and theorems of the one without: what became of it here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

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
        The reason, in one to three short sentences.
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


_DRAWN_ANEW = "The paper's data are lost. New ones have a Bayes error near the paper's errors."
_AHEAD_AT_16 = (
    "POLK errs least with 16 points, as the paper says. With 129, projecting BSGD errs less."
)
_TEXTONS = (
    "The paper does not state its filters. With ours, errors are larger and merging BSGD leads."
)

CATALOGUE: tuple[Item, ...] = (
    *_items(
        "POLK",
        (
            "Table 1",
            "how step size and tolerance decide convergence",
            _REPRODUCED,
            "Falling steps converge. Constant ones end within the proved radius and model order.",
            ("polk-theorems",),
        ),
        (
            "Table 2",
            "multidist: loss, error and points of five methods",
            _IN_PART,
            _AHEAD_AT_16,
            ("polk-multidist",),
        ),
        (
            "Table 3",
            "MNIST and Brodatz: loss, error and points",
            _IN_PART,
            "On MNIST, K is a tenth of that printed. BSGD that merges points errs less than POLK.",
            ("polk-mnist", "polk-brodatz"),
        ),
        (
            "Fig. 1",
            "the three data sets",
            _CHANGED,
            "multidist is drawn anew. The texture images are like those of the paper.",
            ("polk-multidist", "polk-mnist", "polk-brodatz"),
        ),
        (
            "Fig. 2",
            "multidist, SVM: POLK and BSGD as rows come in",
            _IN_PART,
            _AHEAD_AT_16,
            ("polk-multidist",),
        ),
        (
            "Fig. 3",
            "multidist: the regions of the classes and the points kept",
            _CHANGED,
            _DRAWN_ANEW,
            ("polk-multidist",),
        ),
        (
            "Fig. 4",
            "multidist, logistic: POLK as rows come in",
            _CHANGED,
            _DRAWN_ANEW,
            ("polk-multidist",),
        ),
        (
            "Fig. 5",
            "MNIST, SVM: POLK and BSGD as rows come in",
            _IN_PART,
            "On MNIST, K is a tenth of that printed. BSGD that merges points errs less than POLK.",
            ("polk-mnist",),
        ),
        (
            "Fig. 6",
            "Brodatz, SVM: POLK and BSGD as rows come in",
            _IN_PART,
            _TEXTONS,
            ("polk-brodatz",),
        ),
        (
            "Fig. 7",
            "MNIST, logistic: POLK as rows come in",
            _CHANGED,
            "K had to be a tenth of that printed.",
            ("polk-mnist",),
        ),
        (
            "Fig. 8",
            "Brodatz, logistic: POLK as rows come in",
            _IN_PART,
            _TEXTONS,
            ("polk-brodatz",),
        ),
    ),
    *_items(
        "COLK",
        (
            "Table I",
            "number of points and rate of convergence, by theory",
            _CHANGED,
            "It states theorems. "
            "Error like step^0.91, squared gradient like step^1.01. Few points.",
            ("colk-table1",),
        ),
        (
            "Fig. 1",
            "objective, error, number of points, learned functions",
            _IN_PART,
            "The paper does not state its noise. "
            "COLK's objective is below BSGD's in 7 of ten kinds.",
            ("colk-fig1",),
        ),
        (
            "Fig. 2",
            "mean and spread of the errors over twenty training sets",
            _IN_PART,
            "COLK leads in mean in six of ten kinds of noise, in spread in two. "
            "Huber's loss leads in all.",
            ("colk-fig2",),
        ),
        (
            "Fig. 3",
            "LIDAR with outliers",
            _IN_PART,
            "COLK as printed can diverge. BSGD that merges and robust losses are ahead of it.",
            ("colk-fig3",),
        ),
        (
            "Example 1",
            "robust supervised learning",
            _IN_PART,
            "Any risk of mercer.risks can be learned. Risks lower the worst losses. "
            "Wrong labels mislead them.",
            ("colk-fig1", "colk-fig2", "colk-fig3", "colk-guidance"),
        ),
        (
            "Example 2",
            "policy evaluation",
            _CHANGED,
            "The paper measures nothing here. The chain and the pendulum are our own choice.",
            ("colk-policy",),
        ),
    ),
    *_items(
        "DSG",
        (
            "Table 1",
            "kernels and their features",
            _REPRODUCED,
            "All are in mercer.kernels. Tests compare the features with the kernels.",
        ),
        (
            "Table 2",
            "how computation and memory grow",
            _IN_PART,
            "Powers of rows are found, but Nyström's map keeps their square. Errors are not fixed.",
            ("dsg-costs",),
        ),
        (
            "Table 3",
            "computation and memory of a step",
            _REPRODUCED,
            "Steps and numbers kept grow by no larger powers than the table says.",
            ("dsg-costs",),
        ),
        (
            "Table 4",
            "the ten data sets",
            _IN_PART,
            "1, 2, 3, 5 are as printed. 4 and 6 have fewer copies, 7 is lossy, 9 similar. "
            "8 and 10 are missing.",
            (
                "dsg-gp",
                "dsg-ridge",
                "dsg-adult",
                "dsg-mnist-8-6",
                "dsg-covtype",
                "dsg-mnist",
                "dsg-cifar10",
                "dsg-qm7",
            ),
            "ImageNet, MolecularSpace",
        ),
        (
            "Fig. 1",
            "the angle between two gradients",
            _NONE,
            "It is a drawing that explains a proof.",
        ),
        ("Fig. 2", "the two parts of the error", _NONE, "It is a drawing that explains a proof."),
        (
            "Fig. 3",
            "structure of the neural networks",
            _NONE,
            "It is a drawing. The network of dsg-cifar10 is like it.",
        ),
        (
            "Fig. 4",
            "ridge regression: learned function, rate of convergence, time",
            _IN_PART,
            "The error falls like 1/t for the first hundred steps t, not over the whole run.",
            ("dsg-ridge",),
        ),
        (
            "Fig. 5",
            "Gaussian process: mean and variance",
            _REPRODUCED,
            "DSG comes as near to mean and variance as NORMA. "
            "Its error of the variance is half of it.",
            ("dsg-gp",),
        ),
        (
            "Fig. 6 (1, 4)",
            "Adult: SVM solvers",
            _CHANGED,
            "Newton steps on larger batches reach the errors. The paper's plain steps err more.",
            ("dsg-adult",),
        ),
        (
            "Fig. 6 (2, 5)",
            "MNIST, 8 against 6: SVM solvers",
            _CHANGED,
            "We have 12,000 plain digits, not 1.6 million distorted ones. "
            "DSG leads with Newton steps only.",
            ("dsg-mnist-8-6",),
        ),
        (
            "Fig. 6 (3, 6)",
            "forest cover types: SVM solvers",
            _IN_PART,
            "k-SDCA and NORMA err less. With the printed kernel DSG's plain steps err on 24 %.",
            ("dsg-covtype",),
        ),
        (
            "Fig. 7 (1)",
            "MNIST: against neural networks",
            _IN_PART,
            "We made 520,000 distorted digits. "
            "DSG is faster, but errs on .83 %, the network on .53 %.",
            ("dsg-mnist",),
        ),
        (
            "Fig. 7 (2)",
            "CIFAR-10: against neural networks",
            _IN_PART,
            "Our network learned 6 passes. It errs on 24.8 %, DSG on 30.0 %. "
            "The paper has 11 % for both.",
            ("dsg-cifar10",),
        ),
        (
            "Fig. 7 (3)",
            "ImageNet: against neural networks",
            _NOT,
            "We cannot get the 1.3 million images and a trained AlexNet.",
            (),
            "ImageNet 2012",
        ),
        (
            "Fig. 7 (4)",
            "QM7: against a neural network",
            _IN_PART,
            "DSG errs less than our network, but only with three times the time.",
            ("dsg-qm7",),
        ),
        (
            "Fig. 7 (5)",
            "MolecularSpace: against a neural network",
            _NOT,
            "We cannot get the 2.3 million molecules of the Clean Energy Project.",
            (),
            "MolecularSpace",
        ),
        (
            "Fig. 8",
            "how a molecule is turned into inputs",
            _REPRODUCED,
            "Orders of the atoms and predicates are made as in the paper's reference [30].",
            ("dsg-qm7",),
        ),
    ),
    *_items(
        "Y&Z",
        (
            "Theorem 1",
            "Algorithm 1 converges",
            _REPRODUCED,
            "The excess risk falls towards 0, also with steps that are no power of t.",
            ("yz-rates",),
        ),
        (
            "Theorem 2",
            "rate of convergence of Algorithm 1",
            _REPRODUCED,
            "The measured error falls at least as fast as the theorem says.",
            ("yz-rates",),
        ),
        (
            "Theorem 3",
            "rate of convergence of Algorithm 2",
            _REPRODUCED,
            "The measured error falls at least as fast as the theorem says.",
            ("yz-rates",),
        ),
        (
            "Theorem 4",
            "the same for losses whose slopes are bounded",
            _REPRODUCED,
            "The measured error falls at least as fast as the theorem says.",
            ("yz-rates",),
        ),
        (
            "Example 1",
            "q-norm hinge, Algorithm 1",
            _REPRODUCED,
            "The measured error falls at least as fast as the theorem says, for q = 1.5 and 2.",
            ("yz-rates",),
        ),
        (
            "Example 2",
            "logistic loss, Algorithm 1",
            _REPRODUCED,
            "The measured error falls at least as fast as the theorem says.",
            ("yz-rates",),
        ),
        (
            "Example 3",
            "squared hinge, Algorithm 2",
            _REPRODUCED,
            "The measured error falls at least as fast as the theorem says.",
            ("yz-rates",),
        ),
        (
            "Example 4",
            "logistic loss, Algorithm 2",
            _REPRODUCED,
            "The measured error falls at least as fast as the theorem says.",
            ("yz-rates",),
        ),
    ),
)

#: Experiments that repeat nothing of a paper, and the question that they answer.
OWN_STUDIES = {
    "polk-textons": "which filters may the textons be of",
    "dsg-losses": "does DSG reach the exact minimiser of every loss",
    "dsg-steps": "can the steps of the theorem be run",
    "colk-tracking": "how well does COLK track the mean loss inside its risk",
    "yz-memory": "how many points does an unregularised model keep",
    "yz-auc": "how much AUC does learning from pairs gain over rows",
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
    names = {
        "cifar10_jpeg": "cifar10",
        "cifar10_5k": "cifar10",
        "qm7_7101": "qm7",
        "protein_casp": "casp",
    }
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
