"""Suggestions in errors about missing names: similar names, and existing ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

# In larger groups, names are neither listed nor compared.
_MOST_COMPARED = 2000
_MOST_SHOWN = 8
_MOST_LIKE = 3
#: Settings of object stores that users pass as keyword arguments.
_SETTINGS = {"anon", "anonymous", "endpoint", "endpoint_url", "key", "profile", "region", "secret", "token"}


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def suggestion(wanted: str, count: int, names: Sequence[str | bytes], where: str) -> str:
    """Returns the part of an error that lists alternatives to `wanted`; `names` is empty if there are too many."""
    if not count:
        return f"; {where} is empty"
    if not names:
        return f"; {where} has {count} others"
    texts = [name if isinstance(name, str) else name.decode("utf-8", "replace") for name in names]
    folded = {text.casefold(): text for text in reversed(texts)}
    like = [folded[match] for match in get_close_matches(wanted.casefold(), folded, _MOST_LIKE, 0.6)]
    meant = f"; did you mean {_quoted(like)}?" if like else ""
    if like and count > _MOST_SHOWN:
        return meant
    rest = f" and {count - _MOST_SHOWN} more" if count > _MOST_SHOWN else ""
    return f"{meant or ';'} {where} has {_quoted(texts[:_MOST_SHOWN])}{rest}"


def unexpected_keyword(function: str, given: Iterable[str], known: Collection[str]) -> TypeError:
    """Returns the error for a keyword argument that a function does not have: the first one of `given`."""
    name = min(given)
    like = get_close_matches(name, known, 1, 0.6)
    meant = f"; did you mean {like[0]!r}?" if like else ""
    if name in _SETTINGS and "storage_options" in known:
        meant = f"; pass settings of an object store as storage_options={{{name!r}: …}}"
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}{meant}")


def few(count: int) -> bool:
    """True if this number of names is listed and compared."""
    return count <= _MOST_COMPARED
