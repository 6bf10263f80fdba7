"""The checks of scikit-learn for gradients of a regression."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import KernelGradient

FIELD = "An answer is a vector for each row, not a number."
WEIGHT = "A weight multiplies a row's steps; a repeated row makes steps in other mini-batches."


def expected_failures(estimator):
    return {
        "check_estimator_sparse_array": FIELD,
        "check_estimator_sparse_matrix": FIELD,
        "check_sample_weight_equivalence_on_dense_data": WEIGHT,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHT,
    }


@parametrize_with_checks([KernelGradient()], expected_failed_checks=expected_failures)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)
