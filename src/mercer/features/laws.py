r"""Laws of random frequencies: for which law of :math:`\omega` cosines have which kernel.

A shift-invariant kernel is :math:`k(x, x') = E \cos(\omega^T (x - x'))`, so it is known by the law
of :math:`\omega`. Each law gives its frequencies from the counter-based generator, always with the
same count of numbers for a frequency. Scales of laws are reciprocals of length scales.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from mercer.features.composite import child_paths
from mercer.features.feature_map import SCALARS, WEIGHTS, Floats, stream_of
from mercer.numerics import philox
from mercer.validation import check_real

# Up to here a chi-squared number is a sum of squared normals, which is faster than its inverse
# distribution function.
_MOST_SQUARES = 16


class Address(NamedTuple):
    """Where the numbers of some frequencies lie, and how many there are.

    Attributes
    ----------
    seed, block : int
        Seed and block number for the generator.
    path : int
        Place in a composite kernel.
    n_frequencies, n_inputs : int
        Sizes.
    """

    seed: int
    block: int
    path: int
    n_frequencies: int
    n_inputs: int

    def normals(self, local: int, n_coordinates: int, dtype: Any = np.float64) -> Floats:
        """Draw normal numbers, shape (n_coordinates, n_frequencies)."""
        stream = stream_of(self.path, local)
        return philox.normals(
            self.seed, self.block, stream, self.n_frequencies, n_coordinates, dtype
        )

    def uniforms(self, local: int, n_coordinates: int) -> Floats:
        """Draw uniform numbers, shape (n_coordinates, n_frequencies)."""
        stream = stream_of(self.path, local)
        return philox.uniforms(self.seed, self.block, stream, self.n_frequencies, n_coordinates)


class Law(ABC):
    """Law of a frequency, a vector with a number for each input."""

    @property
    def designs(self) -> frozenset[str]:
        """Ways of drawing frequencies that keep this law."""
        return frozenset({"iid", "sobol"})

    @abstractmethod
    def n_uniforms(self, n_inputs: int) -> int:
        """How many uniform numbers make one frequency in :meth:`from_uniforms`."""

    @abstractmethod
    def from_uniforms(self, U: Floats, n_inputs: int) -> Floats:
        """Frequencies from uniform numbers, by inverse distribution functions.

        Parameters
        ----------
        U : ndarray of shape (n_uniforms, n_frequencies), float64
            In (0, 1).
        n_inputs : int
            Number of inputs.

        Returns
        -------
        frequencies : ndarray of shape (n_inputs, n_frequencies), float64
            Radians for each unit of input.
        """

    @abstractmethod
    def draw(self, address: Address, dtype: Any) -> Floats:
        """Independent frequencies.

        Parameters
        ----------
        address : Address
            Address of the random numbers.
        dtype : dtype
            float32 or float64.

        Returns
        -------
        frequencies : ndarray of shape (n_inputs, n_frequencies)
            Radians for each unit of input.
        """

    def draw_orthogonal(self, address: Address, dtype: Any) -> Floats:
        """Frequencies of the same law, the first n_inputs of them orthogonal, and so on.

        Raises
        ------
        ValueError
            If the law has no ``"orthogonal"`` among its designs.
        """
        raise ValueError(
            f"{type(self).__name__} has no orthogonal frequencies: its directions are not all "
            "alike, so a rotation would change it. Draw independent ones."
        )

    def factors(self, address: Address) -> Floats:
        """Factors that give normal vectors this law, for the design "hadamard".

        Raises
        ------
        ValueError
            If the law has no ``"hadamard"`` among its designs.
        """
        raise ValueError(
            f"{type(self).__name__} is not a law of normal vectors times a factor, and only such "
            "frequencies can be applied by Hadamard transforms. Draw independent ones."
        )


class CoordinateLaw(Law):
    """Law of independent coordinates, given by its inverse distribution function.

    Parameters
    ----------
    quantile : callable
        Maps uniform numbers, float64, to numbers of the law; may overwrite its argument.

    Examples
    --------
    >>> import numpy as np
    >>> CoordinateLaw(np.log).from_uniforms(np.array([[1.0]]), 1)
    array([[0.]])
    """

    def __init__(self, quantile: Callable[[Floats], Floats]) -> None:
        self.quantile = quantile

    def n_uniforms(self, n_inputs: int) -> int:
        return n_inputs

    def from_uniforms(self, U: Floats, n_inputs: int) -> Floats:
        return self.quantile(U)

    def draw(self, address: Address, dtype: Any) -> Floats:
        # The tails live where float32 has no numbers left below 1.
        U = address.uniforms(WEIGHTS, address.n_inputs)
        return self.from_uniforms(U, address.n_inputs).astype(dtype, copy=False)


class RadialLaw(Law):
    """Normal vectors, each multiplied by its own random factor.

    The part that differs is that factor: from an address, or from one more uniform number.
    """

    #: Number of uniform numbers from which a factor is made; 0 if factors are not random.
    n_uniforms_of_factor = 1

    @property
    def designs(self) -> frozenset[str]:
        """Ways of drawing frequencies that keep this law: all."""
        return frozenset({"iid", "sobol", "orthogonal", "hadamard"})

    @abstractmethod
    def factors(self, address: Address) -> Floats:
        """Factors from an address, shape (n_frequencies,), float64."""

    @abstractmethod
    def factors_from_uniforms(self, u: Floats) -> Floats:
        """Factors from uniform numbers, shape (n_frequencies,), float64."""

    def n_uniforms(self, n_inputs: int) -> int:
        return n_inputs + self.n_uniforms_of_factor

    def from_uniforms(self, U: Floats, n_inputs: int) -> Floats:
        W: Floats = special.ndtri(U[:n_inputs])
        W *= self.factors_from_uniforms(U[-1])
        return W

    def draw(self, address: Address, dtype: Any) -> Floats:
        W = address.normals(WEIGHTS, address.n_inputs, dtype)
        W *= self.factors(address).astype(dtype)
        return W

    def draw_orthogonal(self, address: Address, dtype: Any) -> Floats:
        W = _orthogonalised(address.normals(WEIGHTS, address.n_inputs))
        W *= self.factors(address)
        return W.astype(dtype, copy=False)


def _orthogonalised(W: Floats) -> Floats:
    """Make columns orthogonal in groups of as many as there are rows, keeping their norms."""
    d, k = W.shape
    norms = np.linalg.norm(W, axis=0)
    Q = np.empty_like(W)
    for start in range(0, k, d):
        group = slice(start, min(start + d, k))
        # Directions of normal vectors do not depend on the norms, so the norms may stay. The signs
        # are those of the Gram-Schmidt process, which makes the directions uniform.
        directions, R = np.linalg.qr(W[:, group])
        Q[:, group] = directions * np.sign(np.diag(R))
    Q *= norms
    return Q


class SumLaw(Law):
    """Law of the sum of two independent frequencies, which belongs to a product of kernels.

    The parts are drawn on the paths of the two children of the composite kernel.

    Parameters
    ----------
    left, right : Law
        Laws of the terms; may be sums themselves.
    """

    def __init__(self, left: Law, right: Law) -> None:
        self.left = left
        self.right = right

    @property
    def designs(self) -> frozenset[str]:
        """Ways of drawing frequencies that both terms know, except Hadamard's."""
        return (self.left.designs & self.right.designs) - {"hadamard"}

    def n_uniforms(self, n_inputs: int) -> int:
        return self.left.n_uniforms(n_inputs) + self.right.n_uniforms(n_inputs)

    def from_uniforms(self, U: Floats, n_inputs: int) -> Floats:
        count = self.left.n_uniforms(n_inputs)
        W = self.left.from_uniforms(U[:count], n_inputs)
        return W + self.right.from_uniforms(U[count:], n_inputs)

    def draw(self, address: Address, dtype: Any) -> Floats:
        left, right = self._addresses(address)
        W = self.left.draw(left, dtype)
        W += self.right.draw(right, dtype)
        return W

    def draw_orthogonal(self, address: Address, dtype: Any) -> Floats:
        left, right = self._addresses(address)
        W = self.left.draw_orthogonal(left, dtype)
        W += self.right.draw_orthogonal(right, dtype)
        return W

    @staticmethod
    def _addresses(address: Address) -> tuple[Address, Address]:
        left, right = child_paths(address.path)
        return address._replace(path=left), address._replace(path=right)


