"""Packages that tables are for, and that need not be installed."""

from __future__ import annotations

import importlib
from typing import Any


def needed(name: str) -> Any:
    """A package, or an error that says how to get it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == name:
            raise ModuleNotFoundError(f"this needs {name}: pip install {name}", name=name) from None
        raise
