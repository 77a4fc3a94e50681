"""Store handles, shared by all processes."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack
from weakref import WeakValueDictionary

import numpy as np

from hyperchunk import _core, executors, observing
from hyperchunk.dtypes import to_dtype
from hyperchunk.file import is_url, network_options
from hyperchunk.progress import Progress, ProgressLike, is_wanted
from hyperchunk.queries import BoxLike, Query, Zones
from hyperchunk.store import schema
from hyperchunk.store.analysis import Analysis, Results, StoredAnalysis, listed, records, results, size
from hyperchunk.store.following import Matches, follow
from hyperchunk.store.schema import Dataset
from hyperchunk.store.tables import Fragments, fragments
from hyperchunk.store.writer import Writer
from hyperchunk.typing import Attributes, NetworkOptions, OpenOptions, StorageOptions

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset as ReadDataset
    from hyperchunk.executors import ExecutorLike
    from hyperchunk.file import File
    from hyperchunk.layouts import RestructureOptions, RestructureResult


class StoreWarning(UserWarning):
    """A commit made an incomplete epoch: a log was set aside, or writers had conflicts."""


@dataclass(frozen=True)
class Conflict:
    """A conflict: two writers of one epoch wrote different data."""

    #: Path of the object.
    path: str
    #: Subject of the conflict.
    what: str
    #: In a dataset: first element and extent.
    start: tuple[int, ...]
    count: tuple[int, ...]
    #: Writer whose data are visible, and writer whose data are hidden.
    kept: str
    other: str


@dataclass(frozen=True)
class Epoch:
    """A commit."""

    #: Number, from 1.
    number: int
    #: Writers with new data in it.
    writers: list[str]
    #: Conflicts between writers.
    conflicts: list[Conflict]
    #: Writers with uncommitted data.
    uncommitted: list[str]
    #: Datasets that plain HDF5 can read, and the others with the reasons.
    linked: list[str]
    unlinked: dict[str, str]
    #: Writers whose logs cannot be committed because of their contents, with the reasons.
    set_aside: dict[str, str] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """Returns the epoch for a notebook."""
        from hyperchunk.notebook_parts import render_epoch

        return render_epoch(self)


class Reach(TypedDict, total=False):
    """Options of :func:`hyperchunk.open` for access to a URL."""

    storage_options: StorageOptions
    network: NetworkOptions


@dataclass(frozen=True)
class Store:
    """A store, shared by all its writers: small and picklable. Made by :func:`create` or :func:`open`."""

    #: Path or URL of the HDF5 file.
    path: str
    _known: schema.Known | None = None
    # Paths and definitions of the datasets, as of the creation or opening.
    _definitions: tuple[tuple[bytes, bytes], ...] = ()
    _options: dict[str, object] = field(default_factory=dict)
    # Records of analyses that the writers run in addition to the store's own.
    _analyses: tuple[bytes, ...] = ()
    # Only in the process that made the store: allows the first commit not to scan the folder.
    _fresh: _core.FreshStore | None = field(default=None, compare=False, repr=False)
    # Options of :func:`hyperchunk.open` for access to a URL.
    _reach: Reach = field(default_factory=Reach, compare=False, repr=False)

    @property
    def _network(self) -> dict[str, object] | None:
        return _network(self.path, **self._reach)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_fresh": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        # A copy unpickled in the process that made the store, as in a broadcast's first rank, gets the handle back.
        if (made := _CREATED_STORES.get((self.path, self._known))) is not None:
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
        memory: int | str | None = None,
        analyses: bool = True,
    ) -> Writer:
        """Starts a writer in this process.

        Args:
            checksum: Compute checksums while data are written.
            statistics: Compute statistics while data are written: minimum and maximum with their indices, sum, number
                of NaN.
            sync: ``"epoch"`` (data are on disk before a ticket is returned), ``"never"`` (the system writes them to
                disk later: a power failure may lose committed data) or ``"record"`` (each write is on disk before it
                returns: slow). With the first two, writes of less than 64 KiB wait in memory, up to 256 KiB or 1,024
                writes; they are lost if the process is killed before :meth:`Writer.flush`.
            codec: ``"filters"``: whole chunks are filtered at once, on all processors, instead of when the store is
                packed (``"raw"``): less is written, but plain HDF5 cannot read them before the packing.
            session: Name of the run that the writer belongs to.
            priority: If writers of one epoch write the same elements, the higher priority wins.
            segments: ``"arrow"``: rows go to Arrow IPC files (:func:`fragments`).
            memory: Bytes, or ``"64MiB"``, that stay in shared memory until the writer flushes, closes or exceeds it:
                this is faster at first, and they are lost if the process is killed before.
            analyses: Whether the store's analyses run on the data, as far as this user trusts their signers
                (:class:`Analysis`).

        Example:
            >>> run = hyperchunk.store.create("run.h5", {"/energy": hyperchunk.store.Dataset((4,), "f4")})
            >>> with run.writer(statistics=True) as writer:
            ...     writer["/energy"][:2] = [5, 6]
        """
        given = {"checksum": checksum, "statistics": statistics, "sync": sync, "codec": codec, "segments": segments}
        return self._begin(
            **{key: value for key, value in given.items() if value is not None},
            session=session,
            priority=priority,
            memory=None if memory is None else size(memory),
            analyses=list(self._analyses) if analyses else None,
        )

    def _begin(self, **given: object) -> Writer:
        """Starts a writer; `analyses` are records, and with `alone` the store's own do not run."""
        options: dict[str, object] = {"checksum": True, "statistics": False, "sync": "epoch", "codec": "raw"}
        options |= {"segments": "log"}
        options |= {"session": None, "priority": 0, "memory": None, "analyses": None, "alone": False}
        options |= self._options | given
        known, network = self._known, self._network
        core = _core.StoreWriter.create(self.path, truncates=False, known=known, network=network, **options)
        # Other processes may have committed since; the newest epoch has the current definitions.
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
        """Commits an epoch of the written data. Any process may commit. If two writers wrote different data to
        the same elements, nothing is committed, and the error names the dataset, the elements and both writers.

        Args:
            tickets: Tickets of the writers whose data are committed; by default all closed ones.
            on_conflict: With ``"warn"``, the epoch is made in spite of conflicts: the writer of the higher priority, or
                the one that began later, wins, and a warning and :attr:`Epoch.conflicts` name them.
            data_only: Commit the raw data of logs that cannot be committed because of their contents. Without it,
                these are set aside with a warning, and the others are committed.
            salvage: Include killed writers, up to the last complete record in their logs. Small writes that still
                waited in the writer's memory are lost. Without it, a warning names killed writers of this machine.
            flushed: Include active writers, up to their last flush.
            link: How plain HDF5 finds the data: by ``"absolute"`` names, ``"relative"`` ones
                (``HDF5_EXTFILE_PREFIX='${ORIGIN}'``), or ``"none"``.
            sync: ``"epoch"`` or ``"never"``; by default as for the store.

        Returns:
            The epoch; None if there is nothing new.

        Raises:
            ValueError: `on_conflict` is neither ``"error"`` nor ``"warn"``.
            TypeError: `tickets` is a ticket instead of a list of them, or an item of it is not a ticket.
            HyperchunkError: Writers had conflicts.

        Example:
            >>> run = hyperchunk.store.create("run.h5", {"/energy": hyperchunk.store.Dataset((4,), "f4")})
            >>> with run.writer() as writer:
            ...     writer["/energy"][:] = 1
            ...     ticket = writer.flush()
            >>> run.commit([ticket]).number
            1
        """
        if on_conflict not in ("error", "warn"):
            raise ValueError(f"on_conflict must be 'error' or 'warn', not {on_conflict!r}")
        if tickets is not None:
            tickets = _checked(tickets)
        with observing.work("commit", self.path) as facts:
            made, set_aside, failed, stopped = _core.store_commit(
                self.path,
                network=self._network,
                tickets=tickets,
                fresh=self._fresh,
                conflicts_are_errors=on_conflict == "error",
                data_only=data_only,
                salvage=salvage,
                flushed=flushed,
                link=link,
                sync=sync or self._options.get("sync", "epoch"),
            )
            if made is not None:
                facts["epoch"], facts["writers"], facts["conflicts"] = made[0], len(made[1]), len(made[2])
        for reason in dict(set_aside).values():
            warnings.warn(reason, StoreWarning, stacklevel=2)
        left = "nothing was committed, although there are" if made is None else f"epoch {made[0]} has no new"
        if failed and tickets is None:
            warnings.warn(
                f"{self.path}: {left} data of {', '.join(failed)}, which could not write all of them; commit "
                "the complete records with salvage=True",
                StoreWarning,
                stacklevel=2,
            )
        if stopped and tickets is None:
            warnings.warn(
                f"{self.path}: {left} data of {', '.join(stopped)}: expected closed writers, got ended "
                "processes that had not closed theirs; commit what is in their logs with salvage=True",
                StoreWarning,
                stacklevel=2,
            )
        if made is None:
            return None
        number, writers, found, uncommitted, linked, unlinked = made
        conflicts_found = [
            Conflict(path, what, tuple(start), tuple(count), kept, other)
            for path, what, start, count, kept, other in found
        ]
        for conflict in conflicts_found:
            box = f" at {conflict.start}, {conflict.count} elements" if conflict.start else ""
            kept = f"writer {conflict.kept}" if conflict.kept.strip("0") else "later epochs"
            other = f"writer {conflict.other}" if conflict.other.strip("0") else "an earlier epoch"
            message = f"{conflict.path}{box}: {conflict.what} (visible: {kept}; hidden: {other})"
            warnings.warn(f"{self.path}: {message}", StoreWarning, stacklevel=2)
        return Epoch(number, writers, conflicts_found, uncommitted, linked, dict(unlinked), dict(set_aside))

    def fragments(self, table: str = "/", epoch: int | None = None) -> Fragments:
        """Returns the Arrow files that form a table (:func:`fragments`)."""
        return fragments(self.path, table, epoch)

    def restructure(self, dataset: str, **options: Unpack[RestructureOptions]) -> RestructureResult:
        """Makes another layout of a dataset, as of the newest or another `epoch`: see :func:`hyperchunk.restructure`.
        Later epochs use it, too, as long as the dataset does not change.
        """
        from hyperchunk.layouts import restructure

        return restructure(self.path, dataset, **options)

    def query(self, path: str, predicate: str, box: BoxLike = None, *, epoch: int | None = None) -> Query:
        """Finds the committed values of a dataset, or of a box of it, that satisfy `predicate`
        (:func:`hyperchunk.query`). Data that the writers' statistics rule out are not read.
        """
        return self._dataset(path, epoch).query(predicate, box)

    def zones(self, path: str, box: BoxLike = None, *, epoch: int | None = None) -> Zones:
        """Returns the zones of a dataset: the boxes of single writes, or parts of them of about a megabyte.
        ``zones(path).top(1)`` returns the largest value, its index, and its writer.
        """
        return self._dataset(path, epoch).zones(box)

    def follow(
        self,
        path: str,
        predicate: str | None = None,
        *,
        interval: float = 0.1,
        until_done: bool = False,
        timeout: float | None = None,
    ) -> Iterator[Matches]:
        """Yields values that satisfy a condition as writers flush them: a standing query, without locks and before any
        commit. It works only while the caller iterates. Values committed before its start are not included; use
        :meth:`query` for them.

        Args:
            path: Path of a dataset; without `predicate`, a condition that names its dataset: ``"max(h) > 12"``.
            predicate: The condition.
            interval: Seconds between polls.
            until_done: End when all writers that have started are closed, or were killed on this machine; a
                :class:`StoreWarning` names those.
            timeout: End after this number of seconds.

        Raises:
            KeyError: There is no such dataset.

        Example:
            >>> for found in run.follow("/energy", "value > 12", until_done=True):  # doctest: +SKIP
            ...     print(found.indices, found.values)
        """
        if predicate is None:
            path, predicate = _core.predicate_of_dataset(path)
        definitions = self._defined()
        named = {os.fsdecode(definition.path): definition for definition in definitions}
        name = "/" + path.strip("/")
        if name not in named and not path.startswith("/"):
            names = [known for known in named if known.endswith(name)]
            if len(names) > 1:
                raise KeyError(f"ambiguous name {path}: it matches {', '.join(sorted(names))}")
            name = names[0] if names else name
        if name not in named:
            raise KeyError(f"the store has no dataset {name}")
        dtype = np.dtype(to_dtype(named[name].datatype.description))
        rank = len(named[name].shape)
        return follow(
            self.path, name, predicate, dtype, rank, interval=interval, until_done=until_done, timeout=timeout
        )

    def _dataset(self, path: str, epoch: int | None) -> ReadDataset:
        import hyperchunk

        return hyperchunk.open(self.path, epoch=epoch, **self._reach).dataset(path)

    def analyses(self, epoch: int | None = None) -> list[StoredAnalysis]:
        """Lists the analyses of an epoch, by default the newest."""
        return listed(self.path, epoch)

    def results(self, dataset: str | bytes, epoch: int | None = None, *, run: bool = False) -> list[Results]:
        """Returns the results of analyses for a dataset, in an epoch, by default the newest. No function runs:
        results of several writers are merged by the rules of the analysis (``merge=``). With `run`, an analysis
        without rules merges them by its own function, in the sandbox, if this user trusts its signer.
        """
        return results(self.path, dataset, epoch, run)

    def add_analysis(self, analysis: Analysis | bytes) -> Epoch | None:
        """Adds an analysis that runs on all data written from now on; makes an epoch. For earlier data, use
        :meth:`backfill`.
        """
        (record,) = records([analysis])
        return self._announce(record, runs=True)

    def remove_analysis(self, removed: str) -> Epoch | None:
        """Stops an analysis, given by its name or id; makes an epoch. Its results stay."""
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
        analysis: Analysis | bytes | str,
        *,
        epochs: tuple[int, int] | None = None,
        threads: int = 0,
        executor: ExecutorLike = None,
        workers: int | None = None,
        progress: ProgressLike = None,
    ) -> int | None:
        """Runs an analysis on earlier data: on the current contents, in the newest epoch, of boxes that have no
        results of it.

        Args:
            analysis: An analysis, or the name or id of one in the store.
            epochs: First and last epoch in which the boxes were written; by default all.
            threads: Maximum number of threads, each with a worker; 0 means one per processor.
            executor: Executor that distributes the work, as for :func:`hyperchunk.executors.run`.
            workers: Number of processes of the executor.
            progress: Shows the number of boxes: True, a function of the finished part and the total, or a tqdm
                object (:mod:`hyperchunk.progress`).

        Returns:
            Number of the epoch with the results; None if there was nothing to do.

        Raises:
            KeyError: There is no analysis of that name, or several.

        Example:
            >>> run.backfill("waves", threads=4)  # doctest: +SKIP
            3
        """
        if isinstance(analysis, str):
            record = bytes(self._analysis(analysis).record)
        else:
            (record,) = records([analysis])
        of_epochs = epochs or (0, 2**63)
        if executor is None and not is_wanted(progress):
            return _core.store_backfill(self.path, record, of_epochs, threads)
        if executor is None:
            with ThreadPoolExecutor(threads or None) as own:
                return self._backfill(record, of_epochs, own, threads or None, progress)
        return self._backfill(record, of_epochs, executor, workers, progress)

    def _backfill(
        self,
        record: bytes,
        epochs: tuple[int, int],
        executor: ExecutorLike,
        workers: int | None,
        progress: ProgressLike,
    ) -> int | None:
        epoch, boxes = _core.store_unseen(self.path, record, epochs)
        analyze = functools.partial(_analyze_boxes, self.path, record, epochs, epoch)
        with Progress(progress, boxes, "boxes") as shown:
            found = executors.run(
                analyze, boxes, executor=executor, workers=workers, each=lambda result: shown.add(result[1])
            )
        made = self.commit([ticket for ticket, _ in found if ticket is not None])
        return None if made is None else made.number

    def _analysis(self, name: str) -> StoredAnalysis:
        all_of_them = self.analyses()
        found = [one for one in all_of_them if name in (one.id, one.name) and one.damage is None]
        # Of several versions with one name, the active one.
        found = [one for one in found if one.runs] or found
        if len(found) != 1:
            known = ", ".join(f"{one.name} ({one.id})" for one in all_of_them) or "none"
            raise KeyError(f"{len(found)} analyses are called {name!r}; there are: {known}")
        return found[0]

    def open(self, **options: Unpack[OpenOptions]) -> File:
        """Opens the committed file for reading.

        Args:
            options: As for :func:`hyperchunk.open`.

        Returns:
            The file, as of the newest epoch or the one of the option ``epoch``.
        """
        import hyperchunk

        given: OpenOptions = {**self._reach, **options}
        return hyperchunk.open(self.path, **given)

    def _repr_html_(self) -> str:
        """Returns the store for a notebook."""
        from hyperchunk.notebook_parts import render_store

        return render_store(self)

    def __repr__(self) -> str:
        return f"<store of {self.path!r}>"


