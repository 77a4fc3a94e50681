"""Signatures of the public interface: options are named, unknown ones are errors, and modules load on first use."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hyperchunk
import numpy as np
import pytest
from hyperchunk import store
from test_docstrings import NAMES, is_record

MODULES = (
    "arrow",
    "cloud",
    "h5coro",
    "h5py",
    "hdf5_udf",
    "netcdf",
    "observing",
    "plugins",
    "pool",
    "progress",
    "store",
    "trust",
    "typing",
    "udf",
)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_an_attribute_of_the_package(module: str) -> None:
    code = f"import hyperchunk; assert {module!r} in dir(hyperchunk); print(hyperchunk.{module}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"hyperchunk.{module}\n"


def test_the_package_imports_nothing_heavy() -> None:
    code = "import sys, hyperchunk; print([name for name in ('numpy', 'h5py', 'pyarrow') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("opener", [hyperchunk.open, hyperchunk.File])
def test_the_signature_of_open_names_the_options(opener: Callable[..., object]) -> None:
    parameters = inspect.signature(opener).parameters
    assert next(iter(parameters)) == "name"
    assert parameters["mode"].default == "r"
    assert {"storage_options", "network", "locking", "swmr", "index", "threads", "epoch"} <= set(parameters)


@pytest.mark.parametrize("name", [name for name, found in NAMES.items() if not is_record(found)])
def test_no_argument_of_a_public_function_is_any(name: str) -> None:
    found = NAMES[name]
    functions = [found] if inspect.isroutine(found) else [value for _, value in inspect.getmembers(found)]
    for function in filter(inspect.isfunction, functions):
        if function.__name__.startswith("_") and function.__name__ != "__init__":
            continue
        if not function.__module__.startswith("hyperchunk"):
            continue
        for parameter in inspect.signature(function).parameters.values():
            assert parameter.annotation != "Any", f"{name}: {function.__qualname__}({parameter})"


def in_file(folder: Path, name: str, option: str) -> None:
    with hyperchunk.open(folder / "new.h5", "w") as file:
        getattr(file, name)("x", (3,), "f4", **{option: True})


UNKNOWN: dict[str, tuple[Callable[[Path], object], str]] = {
    "read": (lambda path: hyperchunk.open(path, allow_truncate=True), "allow_truncated"),
    "write": (lambda path: hyperchunk.open(path.parent / "new.h5", "w", jornal=True), "journal"),
    "memory": (lambda _: hyperchunk.File.in_memory(track_oder=True), "track_order"),
    "dataset": (lambda path: in_file(path.parent, "create_dataset", "suffle"), "shuffle"),
    "store": (lambda _: store.Dataset((3,), "f4", max_shape=(None,)), "maxshape"),
    "query": (lambda path: hyperchunk.query(path, "x", "value > 1", allow_truncate=True), "allow_truncated"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_an_unknown_option_is_an_error_that_suggests_a_similar_one(case: str, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hyperchunk.open(path, "w") as file:
        file["x"] = np.arange(3)
    call, meant = UNKNOWN[case]
    with pytest.raises(TypeError, match=f"unexpected keyword argument '.*'; did you mean '{meant}'"):
        call(path)


def test_an_option_for_reading_is_an_error_for_a_new_file(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'allow_truncated', an option for reading"):
        hyperchunk.open(tmp_path / "a.h5", "w", allow_truncated=True)
    assert not (tmp_path / "a.h5").exists()
