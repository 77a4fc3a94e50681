"""Docstrings of the public interface: every name has one, functions and classes show an example, and examples run."""

from __future__ import annotations

import dataclasses
import doctest
import functools
import importlib
import inspect
import pkgutil
import typing
from collections.abc import Iterator
from pathlib import Path

import hyperchunk
import numpy
import pytest

MODULES = (
    "hyperchunk",
    "hyperchunk.arrow",
    "hyperchunk.cloud",
    "hyperchunk.cuda",
    "hyperchunk.exceptions",
    "hyperchunk.executors",
    "hyperchunk.h5coro",
    "hyperchunk.hdf5_udf",
    "hyperchunk.layouts",
    "hyperchunk.netcdf",
    "hyperchunk.observing",
    "hyperchunk.plugins",
    "hyperchunk.pool",
    "hyperchunk.progress",
    "hyperchunk.store",
    "hyperchunk.trust",
    "hyperchunk.typing",
    "hyperchunk.udf",
    "hyperchunk.write.file",
    "hyperchunk.write.group",
    "hyperchunk.write.dataset",
)
# Names without an example, and the reason.
WITHOUT_EXAMPLE = {
    "hyperchunk.AttributeReference": "HDF5 writes them, Hyperchunk only opens what they point to",
    "hyperchunk.HLObject": "base class",
    "hyperchunk.UserLink": "only the application that made one can follow it",
    "hyperchunk.set_metadata_cache_bytes": "changes the cache of the whole process",
    "hyperchunk.hdf5_udf.main": "the command hdf5-udf",
    "hyperchunk.exceptions.also": "for the package's own errors",
    "hyperchunk.exceptions.from_errno": "for the package's own errors",
}
# Modules whose examples need a package that is not installed everywhere, are started by the worker, or have none.
NOT_IMPORTED = frozenset(("hyperchunk._zygote", "hyperchunk._network", "hyperchunk._bands", "hyperchunk._command"))


def public_names() -> Iterator[tuple[str, object]]:
    """Yields the qualified name of each public function and class, and the object."""
    for path in MODULES:
        module = importlib.import_module(path)
        names = getattr(module, "__all__", None) or [
            name
            for name, found in vars(module).items()
            if not name.startswith("_") and getattr(found, "__module__", None) == path
        ]
        for name in names:
            found = getattr(module, name)
            if found is not typing.Any and (inspect.isclass(found) or inspect.isroutine(found)):
                yield f"{path}.{name}", found


def is_record(found: object) -> bool:
    """Returns whether a class only holds values: what makes it has the example."""
    if not inspect.isclass(found):
        return False
    holds = dataclasses.is_dataclass(found) or hasattr(found, "_fields") or typing.is_typeddict(found)
    return holds or issubclass(found, BaseException) or getattr(found, "_is_protocol", False)


def members(found: type) -> Iterator[tuple[str, str | None]]:
    """Yields the public methods and properties that a class itself defines, and their docstrings."""
    for name, value in vars(found).items():
        if name.startswith("_"):
            continue
        shown = getattr(found, name)
        if isinstance(value, property | functools.cached_property) or (
            inspect.isroutine(value) and shown.__qualname__.startswith(found.__name__)
        ):
            yield name, inspect.getdoc(shown)


NAMES = dict(public_names())


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_a_docstring_with_an_example(name: str) -> None:
    found = NAMES[name]
    doc = inspect.getdoc(found)
    assert doc, f"{name} has no docstring"
    examples = ">>>" in doc
    if inspect.isclass(found):
        without = [member for member, text in members(found) if not text]
        assert not without, f"{name}: no docstring of {', '.join(without)}"
        examples |= any(text is not None and ">>>" in text for _, text in members(found))
    if name in WITHOUT_EXAMPLE:
        assert not examples, f"{name} has an example now"
    elif not is_record(found):
        assert examples, f"{name} has no example"


def test_names_without_an_example_exist() -> None:
    assert not set(WITHOUT_EXAMPLE) - set(NAMES)


def documented_modules() -> list[str]:
    """Returns the modules of the package whose source has an example."""
    (root,) = hyperchunk.__path__
    found = ["hyperchunk"]
    for module in pkgutil.walk_packages([root], "hyperchunk."):
        path = Path(root, *module.name.split(".")[1:])
        source = path / "__init__.py" if module.ispkg else path.with_suffix(".py")
        if module.name not in NOT_IMPORTED and source.is_file() and ">>>" in source.read_text(encoding="utf-8"):
            found.append(module.name)
    return found


@pytest.mark.parametrize("name", documented_modules())
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name.endswith("xarray_engine"):
        pytest.importorskip("xarray")
    if name.endswith("virtualizarr"):
        pytest.importorskip("virtualizarr")
    if name == "hyperchunk.zarr":
        pytest.importorskip("zarr", minversion="3.1")
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    # Without the argument, it takes `-v` of the command line for its own.
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for number, test in enumerate(finder.find(module)):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        test.globs.update({"hyperchunk": hyperchunk, "numpy": numpy, "np": numpy})
        report: list[str] = []
        runner.run(test, out=report.append)
        assert not report, "".join(report)