class TanLaw(CoordinateLaw):
    r"""Cauchy coordinates of the scale s, density :math:`s / (\pi (s^2 + \omega^2))`.

    With s = 1 / length scale it is the law of the Laplacian kernel; with s = 1/2, of the
    intersection kernels in the logarithm of the inputs.

    Parameters
    ----------
    scale : float
        Scale s.

    References
    ----------
    DSG, Table 1.
    """

    def __init__(self, scale: float) -> None:
        self.scale = scale
        super().__init__(self._quantile)

    def _quantile(self, u: Floats) -> Floats:
        values: Floats = self.scale * np.tan(np.pi * (u - 0.5))
        return values


class LaplaceLaw(CoordinateLaw):
    r"""Laplace coordinates of the scale s, density :math:`e^{-|\omega| / s} / (2 s)`.

    With s = 1 / length scale it is the law of the Cauchy kernel.

    Parameters
    ----------
    scale : float
        Scale s.

    References
    ----------
    DSG, Table 1, where the kernel is printed with another constant.
    """

    def __init__(self, scale: float) -> None:
        self.scale = scale
        super().__init__(self._quantile)

    def _quantile(self, u: Floats) -> Floats:
        centred = u - 0.5
        values: Floats = -self.scale * np.sign(centred) * np.log1p(-2 * np.abs(centred))
        return values


