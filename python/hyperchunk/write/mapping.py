"""What groups and attributes that are being written have of a mutable mapping."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any


class MutableNames(MutableMapping[Any, Any]):
    """Names that lead to something, to be changed. What is removed is not opened: a broken link goes as well."""

    __slots__ = ()

    def setdefault(self, name: Any, default: Any = None) -> Any:
        """What the name leads to; made of `default` if there is nothing."""
        if name not in self:
            self[name] = default
        return self[name]

    def clear(self) -> None:
        """Removes all names."""
        for name in list(self):
            del self[name]
