"""Imports of optional packages."""

from __future__ import annotations

import importlib
from typing import Any


def import_optional(name: str) -> Any:
    """Imports a package, or raises an error that tells how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == name:
            raise ModuleNotFoundError(f"this needs {name}: pip install {name}", name=name) from None
        raise
