"""Input files for the HDF5-UDF cases, and the runner of their programs."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
from fresh import read

NATIVE = ("py", "lua", "cpp")
#: With Zig, the C++ programs run as WebAssembly, too.
HAS_ZIG = "HYPERCHUNK_ZIG" in os.environ or importlib.util.find_spec("ziglang") is not None
LANGUAGES = (*NATIVE, "wasm") if HAS_ZIG else NATIVE
WORDS = ["fair", "is", "foul", "and", "foul", "is", "fair", "hover", "through", "the", "fog", "and", "filthy", "air"]
ROWS = 1000
#: name in the file: type; a gap of 16 bytes follows the first member.
MEMBERS = {"Serial number": "i4", "Location": None, "Temperature (F)": "f8", "Pressure (inHg)": "f8"}


def words(count: int = 100) -> list[str]:
    """Returns a hundred words, the last one longer than the others."""
    return [WORDS[n % len(WORDS)] for n in range(count - 1)] + ["<the last of them>"]


def strings(file: Path, kind: str, *names: str) -> None:
    """Makes datasets of words: ``fixed`` in 32 bytes or ``variable``."""
    with h5py.File(file, "w") as opened:
        for name in names:
            dtype = h5py.string_dtype() if kind == "variable" else "S32"
            opened.create_dataset(name, data=np.array(words(), object if kind == "variable" else "S32"), dtype=dtype)


def compounds(file: Path, location: str, layout: str) -> None:
    """Makes ``Dataset1``: rows with a ``location`` of the kind ``none``, ``fixed`` or ``variable``.

    In the layout ``mixed`` the serial number has 64 bits and is followed by a gap, unlike any C structure.
    """
    kinds = dict(MEMBERS)
    if layout == "mixed":
        kinds["Serial number"] = ">i8"
    kinds["Location"] = {"none": None, "fixed": "S20", "variable": h5py.string_dtype()}[location]
    names = [name for name, kind in kinds.items() if kind is not None]
    dtypes = [np.dtype(kinds[name]) for name in names]
    offsets, at = [], 0
    for n, dtype in enumerate(dtypes):
        offsets.append(at)
        at += dtype.itemsize + (16 if layout == "mixed" and n == 0 else 0)
    rows = np.zeros(ROWS, np.dtype({"names": names, "formats": dtypes, "offsets": offsets, "itemsize": at}))
    rows["Serial number"] = np.arange(ROWS)
    rows["Temperature (F)"] = 1000 / np.arange(1, ROWS + 1)
    rows["Pressure (inHg)"] = 500 / np.arange(1, ROWS + 1)
    if location != "none":
        rows["Location"] = [f"Location_{n}" if location == "variable" else b"Location_%d" % n for n in range(ROWS)]
    with h5py.File(file, "w") as opened:
        opened.create_dataset("Dataset1", data=rows)


def both(file: Path, dataset: str, selection: Any = ...) -> np.ndarray:
    """Reads with h5py, and checks that `hyperchunk.open` returns the same."""
    expected = read(file, dataset, selection)
    with hyperchunk.open(file) as opened:
        values = opened[dataset][selection]
    assert values.dtype == expected.dtype
    np.testing.assert_array_equal(values, expected)
    return expected


class Programs(dict[str, str]):
    """A program in each language; the WebAssembly one is made from C++."""

    def __missing__(self, language: str) -> str:
        if language != "wasm":
            raise KeyError(language)
        return self["cpp"].replace(".cpp", ".wasm").replace("_cpp_t", "_wasm_t")


def run(folder: Path, file: Path, language: str, text: str, *outputs: str, **options: Any) -> list[dict[str, Any]]:
    """Attaches a program as ``hyperchunk udf attach`` does."""
    if language == "wasm":
        language, options = "cpp", {"backend": "wasm"} | options
    source = folder / f"case.{language}"
    source.write_text(text)
    return hyperchunk.udf.attach(file, source, outputs, **options)
