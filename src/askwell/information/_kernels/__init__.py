"""How EPIG is computed fast: the insides of `askwell.information`, behind one door.

                              hot_loop(seconds)
                       compiled yet? |        | not yet, or never
                                     v        v
    probs [n, k, c] --> loop.py: chunks,    plain.py: NumPy, float64     --> scores [n]
    targets [m, k, c]   threads, errors
                         |          |
           draws that doubt      draws that vote
               epig.py               votes.py                probit.py: labels behind a Gaussian latent,
        matrix product, phi(u)    counts of bits             by its own door in `information/probit.py`

`epig.py`, `votes.py` and `probit.py` are numba's: nothing but `loop.py` and `information/probit.py` imports them, on
first use. `plain.py` finds the same to 1e-6, for votes to the bit, until they are compiled (`askwell.compiling`).
"""

from types import ModuleType

from askwell.compiling import ready

__all__ = ["hot_loop"]


def hot_loop(*, seconds: float = 0.0) -> ModuleType | None:
    """The compiled loop for arrays in this machine's memory; None where NumPy is to do what takes it so many seconds.

    That is until the loop is compiled (`askwell.compiling`), and where numba is not to be had.
    """
    if not ready(seconds):
        return None
    try:
        from askwell.information._kernels import loop
    except ImportError:
        return None
    return loop
