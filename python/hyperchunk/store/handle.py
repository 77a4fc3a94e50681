"""Stores: what all processes share."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

import numpy as np

from hyperchunk import _core, executors
from hyperchunk.dtypes import dtype_of
from hyperchunk.file import is_url, store_options
from hyperchunk.queries import BoxLike, Query, Shards
from hyperchunk.store import analysis, schema
from hyperchunk.store.analysis import Analysis, Results, StoredAnalysis
from hyperchunk.store.following import Seen, follow
from hyperchunk.store.schema import Dataset
from hyperchunk.store.tables import Fragments, fragments
from hyperchunk.store.writer import Writer

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset as ReadDataset
    from hyperchunk.layouts import Restructured


class StoreWarning(UserWarning):
    """A commit made an epoch that lacks something: a log was set aside, or writers did not agree."""


@dataclass(frozen=True)
class Conflict:
    """Two writers of one epoch wrote different things."""

    #: The path of the object.
    path: str
    #: What the conflict is about.
    what: str
    #: Where, in a dataset: the first element and the extent.
    start: tuple[int, ...]
    count: tuple[int, ...]
    #: The writer whose data are seen, and the one whose are not.
    kept: str
    other: str


@dataclass(frozen=True)
class Epoch:
    """A commit."""

    #: Its number, from 1.
    number: int
    #: The writers that it has something new of.
    writers: list[str]
    #: Where they did not agree.
    conflicts: list[Conflict]
    #: Writers with something that is not committed.
    left: list[str]
    #: Datasets that plain HDF5 reads, and, with the reason, those that it does not.
    linked: list[str]
    unlinked: dict[str, str]
    #: Writers whose logs cannot be committed because of what they hold, with the reasons.
    set_aside: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Store:
    """A store, for everybody who writes to it: small, and it pickles. Made by :func:`create` or :func:`open`."""

    #: The HDF5 file: a path, or the URL of an object.
    path: str
    _known: schema.Known | None = None
    # Paths and definitions of the datasets when it was made or opened.
    _definitions: tuple[tuple[bytes, bytes], ...] = ()
    _options: dict[str, Any] = field(default_factory=dict)
    # The records of analyses that its writers run, beside those that the store has.
    _analyses: tuple[bytes, ...] = ()
    # For the process that made it: the first commit need not look at anything then.
    _fresh: _core.FreshStore | None = field(default=None, compare=False, repr=False)
    # How a URL is reached: what :func:`hyperchunk.open` is told.
    _reach: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def _network(self) -> dict[str, Any] | None:
        return _network(self.path, **self._reach)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_fresh": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # In the process that made it, as in the first rank of a broadcast, a copy is as good.
        if (made := _MADE.get((self.path, self._known))) is not None:
            self.__dict__["_fresh"] = made._fresh

    def writer(
        self,
        *,
        checksum: bool | None = None,
        statistics: bool | None = None,
        sync: str | None = None,
        codec: str | None = None,
        session: str | None = None,
        priority: int = 0,
        segments: str | None = None,
        memory: int | None = None,
        analyses: bool = True,
    ) -> Writer:
        """Begins to write, in this process. `checksum` and `statistics` (smallest and largest value with its place,
        sum, not a number) are found while data are written; `sync` is ``"epoch"`` (data are on the disk before a ticket
        is given), ``"never"`` or ``"record"``. With ``codec="filters"`` chunks that are written whole go through their
        filters at once, on all processors, and not only when the store is packed (``"raw"``): less is written, but
        plain HDF5 cannot read them before that. Where writers of one epoch write to the same place, the higher
        `priority` counts. With ``segments="arrow"``, rows go to Arrow IPC files (:func:`fragments`). With `memory`, so
        many bytes of what is written stay in shared memory until the writer flushes or closes, or they are taken: that
        is faster at first, and they are lost if the process is killed before. The analyses of the store look at what is
        written, as far as this user trusts those who signed them (:class:`Analysis`), unless `analyses` is false."""
        given = {"checksum": checksum, "statistics": statistics, "sync": sync, "codec": codec, "segments": segments}
        return self._begin(
            **{key: value for key, value in given.items() if value is not None},
            session=session,
            priority=priority,
            memory=memory,
            analyses=list(self._analyses) if analyses else None,
        )

    def _begin(self, **given: Any) -> Writer:
        """A writer; `analyses` are records, and with `alone` those of the store do not run."""
        options = {"checksum": True, "statistics": False, "sync": "epoch", "codec": "raw", "segments": "log"}
        options |= {"session": None, "priority": 0, "memory": None, "analyses": None, "alone": False}
        options |= self._options | given
        known, network = self._known, self._network
        core = _core.StoreWriter.create(self.path, truncates=False, known=known, network=network, **options)
        # Others may have committed since: the newest epoch says what there is.
        committed = core.base_datasets()
        return Writer(self, core, self._defined() if committed is None else committed)

    def _defined(self) -> list[_core.StoreDefinition]:
        return [_core.StoreDefinition.decode(path, definition) for path, definition in self._definitions]

    def commit(
        self,
        tickets: Iterable[bytes] | None = None,
        *,
        on_conflict: Literal["error", "warn"] = "error",
        data_only: bool = False,
        salvage: bool = False,
        flushed: bool = False,
        link: str = "absolute",
        sync: str | None = None,
    ) -> Epoch | None:
        """Makes an epoch of what was written: of the writers that gave `tickets`, or of all that are done. None if
        there is nothing new. Anybody may do it, in any process.

        If two writers wrote different things to one place, nothing is committed, and the error names the dataset, the
        place and both writers; with ``on_conflict="warn"`` the epoch is made, the writer of the higher priority or id
        counts, and a warning and :attr:`Epoch.conflicts` name them. A log that cannot be committed because of what it
        holds is set aside with a warning, and the others are committed; of such logs, `data_only` takes the raw data.
        `flushed` takes writers that go on, up to their last flush; `salvage` those that were stopped, up to the last
        thing that is whole. `link` says how plain HDF5 finds the data: by ``"absolute"`` names, ``"relative"`` ones
        (``HDF5_EXTFILE_PREFIX='${ORIGIN}'``), or ``"none"``."""
        if on_conflict not in ("error", "warn"):
            raise ValueError(f"on_conflict must be 'error' or 'warn', not {on_conflict!r}")
        made, set_aside = _core.store_commit(
            self.path,
            network=self._network,
            tickets=None if tickets is None else [bytes(ticket) for ticket in tickets],
            fresh=self._fresh,
            conflicts_are_errors=on_conflict == "error",
            data_only=data_only,
            salvage=salvage,
            flushed=flushed,
            link=link,
            sync=sync or self._options.get("sync", "epoch"),
        )
        for reason in dict(set_aside).values():
            warnings.warn(reason, StoreWarning, stacklevel=2)
        if made is None:
            return None
        number, writers, found, left, linked, unlinked, failed = made
        if failed and tickets is None:
            warnings.warn(
                f"epoch {number} has nothing new of {', '.join(failed)}: could not write all that it was given; "
                "take what is whole with salvage=True",
                stacklevel=2,
            )
        conflicts_found = [
            Conflict(path, what, tuple(start), tuple(count), kept, other)
            for path, what, start, count, kept, other in found
        ]
        for conflict in conflicts_found:
            place = f" at {conflict.start}, {conflict.count} elements" if conflict.start else ""
            kept = f"writer {conflict.kept} counts" if conflict.kept.strip("0") else "later epochs count"
            other = f"writer {conflict.other}" if conflict.other.strip("0") else "an earlier epoch"
            message = f"{conflict.path}{place}: {conflict.what}: {kept}, {other} does not"
            warnings.warn(f"{self.path}: {message}", StoreWarning, stacklevel=2)
        return Epoch(number, writers, conflicts_found, left, linked, dict(unlinked), dict(set_aside))

    def fragments(self, table: str = "/", epoch: int | None = None) -> Fragments:
        """The Arrow files that are a table (:func:`fragments`)."""
        return fragments(self.path, table, epoch)

    def restructure(self, dataset: str, **options: Any) -> Restructured:
        """Makes another layout of a dataset as the newest epoch has it, or another `epoch`: see
        :func:`hyperchunk.restructure`. It serves later epochs, too, as long as they have nothing new of the dataset."""
        from hyperchunk.layouts import restructure

        return restructure(self.path, dataset, **options)

    def query(self, path: str, predicate: str, box: BoxLike = None, *, epoch: int | None = None) -> Query:
        """Where the committed values of a dataset lie that `predicate` asks for (:func:`hyperchunk.query`), in all of
        it or in a box. Nothing is read of what writers' statistics rule out."""
        return self._dataset(path, epoch).query(predicate, box)

    def shards(self, path: str, box: BoxLike = None, *, epoch: int | None = None) -> Shards:
        """The zones of a dataset: what was written at once, or parts of about a megabyte. ``shards(path).top(1)``
        tells the largest value, where it is, and who wrote it."""
        return self._dataset(path, epoch).zones(box)

    def follow(
        self,
        path: str,
        predicate: str | None = None,
        *,
        interval: float = 0.1,
        until_done: bool = False,
        timeout: float | None = None,
    ) -> Iterator[Seen]:
        """A standing query: yields values that `predicate` asks for as writers flush them, before anybody commits, and
        without locks. What was committed before is not among them: that is :meth:`query`'s. Without `predicate`, `path`
        is one that names its dataset, ``"max(h) > 12"``. It looks every `interval` seconds, and ends after `timeout`
        seconds, or with `until_done` when all writers are done that have begun; one that nobody asks for the next
        values does nothing."""
        if predicate is None:
            path, predicate = _core.predicate_of_dataset(path)
        definitions = self._defined()
        named = {os.fsdecode(definition.path): definition for definition in definitions}
        name = "/" + path.strip("/")
        if name not in named and not path.startswith("/"):
            names = [known for known in named if known.endswith(name)]
            if len(names) > 1:
                raise KeyError(f"which dataset is {path}? There are {', '.join(sorted(names))}")
            name = names[0] if names else name
        if name not in named:
            raise KeyError(f"the store has no dataset {name}")
        dtype = np.dtype(dtype_of(named[name].datatype.description))
        options: Any = {"interval": interval, "until_done": until_done, "timeout": timeout}
        return follow(self.path, name, predicate, dtype, len(named[name].shape), **options)

    def _dataset(self, path: str, epoch: int | None) -> ReadDataset:
        import hyperchunk

        options: dict[str, Any] = {} if epoch is None else {"epoch": epoch}
        found: ReadDataset = hyperchunk.open(self.path, **self._reach, **options)[path]
        return found

    def analyses(self, epoch: int | None = None) -> list[StoredAnalysis]:
        """The analyses that an epoch has; the newest if none is named."""
        return analysis.listed(self.path, epoch)

    def results(self, dataset: str | bytes, epoch: int | None = None, *, run: bool = False) -> list[Results]:
        """What analyses found in a dataset, of an epoch or the newest. Nothing is run for it: results of several
        writers become one by the rules that the analysis has (``merge=``). With `run`, those without rules become one
        by the analysis' own function, in the sandbox, if this user trusts who signed it."""
        return analysis.results(self.path, dataset, epoch, run)

    def add_analysis(self, added: Analysis | bytes) -> Epoch | None:
        """Lets an analysis look at what is written from now on; makes an epoch. What was written before it does not
        see: :meth:`backfill`."""
        (record,) = analysis.records([added])
        return self._announce(record, runs=True)

    def remove_analysis(self, removed: str) -> Epoch | None:
        """Lets an analysis, by its name or identity, look at nothing more; makes an epoch. What it found stays."""
        return self._announce(bytes(self._analysis(removed).record), runs=False)

    def _announce(self, record: bytes, *, runs: bool) -> Epoch | None:
        names = [name.encode() for name in _core.analysis_look(record)["datasets"]]
        with self.writer(analyses=False) as writer:
            missing = [name.decode() for name in names if name not in writer]
            if missing:
                raise KeyError(f"the store has no dataset {missing[0]}")
            for name in names:
                writer[name]._announce(record, runs=runs)
            ticket = writer.close()
        return self.commit([ticket])

    def backfill(
        self,
        looks: Analysis | bytes | str,
        *,
        epochs: tuple[int, int] | None = None,
        threads: int = 0,
        executor: Any = None,
        workers: int | None = None,
    ) -> int | None:
        """Lets an analysis look at what was written before it was there: at what the newest epoch has in the boxes that
        were written in `epochs` (the first and the last; all if none are named) and of which it has no results. `looks`
        is an analysis, or the name or identity of one that the store has. Uses up to `threads` threads, each with a
        worker; 0 for one a processor. With an `executor`, that does it, as for :func:`hyperchunk.executors.run`: a Dask
        client, ``"processes"``, anything with ``submit``. Returns the number of the epoch that has what was found; None
        if there was nothing to look at."""
        if isinstance(looks, str):
            record = bytes(self._analysis(looks).record)
        else:
            (record,) = analysis.records([looks])
        of_epochs = epochs or (0, 2**63)
        if executor is None:
            return _core.store_backfill(self.path, record, of_epochs, threads)
        epoch, boxes = _core.store_unseen(self.path, record, of_epochs)
        look = functools.partial(_look, self.path, record, of_epochs, epoch)
        tickets = executors.run(look, boxes, executor=executor, workers=workers)
        made = self.commit([ticket for ticket in tickets if ticket is not None])
        return None if made is None else made.number

    def _analysis(self, name: str) -> StoredAnalysis:
        all_of_them = self.analyses()
        found = [one for one in all_of_them if name in (one.id, one.name) and one.damage is None]
        # Of versions with one name, the one that runs.
        found = [one for one in found if one.runs] or found
        if len(found) != 1:
            known = ", ".join(f"{one.name} ({one.id})" for one in all_of_them) or "none"
            raise KeyError(f"{len(found)} analyses are called {name!r}; there are: {known}")
        return found[0]

    def open(self, **options: Any) -> Any:
        """The committed file, for reading (:func:`hyperchunk.open`)."""
        import hyperchunk

        return hyperchunk.open(self.path, **self._reach | options)

    def __repr__(self) -> str:
        return f"<store of {self.path!r}>"


