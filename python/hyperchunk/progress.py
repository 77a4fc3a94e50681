"""Progress of long calls, for their argument ``progress=``.

===============  ==========================================================================================
``True``         a bar on standard error: tqdm's in a notebook that has it, else a line
a function       is called with the finished part and the total, after each step; if it raises, the work stops
a tqdm object    gets the total, and updates; it is not closed
===============  ==========================================================================================
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeVar

T = TypeVar("T")

#: Time between updates of a bar, and before the first one: shorter work shows none.
_UPDATE_SECONDS, _FIRST_UPDATE_SECONDS = 0.1, 0.4
_BAR_COLUMNS = 24


class SupportsUpdate(Protocol):
    """A progress bar with tqdm's interface."""

    total: Any

    def update(self, n: int, /) -> object:
        """Adds to the finished part."""

    def refresh(self) -> object:
        """Shows the bar."""


#: Value of the argument ``progress=``.
ProgressLike: TypeAlias = bool | Callable[[int, int], object] | SupportsUpdate | None


def is_wanted(asked: ProgressLike) -> bool:
    """True if progress is to be shown. (A tqdm object has a truth value of its own.)"""
    return asked is not None and asked is not False


class Progress:
    """The finished part of some work, shown as the caller asked. Any thread may add to it.

    Args:
        asked: The argument ``progress=``.
        total: Amount of work.
        unit: Its unit: ``"B"`` for bytes, or a noun in the plural.

    Example:
        >>> with hyperchunk.progress.Progress(print, 10, "rows") as progress:
        ...     progress.add(4)
        ...     progress.add(6)
        4 10
        10 10
    """

    def __init__(self, asked: ProgressLike, total: int, unit: str) -> None:
        self.total, self.done = total, 0
        self._lock = Lock()
        self._own: _Line | None = None
        self._bar: Any = None
        self._call: Callable[[int, int], object] | None = None
        if asked is True:
            self._bar = _notebook_bar(total, unit)
            if self._bar is None:
                self._own = _Line(total, unit)
        elif not is_wanted(asked):
            pass
        elif hasattr(asked, "update") and hasattr(asked, "refresh"):
            self._bar = asked
            self._bar.total = total
            self._bar.refresh()
        elif callable(asked):
            self._call = asked
        else:
            raise TypeError(
                f"cannot show progress: expected True, a function of two integers, or a tqdm object, got {asked!r}"
            )
        self._closes = asked is True

    def add(self, amount: int) -> None:
        """Adds to the finished part. A zero is reported only at the start."""
        if not amount and self.done:
            return
        with self._lock:
            self.done += amount
            if self._call is not None:
                self._call(self.done, self.total)
            elif self._bar is not None:
                self._bar.update(amount)
            elif self._own is not None:
                self._own.show(self.done)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own is not None:
            self._own.close()
        elif self._closes and self._bar is not None:
            self._bar.close()


def counted(items: Iterable[T], amount: Callable[[T], int], progress: Progress) -> Iterator[T]:
    """Iterates over items, and adds the amount of each once the next one is asked for."""
    with progress:
        for item in items:
            yield item
            progress.add(amount(item))


class _Line:
    """A bar on one line of standard error. If that is no terminal, a line for each tenth."""

    def __init__(self, total: int, unit: str) -> None:
        self._total, self._unit = total, unit
        self._out = sys.stderr
        self._terminal = bool(getattr(self._out, "isatty", bool)()) or _in_notebook()
        self._started = time.monotonic()
        self._shown: float | None = None
        self._tenth = 0

    def show(self, done: int) -> None:
        now = time.monotonic()
        if not self._terminal:
            tenth = 10 * done // self._total if self._total else 10
            if tenth > self._tenth:
                self._tenth = tenth
                print(self._text(done, now), file=self._out)
            return
        due = (
            now - self._started >= _FIRST_UPDATE_SECONDS
            if self._shown is None
            else now - self._shown >= _UPDATE_SECONDS
        )
        if due:
            self._shown = now
            print(f"\r{self._text(done, now)}\x1b[K", end="", file=self._out, flush=True)

    def _text(self, done: int, now: float) -> str:
        part = done / self._total if self._total else 1.0
        full = int(_BAR_COLUMNS * part)
        seconds = now - self._started
        left = f", {seconds * (1 - part) / part:.0f} s left" if 0 < part < 1 else ""
        bar = "#" * full + "." * (_BAR_COLUMNS - full)
        return f"[{bar}] {part:4.0%} of {_amount(self._total, self._unit)} in {seconds:.0f} s{left}"

    def close(self) -> None:
        if self._shown is not None:
            print("\r\x1b[K", end="", file=self._out, flush=True)


def _amount(number: float, unit: str) -> str:
    if unit != "B":
        return f"{number:,} {unit}"
    for name in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:,.0f} {name}"
        number /= 1024
    return f"{number:,.1f} TiB"


def _in_notebook() -> bool:
    shell: object = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _notebook_bar(total: int, unit: str) -> object:
    """Returns tqdm's bar in a notebook; None elsewhere, and without tqdm."""
    if not _in_notebook():
        return None
    try:
        bars = importlib.import_module("tqdm.auto")
    except ImportError:
        return None
    made: object = bars.tqdm(
        total=total, unit=unit if unit == "B" else f" {unit}", unit_scale=unit == "B", unit_divisor=1024
    )
    return made


__all__ = ["Progress", "ProgressLike", "SupportsUpdate"]
