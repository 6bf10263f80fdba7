import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone

from mercer.component import from_config, to_config
from mercer.schedules import Constant, InverseTime, PowerDecay, Relative, as_schedule

FAMILY = [
    (Constant(0.3), lambda t: 0.3),
    (PowerDecay(2.0), lambda t: 2 / math.sqrt(t)),
    (PowerDecay(2.0, power=0), lambda t: 2.0),
    (PowerDecay(0.7, power=0.9), lambda t: 0.7 * math.exp(-0.9 * math.log(t))),
    (InverseTime(0.5, offset=20), lambda t: 0.5 * 20 / (20 + t)),
    (Relative(3.0, unit=0.25), lambda t: 0.75),
    (Relative(PowerDecay(4.0)).resolved(0.5), lambda t: 2 / math.sqrt(t)),
]
each = pytest.mark.parametrize(("schedule", "formula"), FAMILY, ids=[repr(s) for s, _ in FAMILY])


@each
@pytest.mark.parametrize("t", [1, 2, 17, 10**6, 10**12, np.int64(5)])
def test_value_is_the_formula_and_a_python_float(schedule, formula, t):
    assert_allclose(schedule(t), formula(int(t)), rtol=1e-12)
    assert type(schedule(t)) is float


@each
@given(t=st.integers(1, 10**15))
def test_values_are_positive_and_never_increase(schedule, formula, t):
    assert 0 < schedule(t + 1) <= schedule(t)


@each
def test_copies_are_equal(schedule, formula):
    for copy in (
        clone(schedule),
        pickle.loads(pickle.dumps(schedule)),
        from_config(json.loads(json.dumps(to_config(schedule)))),
    ):
        assert copy == schedule
        assert copy(7) == schedule(7)


def test_different_parameters_are_different_schedules():
    assert PowerDecay(1.0) != PowerDecay(2.0)
    assert Constant(1.0) != PowerDecay(1.0, power=0)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Constant(0), "`value`.*learns nothing"),
        (lambda: Constant("auto"), "`value`"),
        (lambda: PowerDecay(-1.0), "`scale`"),
        (lambda: PowerDecay(1.0, power=-0.5), "`power`.*grow"),
        (lambda: PowerDecay(1.0).set_params(power=math.nan), "`power`"),
        (lambda: InverseTime(math.inf, 1), "`scale`"),
        (lambda: InverseTime(1.0, 0), "`offset`.*halved"),
        (lambda: Relative("auto"), "must be a positive number, one of .* Relative"),
        (lambda: Relative(-1.0), "`value`.*learns nothing"),
        (lambda: Relative(Relative(1.0)), "`schedule` is relative itself"),
        (lambda: Relative(1.0, unit=0.0), "`unit`.*learns nothing"),
        (lambda: Relative(1.0).resolved(math.inf), "`unit`"),
    ],
)
def test_values_out_of_range_are_refused_by_name(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_numbers_become_constants_and_callables_pass():
    assert as_schedule(2) == Constant(2.0)
    assert as_schedule(np.float32(0.5)) == Constant(0.5)
    schedule = PowerDecay(1.0)
    assert as_schedule(schedule) is schedule

    def own(t):
        return 0.5 / t

    assert as_schedule(own) is own


@pytest.mark.parametrize(
    "value", ["auto", None, True, [0.1], 0.0, -1, math.nan, 10**400, PowerDecay]
)
def test_anything_else_is_refused(value):
    with pytest.raises(ValueError, match=r"must be|Write PowerDecay"):
        as_schedule(value)


# -- steps in units that the data give ------------------------------------------------------------


def test_relative_steps_without_a_unit_cannot_be_called():
    with pytest.raises(ValueError, match=r"Relative\(.*has no unit yet.*resolved"):
        Relative(PowerDecay(1.0))(1)


def test_a_unit_that_was_given_stays():
    assert Relative(1.0, unit=2.0).resolved(0.5) == Relative(1.0, unit=2.0)


def test_resolved_steps_have_a_schedule_of_their_own():
    inner = PowerDecay(1.0)
    steps = Relative(inner).resolved(2.0)
    inner.set_params(scale=5.0)
    assert steps(1) == 2.0


def test_relative_steps_without_a_unit_can_be_stored_and_tuned():
    steps = Relative(PowerDecay(4.0))
    assert from_config(json.loads(json.dumps(to_config(steps)))) == steps
    assert clone(steps).set_params(schedule__power=0.8) == Relative(PowerDecay(4.0, 0.8))


def test_functions_may_be_relative():
    assert Relative(lambda t: 1.0 / t, unit=0.5)(4) == 0.125