def _network(
    path: str, storage_options: dict[str, Any] | None = None, network: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """How a URL is reached, for `_core`; None for a path."""
    if is_url(path):
        return (network or {}) | {"store": store_options(storage_options or {})}
    if storage_options or network:
        raise TypeError(f"storage_options and network are for stores over a network, not for {path!r}")
    return None


def _target(path: str | os.PathLike[str], made: bool = False) -> str:
    """A URL as it is, and a path whatever the working folder becomes: that of the file itself, symbolic links being
    followed; for what is made or changed, another user's link is an error."""
    name = os.fspath(path)
    if is_url(name):
        return name
    return os.fspath(_core.store_real_file(Path(name.removeprefix("file://")).absolute(), made))


def _reach(storage_options: dict[str, Any] | None, network: dict[str, Any] | None) -> dict[str, Any]:
    given = {"storage_options": storage_options, "network": network}
    return {name: value for name, value in given.items() if value is not None}


# What this process made.
_MADE: WeakValueDictionary[tuple[str, schema.Known | None], Store] = WeakValueDictionary()


def create(
    path: str | os.PathLike[str],
    datasets: Mapping[str, Dataset] | None = None,
    *,
    attrs: Mapping[str, Any] | None = None,
    groups: Mapping[str, Mapping[str, Any]] | None = None,
    overwrite: bool = False,
    checksum: bool = True,
    statistics: bool = False,
    sync: str = "epoch",
    codec: str = "raw",
    segments: str = "log",
    analyses: Sequence[Analysis | bytes] = (),
    storage_options: dict[str, Any] | None = None,
    network: dict[str, Any] | None = None,
    _tell: Callable[[Store], None] | None = None,
) -> Store:
    """Makes a store with these `datasets`, by their paths, `attrs` of the root group, and `groups` with their
    attributes.

    The file is there at once and shows what will be in it; until the first commit, reading data of it is an error. What
    is there already is an error, unless `overwrite`: then readers of it keep what they opened, and the first commit
    shows the new store alone. `checksum`, `statistics`, `sync`, `codec` and `segments` are what its writers do unless
    they say otherwise (:meth:`Store.writer`).

    With ``segments="arrow"``, whole rows of datasets of one group with equally many rows go to Arrow IPC files, one for
    each writer and group, that Arrow's tools read as they are (:func:`fragments`). That needs little-endian numbers or
    strings of fixed length, and no filters; everything else goes to the logs, as without it.

    `analyses` look at what is written (:class:`Analysis`); until the first commit, only those who have the store from
    here know them.

    The `path` may be the URL of an object (``"s3://bucket/run.h5"``), with `storage_options` and `network` as for
    :func:`hyperchunk.open`: then all of the store is in the bucket. What a writer wrote is there when it flushes or
    closes, and not before; the store must write objects on condition that there is none of their name.

    >>> run = create("run.h5", {"/energy": Dataset((8_000_000,), "f4")})  # doctest: +SKIP
    """
    given = analysis.records(analyses)
    structure = schema.empty()
    datasets = dict(datasets or {})
    definitions = []
    paths = [schema.absolute(name) for name in datasets]
    # Else the definitions say all that will be in the file.
    more = bool(groups or attrs) or len(set(paths)) < len(paths) or any(path.count(b"/") > 1 for path in paths)
    for where, (name, dataset) in zip(paths, datasets.items(), strict=True):
        description, _, shown, _ = structure._type(dataset.dtype, None)
        if not schema.is_diverted(description, dataset.shape):
            raise ValueError(
                f"{name}: scalars, sequences, references and strings of any length are no data of a store: "
                "make them with Writer.structure"
            )
        definitions.append(schema.define(structure, where, description, shown, dataset.shape, dataset.options))
        more = more or bool(dataset.attrs or dataset.options.get("track_order"))
    target = _target(path, made=True)
    reach = _reach(storage_options, network)
    how = _network(target, **reach)
    encoded = tuple((definition.path, definition.encode()) for definition in definitions)
    options = {"checksum": checksum, "statistics": statistics, "sync": sync, "codec": codec, "segments": segments}
    image = None
    if more:
        for definition, dataset in zip(definitions, datasets.values(), strict=True):
            schema.show(structure, definition, bool(dataset.options.get("track_order")))
            structure[definition.path].attrs.update(dataset.attrs)
        for name, values in (groups or {}).items():
            structure.require_group(name).attrs.update(values)
        structure.attrs.update(attrs or {})
        structure.flush()
        image = structure.getbuffer()
    # Writers may begin before the file is there.
    begun = _core.StoreBegun.begin(target, overwrite, how) if _tell is not None else None
    if _tell is not None and begun is not None:
        _tell(Store(target, begun.known, encoded, options, given, None, reach))
    if begun is not None:
        known, fresh = begun.create(definitions, image, sync)
    else:
        known, fresh = _core.store_create(target, definitions, image, overwrite, sync, how)
    made = Store(target, known, encoded, options, given, fresh, reach)
    if _tell is not None and begun is None:
        _tell(made)
    _MADE[made.path, made._known] = made
    return made


def open(
    path: str | os.PathLike[str],
    *,
    checksum: bool = True,
    statistics: bool = False,
    sync: str = "epoch",
    codec: str = "raw",
    segments: str = "log",
    analyses: Sequence[Analysis | bytes] = (),
    storage_options: dict[str, Any] | None = None,
    network: dict[str, Any] | None = None,
) -> Store:
    """The store of a file, to write more to it.

    Its writers know its datasets: those of the newest epoch, or, before the first one, those that :func:`create` was
    given. `analyses` look at what they write, beside those that the store has.
    """
    target = _target(path, made=True)
    if not is_url(target) and not Path(target).exists():
        raise FileNotFoundError(f"there is no file {target}: make a store with store.create")
    reach = _reach(storage_options, network)
    known, definitions = _core.store_look_up(target, _network(target, **reach))
    options = {"checksum": checksum, "statistics": statistics, "sync": sync, "codec": codec, "segments": segments}
    return Store(target, known, tuple(definitions), options, analysis.records(analyses), None, reach)


def _look(path: str, record: bytes, epochs: tuple[int, int], epoch: int, first: int, end: int) -> bytes | None:
    """Some of the boxes that an analysis has not seen, in whatever process this is."""
    return _core.store_look(path, record, epochs, epoch, (first, end))