def _network(
    path: str, storage_options: StorageOptions | None = None, network: NetworkOptions | None = None
) -> dict[str, object] | None:
    """Returns the network options of a URL for `_core`; None for a path."""
    if is_url(path):
        return network_options(network, storage_options)
    if storage_options or network:
        raise TypeError(f"storage_options and network are for stores over a network, not for {path!r}")
    return None


def _target(path: str | os.PathLike[str], made: bool = False) -> str:
    """Returns a URL unchanged, or an absolute path with symbolic links resolved, independent of the working directory.
    For a file to be created or changed, a link owned by another user is an error.
    """
    name = os.fspath(path)
    if is_url(name):
        return name
    return os.fspath(_core.store_real_file(Path(name.removeprefix("file://")).absolute(), made))


def _reach(storage_options: StorageOptions | None, network: NetworkOptions | None) -> Reach:
    reach = Reach()
    if storage_options is not None:
        reach["storage_options"] = storage_options
    if network is not None:
        reach["network"] = network
    return reach


# Stores made by this process.
_CREATED_STORES: WeakValueDictionary[tuple[str, schema.Known | None], Store] = WeakValueDictionary()


def create(
    path: str | os.PathLike[str],
    datasets: Mapping[str, Dataset] | None = None,
    *,
    attrs: Attributes | None = None,
    groups: Mapping[str, Attributes] | None = None,
    overwrite: bool = False,
    checksum: bool = True,
    statistics: bool = False,
    sync: str = "epoch",
    codec: str = "raw",
    segments: str = "log",
    analyses: Sequence[Analysis | bytes] = (),
    storage_options: StorageOptions | None = None,
    network: NetworkOptions | None = None,
    _tell: Callable[[Store], None] | None = None,
) -> Store:
    """Creates a store. The file exists at once and shows the future structure; until the first commit, reading data
    from it is an error.

    Args:
        path: Path of the file, or URL of an object (``"s3://bucket/run.h5"``): then the whole store is in the bucket. A
            writer's data arrive there when it flushes or closes, and not before; the object store must support
            conditional creation (only if no object of that name exists).
        datasets: Datasets by their paths.
        attrs: Attributes of the root group.
        groups: Groups by their paths, with their attributes.
        overwrite: Replace an existing file. Its readers keep the version that they opened, and the first commit
            replaces it by the new store.
        checksum, statistics, sync, codec: Defaults of its writers (:meth:`Store.writer`).
        segments: ``"arrow"``: whole rows of datasets of one group with equal numbers of rows go to Arrow IPC files, one
            for each writer and group, which Arrow's tools read directly (:func:`fragments`). That needs little-endian
            numbers or fixed-length strings, and no filters; all other data go to the logs, as with ``"log"``.
        analyses: Functions that run on the written data (:class:`Analysis`); until the first commit, only writers of
            this handle know them.
        storage_options, network: As for :func:`hyperchunk.open`.

    Returns:
        The store: small and picklable, for all processes that write.

    Raises:
        FileExistsError: The file exists, and `overwrite` is not set.
        ValueError: A store cannot have such a dataset.

    Example:
        >>> energy = hyperchunk.store.Dataset((8_000_000,), "f4")
        >>> hyperchunk.store.create("run.h5", {"/energy": energy}, attrs={"run": 7})
        <store of '...run.h5'>
    """
    given = records(analyses)
    structure = schema.empty()
    datasets = dict(datasets or {})
    definitions = []
    paths = [schema.absolute(name) for name in datasets]
    # If False, the definitions alone describe the file.
    more = bool(groups or attrs) or len(set(paths)) < len(paths) or any(path.count(b"/") > 1 for path in paths)
    for where, (name, dataset) in zip(paths, datasets.items(), strict=True):
        if not isinstance(dataset, schema.Dataset):
            raise TypeError(
                f"cannot create {name}: expected a hyperchunk.store.Dataset, got {type(dataset).__name__}; use "
                'hyperchunk.store.Dataset(shape, dtype), for instance Dataset((1000, 3), "f4")'
            )
        description, _, shown, _ = structure._type(dataset.dtype, None)
        if not schema.is_diverted(description, dataset.shape):
            raise ValueError(
                f"{name}: a store cannot have scalars, sequences, references or variable-length strings as datasets: "
                "create them with Writer.structure"
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
    # Writers may start before the file exists.
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
    _CREATED_STORES[made.path, made._known] = made
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
    storage_options: StorageOptions | None = None,
    network: NetworkOptions | None = None,
) -> Store:
    """Opens the store of a file, to write more to it.

    Its writers know the datasets of the newest epoch or, before the first commit, the ones given to :func:`create`.

    Args:
        path: Path or URL of the file.
        checksum, statistics, sync, codec, segments: Defaults of its writers: see :meth:`Store.writer`.
        analyses: Analyses that run on their data, in addition to the store's own.
        storage_options, network: As for :func:`hyperchunk.open`.

    Raises:
        FileNotFoundError: There is no such file, or the store's folder is not beside it.
        InvalidError: The file is an ordinary HDF5 file.

    Example:
        >>> made = hyperchunk.store.create("run.h5", {"/energy": hyperchunk.store.Dataset((4,), "f4")})
        >>> run = hyperchunk.store.open("run.h5")
        >>> with run.writer() as writer:
        ...     writer["/energy"][:] = 1
        >>> run.commit().uncommitted
        []
    """
    target = _target(path, made=True)
    if not is_url(target) and not Path(target).exists():
        raise FileNotFoundError(f"there is no file {target}: make a store with store.create")
    reach = _reach(storage_options, network)
    known, definitions = _core.store_look_up(target, _network(target, **reach))
    options = {"checksum": checksum, "statistics": statistics, "sync": sync, "codec": codec, "segments": segments}
    return Store(target, known, tuple(definitions), options, records(analyses), None, reach)


def _checked(tickets: Iterable[bytes]) -> list[bytes]:
    """Returns the tickets as a list; a single ticket, which is a sequence of numbers, is an error."""
    if isinstance(tickets, bytes | bytearray | memoryview | str):
        raise TypeError("tickets must be a list of tickets: pass [ticket]")
    found = list(tickets)
    for ticket in found:
        if not isinstance(ticket, bytes | bytearray | memoryview):
            raise TypeError(f"a ticket is the bytes that flush() or close() returned, not {ticket!r:.100}")
    return [bytes(ticket) for ticket in found]


def _analyze_boxes(
    path: str, record: bytes, epochs: tuple[int, int], epoch: int, first: int, end: int
) -> tuple[bytes | None, int]:
    """Runs an analysis on some boxes without results of it, in any process; returns the ticket and their number."""
    return _core.store_look(path, record, epochs, epoch, (first, end)), end - first
