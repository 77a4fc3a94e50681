"""Errors of expression functions, relative to the exact values and to NumPy."""

from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest

#: Functions with NumPy's names, and the tested ranges of arguments.
FUNCTIONS = {
    "sqrt": ("sqrt", 0, 1e6),
    "exp": ("exp", -80, 80),
    "expm1": ("expm1", -5, 5),
    "log": ("log", 1e-6, 1e6),
    "log1p": ("log1p", -0.9, 1e3),
    "log2": ("log2", 1e-6, 1e6),
    "log10": ("log10", 1e-6, 1e6),
    "sin": ("sin", -1e4, 1e4),
    "cos": ("cos", -1e4, 1e4),
    "tan": ("tan", -1e4, 1e4),
    "asin": ("arcsin", -1, 1),
    "acos": ("arccos", -1, 1),
    "atan": ("arctan", -1e3, 1e3),
    "sinh": ("sinh", -80, 80),
    "cosh": ("cosh", -80, 80),
    "tanh": ("tanh", -20, 20),
}
COUNT = 100_000


def units(found: np.ndarray, exact: np.ndarray) -> float:
    """Returns the largest difference in units of the last place of the exact value."""
    return float(np.max(np.abs(found - exact) / np.spacing(np.abs(exact).astype(found.dtype))))


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no longer floats to compare with")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_are_near_the_exact_values(function: str, tmp_path: Path) -> None:
    """Makes the table of the guide: run with ``-s``."""
    name, low, high = FUNCTIONS[function]
    path = tmp_path / "a.h5"
    random = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        for kind in ("f4", "f8"):
            file[kind] = random.uniform(low, high, COUNT).astype(kind)
    for kind, limit in (("f4", 2.0), ("f8", 2.5)):
        hyperchunk.udf.attach(path, outputs=f"out_{kind}", expression=f"{function}({kind})")
        with hyperchunk.open(path) as file:
            arguments, found = file[kind][...], file[f"out_{kind}"][...]
        exact = getattr(np, name)(arguments.astype(np.longdouble))
        numpy = getattr(np, name)(arguments)
        apart = [units(found, exact), units(numpy, exact), units(found, numpy)]
        print(f"| `{function}` | {kind} |", *(f"{one:.2f} |" for one in apart))
        assert units(found, exact) <= limit
