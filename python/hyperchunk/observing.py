"""Log records for :mod:`logging`, and spans for OpenTelemetry.

The logger ``"hyperchunk"`` is silent until a program configures it, or ``HYPERCHUNK_LOG=info`` (``debug``,
``warning``, ``error``) sends its records to standard error. :func:`start_spans` starts spans.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from hyperchunk import _core
from hyperchunk._printable import printable

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

    from hyperchunk.dataset import Dataset
    from hyperchunk.objects import Recipe

#: Value of an attribute of a span.
Fact: TypeAlias = bool | int | float | str
F = TypeVar("F", "_core.File", "_core.Writer")

LOG = logging.getLogger("hyperchunk")
LOG.addHandler(logging.NullHandler())
#: Function that returns whether records of a level are logged. A call takes about 50 ns.
is_logged = LOG.isEnabledFor
DEBUG, INFO = logging.DEBUG, logging.INFO

_VARIABLE = "HYPERCHUNK_LOG"
_LEVELS = ("debug", "info", "warning", "error")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# Parts of a URL that may be secret: user and password, and signatures in the query.
_SECRET = re.compile(r"(?<=://)[^/@]*@|[?#].*$", re.DOTALL)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")

#: OpenTelemetry's tracer; None without spans.
tracer: Tracer | None = None


def _log_as_asked() -> None:
    """Sends records to standard error if ``HYPERCHUNK_LOG`` is set."""
    level = os.environ.get(_VARIABLE, "").strip().lower()
    if not level:
        return
    if level not in _LEVELS:
        warnings.warn(
            f"cannot log: expected {_VARIABLE} to be one of {', '.join(_LEVELS)}, got {level!r}", stacklevel=2
        )
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    LOG.addHandler(handler)
    LOG.setLevel(level.upper())


_log_as_asked()


def start_spans(tracer_provider: object = None) -> None:
    """Starts spans of OpenTelemetry: ``hyperchunk.open``, ``hyperchunk.read`` with its parts ``plan``, ``fetch`` and
    ``convert``, ``hyperchunk.commit`` and others. Needs ``pip install 'hyperchunk[otel]'``.

    Args:
        tracer_provider: Provider of the tracer; by default the program's.

    Raises:
        ImportError: OpenTelemetry is not installed.

    Example:
        >>> hyperchunk.observing.start_spans()  # doctest: +SKIP
    """
    global tracer
    try:
        trace = importlib.import_module("opentelemetry.trace")
    except ImportError as error:
        message = "cannot make spans: OpenTelemetry is not installed; pip install 'hyperchunk[otel]'"
        raise ImportError(message) from error
    tracer = trace.get_tracer("hyperchunk", _core.__version__, tracer_provider)


def stop_spans() -> None:
    """Stops the spans that :func:`start_spans` started.

    Example:
        >>> hyperchunk.observing.stop_spans()
    """
    global tracer
    tracer = None


def shown(path: object) -> str:
    """Returns a path or URL for log records: printable, and a URL without user, password, query and fragment."""
    text = str(path)
    return printable(_SECRET.sub("", text) if _URL.match(text) else text)


def span(name: str, **attributes: Fact | None) -> AbstractContextManager[Span | None]:
    """Returns a span as a context, or an empty context without spans."""
    if tracer is None:
        return nullcontext()
    found = {key.replace("__", "."): value for key, value in attributes.items() if value is not None}
    context: AbstractContextManager[Span] = tracer.start_as_current_span(f"hyperchunk.{name}", attributes=found)
    return context


@contextmanager
def work(what: str, path: object, level: int = INFO) -> Iterator[dict[str, object]]:
    """Makes a span and a log record of some work on a file, with its duration and the facts that the caller adds."""
    facts: dict[str, object] = {}
    if tracer is None and not is_logged(level):
        yield facts
        return
    started, name = time.perf_counter(), shown(path)
    with span(what, file__path=name) as current:
        try:
            yield facts
        except Exception as error:
            LOG.log(level, "%s of %s failed after %.1f ms: %s", what, name, _ms(started), error)
            raise
        if current is not None:
            current.set_attributes({f"hyperchunk.{key}": _plain(value) for key, value in facts.items()})
    LOG.log(level, "%s of %s: %s%.1f ms", what, name, _listed(facts), _ms(started))


def _ms(started: float) -> float:
    return 1000 * (time.perf_counter() - started)


def _plain(value: object) -> Fact:
    return value if isinstance(value, bool | int | float | str) else str(value)


def _listed(facts: dict[str, object]) -> str:
    def one(key: str, value: object) -> str:
        if value is True:
            return key
        return f"{key} {value:,}" if isinstance(value, int) else f"{key} {printable(str(value))}"

    return "".join(f"{one(key, value)}, " for key, value in facts.items())


def counters(core: object) -> list[int]:
    """Returns requests, bytes, retries and rounds of a network file; zeros for another one."""
    return (core.counters if isinstance(core, _core.File) else None) or [0, 0, 0, 0]


def _fetched(before: list[int], core: object) -> dict[str, object]:
    """Returns the number of requests, of fetched bytes and of retries since `before`."""
    now = counters(core)
    if now == before:
        return {}
    requests, fetched, retries = (after - earlier for after, earlier in zip(now[:3], before[:3], strict=True))
    facts: dict[str, object] = {"requests": requests, "fetched bytes": fetched}
    return facts | ({"retries": retries} if retries else {})


def _size(path: str) -> int | None:
    try:
        return Path(path).stat().st_size
    except OSError:
        return None


def opened(recipe: Recipe, make: Callable[[Recipe], F], level: int = INFO) -> F:
    """Opens a file by `make`, and logs it: size, requests, index, threads, and a journal that was applied."""
    if tracer is None and not is_logged(level):
        return make(recipe)
    is_local = recipe.driver == "sec2"
    journal = Path(f"{recipe.filename}.redo")
    had_journal = is_local and journal.exists()
    with work("open", recipe.filename, level) as facts:
        core = make(recipe)
        facts["driver"] = recipe.driver
        facts |= _fetched([0, 0, 0, 0], core)
        if recipe.options.get("threads") == 1:
            facts["threads"] = 1
        if isinstance(core, _core.File):
            if is_local and (size := _size(recipe.filename)) is not None:
                facts["bytes"] = size
            facts["index"] = core.index[0] or "none"
    if had_journal and not journal.exists():
        LOG.warning("%s: an interrupted commit was completed or undone by its journal", shown(recipe.filename))
    return core


def closed(recipe: Recipe, core: object) -> None:
    """Logs the requests of a network file that is closed; as a warning if some were repeated."""
    requests, fetched, retries, rounds = counters(core)
    if requests:
        level = logging.WARNING if retries else INFO
        LOG.log(
            level,
            "close of %s: %d requests (%d of them repeated), %d round trips, %s bytes",
            *(shown(recipe.filename), requests, retries, rounds, f"{fetched:,}"),
        )


@contextmanager
def reading(what: str, dataset: Dataset | None, core: object, path: object) -> Iterator[dict[str, object]]:
    """Makes a span and a log record of a read, with the requests and bytes that it took."""
    before = counters(core)
    with work(what, f"{shown(path)}:{dataset.name}" if dataset is not None else path, DEBUG) as facts:
        yield facts
        facts |= _fetched(before, core)


__all__ = ["start_spans", "stop_spans"]
