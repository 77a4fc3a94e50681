"""The module under the name ``h5py``."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType, TracebackType
from typing import Self

_OURS = "hyperchunk.h5py"
_NAME = "h5py"


class Installed:
    """Result of :func:`install`; as a context manager it calls :func:`uninstall` at the end of the block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        uninstall()


def _modules() -> dict[str, ModuleType]:
    """Returns the modules of this package by their names in h5py."""
    package = importlib.import_module(_OURS)
    found = {_NAME: package}
    for info in pkgutil.walk_packages(package.__path__, f"{_OURS}."):
        if not info.name.endswith("__main__"):
            found[_NAME + info.name.removeprefix(_OURS)] = importlib.import_module(info.name)
    return found


def install() -> Installed:
    """Makes ``import h5py`` mean this module, in the whole process, until :func:`uninstall`.

    Call it before anything imports h5py. Used as a context manager, it is undone at the end of the block; modules that
    were imported in the block keep this module.

    Raises:
        RuntimeError: h5py itself is imported.

    Example:
        >>> import hyperchunk.h5py
        >>> with hyperchunk.h5py.install():  # doctest: +SKIP
        ...     import anndata
    """
    present = sys.modules.get(_NAME)
    if present is not None and present is not sys.modules.get(_OURS):
        raise RuntimeError(
            "cannot install hyperchunk.h5py as h5py: h5py itself is imported, and objects of both would mix; call "
            "install() before anything imports h5py"
        )
    found = _modules()
    sys.modules.update(found)
    for name, module in found.items():
        # Libraries compare the names of modules and classes.
        _rename(module, name)
    return Installed()


def uninstall() -> None:
    """Undoes :func:`install`: ``import h5py`` means h5py itself again. Objects and modules that use this module go on.

    Example:
        >>> import hyperchunk.h5py
        >>> hyperchunk.h5py.uninstall()
    """
    if sys.modules.get(_NAME) is not sys.modules[_OURS]:
        return
    for name, module in _modules().items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
            _rename(module, _OURS + name.removeprefix(_NAME))


def _rename(module: ModuleType, name: str) -> None:
    before, module.__name__ = module.__name__, name
    for found in vars(module).values():
        if isinstance(found, type) and found.__module__ == before:
            found.__module__ = name
