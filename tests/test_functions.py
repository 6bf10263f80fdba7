"""Which function an expansion starts."""

import pytest

from mercer import expansions
from mercer.expansions import (
    ALD,
    KOMP,
    Auto,
    Budget,
    Dictionary,
    Expansion,
    FixedBudget,
    Full,
    Quantized,
    RandomFeatures,
    RecursiveLeastSquares,
    Stream,
    Tracking,
)
from mercer.functions import (
    DictionaryFunction,
    FeatureExpansion,
    KernelExpansion,
    RecursiveFunction,
    SumOfComponents,
    start,
)
from mercer.kernels import Gaussian


class Thrifty(KOMP):
    """An expansion of one's own that only has other parameters."""


class Doubled(RandomFeatures):
    """One that brings a function of its own, made from that of the library."""

    def start(self, kernel, n_features, n_outputs, dtype="f8", averaging=None):
        return FeatureExpansion(kernel, self, n_features, 2 * n_outputs, averaging)


STARTED = [
    (KOMP(), KernelExpansion),
    (Full(), KernelExpansion),
    (Budget(10), KernelExpansion),
    (Thrifty(), KernelExpansion),
    (Quantized(0.1), KernelExpansion),
    (ALD(), RecursiveFunction),
    (FixedBudget(), RecursiveFunction),
    (Tracking(), RecursiveFunction),
    (RandomFeatures(16), FeatureExpansion),
    (Dictionary(10), DictionaryFunction),
    (Auto(), SumOfComponents),
]


@pytest.mark.parametrize(("expansion", "kind"), STARTED, ids=repr)
def test_every_expansion_starts_its_kind_of_function(expansion, kind):
    f = start(expansion, Gaussian(1.0), 3, 2)
    assert type(f) is kind
    assert (f.n_features, f.n_outputs, f.expansion) == (3, 2, expansion)


def test_a_start_of_ones_own_comes_first():
    f = start(Doubled(16), Gaussian(1.0), 3, 1)
    assert type(f) is FeatureExpansion
    assert f.n_outputs == 2


def test_all_expansions_are_tried():
    concrete = {getattr(expansions, name) for name in expansions.__all__}
    concrete = {c for c in concrete if isinstance(c, type) and issubclass(c, Expansion)}
    # The default of streams is started by the two estimators that have it.
    started = concrete - {Expansion, RecursiveLeastSquares, Stream}
    assert {type(e) for e, _ in STARTED} - {Thrifty} == started


def test_the_default_of_streams_says_where_it_is():
    for refused in (
        lambda: start(Stream(), Gaussian(1.0), 3, 1),
        lambda: Stream().compressor(None),
    ):
        with pytest.raises(ValueError, match="KernelClassifier and KernelRegressor"):
            refused()