class SechLaw(CoordinateLaw):
    r"""Coordinates with the density :math:`1 / \cosh(\pi \omega)`.

    The law of the chi-squared kernels in the logarithm of the inputs.

    References
    ----------
    DSG, Table 1.
    """

    def __init__(self) -> None:
        super().__init__(self._quantile)

    @staticmethod
    def _quantile(u: Floats) -> Floats:
        values: Floats = np.log(np.tan(np.pi / 2 * u)) / np.pi
        return values


class NormalLaw(RadialLaw):
    r"""Normal coordinates of the standard deviation s.

    With s = 1 / length scale it is the law of the Gaussian kernel.

    Parameters
    ----------
    scale : float
        Standard deviation s.

    References
    ----------
    DSG, Table 1.

    Examples
    --------
    >>> NormalLaw(2.0).draw(Address(seed=0, block=0, path=0, n_frequencies=2, n_inputs=1), "f8")
    array([[1.982275..., 2.272734...]])
    """

    n_uniforms_of_factor = 0

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def factors(self, address: Address) -> Floats:
        """Factors that are all the scale."""
        return np.full(address.n_frequencies, self.scale)

    def factors_from_uniforms(self, u: Floats) -> Floats:
        """Factors that are all the scale."""
        return np.full(u.shape, self.scale)


class StudentLaw(RadialLaw):
    r"""Multivariate t vectors, :math:`s z \sqrt{2 \nu / \chi^2_{2 \nu}}`.

    With s = 1 / length scale it is the law of the Matérn kernel.

    Parameters
    ----------
    nu : float
        Smoothness :math:`\nu`, half the degrees of freedom.
    scale : float
        Scale s.

    References
    ----------
    DSG, Table 1, where the exponent is printed without its d / 2.
    """

    def __init__(self, nu: float, scale: float) -> None:
        self.nu = check_real("nu", nu, low=0, open_low=True)
        self.scale = scale

    def factors(self, address: Address) -> Floats:
        """Reciprocal roots of chi-squared numbers, of normals if that is exact."""
        degrees = 2 * self.nu
        if degrees <= _MOST_SQUARES and degrees.is_integer():
            z = address.normals(SCALARS, int(degrees))
            return self._from_chi_squared(np.einsum("if,if->f", z, z))
        return self.factors_from_uniforms(address.uniforms(SCALARS, 1)[0])

    def factors_from_uniforms(self, u: Floats) -> Floats:
        """Reciprocal roots of chi-squared numbers, by their inverse distribution."""
        return self._from_chi_squared(2 * special.gammaincinv(self.nu, u))

    def _from_chi_squared(self, chi_squared: Floats) -> Floats:
        # The inverse underflows to 0 for tiny nu; an infinite frequency has no cosine.
        values: Floats = self.scale * np.sqrt(2 * self.nu / np.maximum(chi_squared, 1e-30))
        return values


class NormalGammaLaw(RadialLaw):
    r"""Normal vectors of a random precision: variance :math:`s^2 g / \alpha`, g ~ Gamma(alpha).

    With s = 1 / length scale it is the law of the rational quadratic kernel.

    Parameters
    ----------
    alpha : float
        Shape :math:`\alpha` of the Gamma law.
    scale : float
        Scale s.

    References
    ----------
    C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, eq. (4.20).
    """

    def __init__(self, alpha: float, scale: float) -> None:
        self.alpha = check_real("alpha", alpha, low=0, open_low=True)
        self.scale = scale

    def factors(self, address: Address) -> Floats:
        """Roots of Gamma numbers."""
        return self.factors_from_uniforms(address.uniforms(SCALARS, 1)[0])

    def factors_from_uniforms(self, u: Floats) -> Floats:
        """Roots of Gamma numbers, by their inverse distribution."""
        gamma = special.gammaincinv(self.alpha, u)
        values: Floats = self.scale * np.sqrt(gamma / self.alpha)
        return values
