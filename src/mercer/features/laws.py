r"""Laws of random frequencies: for which law of :math:`\omega` cosines have which kernel.

Scales of laws are reciprocals of length scales.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from mercer._validation import check_real
from mercer.features._base import Floats
from mercer.features._law import Address, CoordinateLaw, Law, RadialLaw, SumLaw
from mercer.features._streams import SCALARS

__all__ = [
    "Address",
    "CoordinateLaw",
    "LaplaceLaw",
    "Law",
    "NormalGammaLaw",
    "NormalLaw",
    "RadialLaw",
    "SechLaw",
    "StudentLaw",
    "SumLaw",
    "TanLaw",
]

# Up to here a chi-squared number is a sum of squared normals, which is faster than its inverse
# distribution function.
_MOST_SQUARES = 16


class TanLaw(CoordinateLaw):
    r"""Cauchy coordinates of the scale s, density :math:`s / (\pi (s^2 + \omega^2))`.

    With s = 1 / length scale the law of the Laplacian kernel, with s = 1/2 that of the
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

    With s = 1 / length scale the law of the Cauchy kernel.

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

    With s = 1 / length scale the law of the Gaussian kernel.

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

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def n_uniforms(self, n_inputs: int) -> int:
        """One for each input: the factor is no random number."""
        return n_inputs

    def factors(self, address: Address) -> Floats:
        """Factors that are all the scale."""
        return np.full(address.n_frequencies, self.scale)

    def factors_from_uniforms(self, u: Floats) -> Floats:
        """Factors that are all the scale."""
        return np.full(u.shape, self.scale)


class StudentLaw(RadialLaw):
    r"""Multivariate t vectors, :math:`s z \sqrt{2 \nu / \chi^2_{2 \nu}}`.

    With s = 1 / length scale the law of the Matérn kernel.

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

    With s = 1 / length scale the law of the rational quadratic kernel.

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
