"""Mutable-mapping methods of writable groups and attributes."""

from __future__ import annotations

from collections.abc import MutableMapping

from hyperchunk.typing import Values


class MutableNames(MutableMapping[str, Values]):
    """Mutable mapping of names. Removal does not open the object, so dangling links can be removed."""

    __slots__ = ()

    def setdefault(self, name: str, default: Values = None) -> Values:
        """Returns the object of a name; creates it from `default` if it does not exist."""
        if name not in self:
            self[name] = default
        return self[name]

    def clear(self) -> None:
        """Removes all names."""
        for name in list(self):
            del self[name]
