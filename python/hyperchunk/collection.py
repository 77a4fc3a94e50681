"""Collections: many files of the same structure, read as one."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from hyperchunk import _core, collecting
from hyperchunk import collection_reads as reads
from hyperchunk.collection_dataset import CollectionDataset
from hyperchunk.collection_queries import CollectionQuery
from hyperchunk.exceptions import ChangedError, InvalidError, NotFoundError, ObjectNotFoundError
from hyperchunk.file import File, is_url, network_options
from hyperchunk.objects import Opened, Recipe, encode
from hyperchunk.progress import Progress, ProgressLike, is_wanted
from hyperchunk.queries import BoxLike
from hyperchunk.suggestions import few, suggestion
from hyperchunk.typing import (
    Array,
    Cells,
    Compounds,
    Enums,
    Half,
    NetworkOptions,
    PathLike,
    Rows,
    StorageOptions,
    Strings,
)

if TYPE_CHECKING:
    import icechunk
    import xarray

    from hyperchunk.arrow.table import Table

__all__ = ["Collection", "open_collection"]

#: Files of a collection: paths or URLs, a pattern (``"day*.nc"``), a folder, or a collection's file (``"all.hcx"``).
Files: TypeAlias = PathLike | Sequence[PathLike]
#: ``xarray.Dataset`` of VirtualiZarr, and ``icechunk.Repository``.
VirtualDataset: TypeAlias = "xarray.Dataset"
Repository: TypeAlias = "icechunk.Repository"

_SUFFIX = ".hcx"
_HDF5_SUFFIXES = (".h5", ".hdf", ".hdf5", ".he5", ".nc", ".nc4")


def open_collection(
    files: Files,
    concat: str | Literal[0] | None = None,
    *,
    on_mismatch: Literal["error", "skip"] = "error",
    statistics: Sequence[str] = (),
    output: PathLike | None = None,
    overwrite: bool = False,
    progress: ProgressLike = None,
    threads: int | None = None,
    limits: Mapping[str, int] | None = None,
    storage_options: StorageOptions | None = None,
    network: NetworkOptions | None = None,
) -> Collection:
    """Opens many files of the same structure as one. The structure of all files, and the values of their coordinates,
    are read in parallel.

    Args:
        files: Paths or URLs, in the order in which they are joined; a pattern (``"day*.nc"``, also of a URL); a folder
            or a prefix that ends with ``/``, for its HDF5 and netCDF files; or a collection that
            :meth:`Collection.save` or ``hyperchunk collect`` wrote (``.hcx``), which takes a few requests to open.
        concat: Name of the dimension along which the files are joined; 0 for the first axes of all datasets. By
            default, the only unlimited dimension of the first file.
        on_mismatch: Reaction to a file that cannot be read, or has another structure than the first one: ``"error"``,
            or ``"skip"``, which leaves it out (:attr:`Collection.skipped`).
        statistics: Paths of datasets of which the collection keeps statistics: see :meth:`Collection.gather`.
        output: File, ``NAME.hcx``, to which the new collection is saved. After each 1,000 files, the
            finished part is saved in ``NAME.partial.hcx``, from which the same call resumes after an interruption.
        overwrite: True to replace an existing `output`.
        progress: Shows the number of finished files: True, a function of the finished part and the total, or a tqdm
            object (:mod:`hyperchunk.progress`).
        threads: Maximum number of decoding threads.
        limits, storage_options, network: As for :class:`File`.

    Raises:
        NotFoundError: There is no such file, or no file matches.
        InvalidError: A file's structure is not the first one's, or there is no such dimension. The message names file,
            dataset and difference.

    Example:
        >>> for day in range(3):
        ...     with hyperchunk.create(f"day{day}.h5") as file:
        ...         time = file.create_dataset("time", data=[10 * day, 10 * day + 5], maxshape=(None,))
        ...         time.make_scale()
        ...         file["rain"] = [day, day + 0.5]
        ...         file["rain"].dims[0].attach_scale(file["time"])
        >>> days = hyperchunk.open_collection("day?.h5")
        >>> days["rain"].shape, days["time"][:].tolist()
        ((6,), [0, 5, 10, 15, 20, 25])
        >>> days["rain"][3:5].tolist()
        [1.5, 2.0]
    """
    options: dict[str, object] = {
        "ignore_locks": False,
        "allow_truncated": False,
        "threads": threads or 0,
        "external": "never",
        "index": "never",
        "network": network_options(network, storage_options),
    }
    if limits:
        options["limits"] = dict(limits)
    if isinstance(files, str | os.PathLike) and os.fspath(files).endswith(_SUFFIX):
        if concat is not None or output is not None or statistics:
            raise TypeError(
                "concat, statistics and output are for new collections: this one is joined already; use gather()"
            )
        return Collection(_core.Collection.open(os.fspath(files), **options), options, _absolute(files))
    if not (concat is None or isinstance(concat, str) or (concat == 0 and type(concat) is int)):
        raise ValueError(f"concat must be the name of a dimension, or 0 for the first axes, not {concat!r}")
    skip = _skips(on_mismatch)
    names = _names(files, options)
    paths = _paths(statistics)
    with Progress(progress, len(names), "files") as shown:
        if output is not None:
            target = _collection_name(output)
            core = collecting.collect_into(names, target, overwrite, concat, skip, paths, shown, options)
            return Collection(core, options, _absolute(target))
        report = _reporter(shown) if is_wanted(progress) else None
        core = _core.Collection.collect(names, concat=concat, skip=skip, progress=report, **options)
        core.gather(paths, progress=None)
    return Collection(core, options)


def _paths(datasets: Sequence[str]) -> list[bytes]:
    if isinstance(datasets, str):
        raise TypeError("expected a list of paths of datasets, got a string")
    return [encode("/" + path.strip("/")) for path in datasets]


def _absolute(name: PathLike) -> str:
    text = os.fspath(name)
    return text if is_url(text) else str(Path(text.removeprefix("file://")).absolute())


def _collection_name(path: PathLike) -> str:
    name = os.fspath(path)
    if not name.endswith(_SUFFIX):
        raise ValueError(f"cannot save the collection: expected a name that ends with {_SUFFIX}, got {path!r}")
    return name


def _reporter(shown: Progress) -> Callable[[int], None]:
    """Returns a callback that counts a finished file; any thread may call it."""
    return lambda _: shown.add(1)


def _skips(on_mismatch: str) -> bool:
    """Returns whether files that do not fit are left out."""
    if on_mismatch not in ("error", "skip"):
        raise ValueError(f"on_mismatch must be 'error' or 'skip', not {on_mismatch!r}")
    return on_mismatch == "skip"


def _names(files: Files, options: dict[str, object]) -> list[str]:
    """Returns the paths or URLs that an argument stands for."""
    if not isinstance(files, str | os.PathLike | Sequence):
        raise TypeError(f"files must be paths or URLs, a pattern or a folder, not {files!r}")
    if not isinstance(files, str | os.PathLike):
        return [os.fspath(name) for name in files]
    name = os.fspath(files)
    if is_url(name):
        names = _listed(name, options)
    elif Path(name).is_file():
        names = [name]
    elif Path(name).is_dir():
        names = sorted(str(path) for path in Path(name).iterdir() if path.suffix in _HDF5_SUFFIXES)
    else:
        names = sorted(glob.glob(name))  # noqa: PTH207 (a pattern may be absolute)
    if not names:
        raise NotFoundError(f"cannot make a collection: no file matches {name!r}")
    return names


def _listed(url: str, options: dict[str, object]) -> list[str]:
    """Returns the URLs of the objects that match a URL's last part."""
    folder, _, pattern = url.rpartition("/")
    if pattern and not any(character in pattern for character in "*?["):
        return [url]
    found = _core.list_objects(folder, **options)
    matching = [
        name for name in found if (fnmatch.fnmatchcase(name, pattern) if pattern else name.endswith(_HDF5_SUFFIXES))
    ]
    return [f"{folder}/{name}" for name in sorted(matching)]


class Collection(Mapping[str, "CollectionDataset"]):
    """Many files of the same structure, joined along an axis: a mapping of paths to :class:`CollectionDataset`.

    Reading a file that was changed after it was collected raises :class:`ChangedError`.

    Example:
        >>> for number in range(2):
        ...     with hyperchunk.create(f"part{number}.h5") as file:
        ...         file["x"] = [number, number + 10]
        >>> parts = hyperchunk.open_collection(["part0.h5", "part1.h5"], concat=0)
        >>> parts
        <Collection of 2 files, joined along 0>
        >>> list(parts), parts.skipped
        (['/x'], {})
    """

    def __init__(self, core: _core.Collection, options: dict[str, object], name: str | None = None) -> None:
        self._core = core
        self._options = options
        #: Path or URL of the collection; None for one that was not saved.
        self.filename = name
        self._load()

    def close(self) -> None:
        """Closes the collection and those of its files that reads have left open, and releases their locks. Later
        reads raise :class:`ClosedError`.
        """
        self._open.close()
        for dataset in self._datasets.values():
            dataset.__dict__.pop("first", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _load(self) -> None:
        self.__dict__.pop("_digest", None)
        self._names = self._core.names()
        self._open = reads.OpenFiles(self._core, self._names)
        self._datasets = {}
        ends: dict[int, Array] = {}
        variables = self._core.variables()
        for path, axis, lengths, values, units in variables:
            text = path.decode("utf-8", "surrogateescape")
            # Variables that share a list of lengths share the array of ends, too.
            own = ends.get(id(lengths))
            if own is None:
                own = ends[id(lengths)] = _ends(lengths, text)
            self._datasets[text] = CollectionDataset(self, text, axis, own, values, units)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths or URLs of the files, in order."""
        return tuple(self._names)

    @property
    def skipped(self) -> dict[str, str]:
        """Files that were left out, with the reason."""
        return dict(self._core.skipped())

    @property
    def concat(self) -> str | Literal[0]:
        """Name of the dimension along which the files are joined; 0 for the first axes of all datasets."""
        return self._core.concat or 0

    def file(self, number: int) -> File:
        """Returns one of the files, opened without a request where the store has ETags.

        Args:
            number: Number of the file, from 0.

        Raises:
            ChangedError: The file is not the version that was collected.
        """
        number = range(len(self._names))[number]
        name = self._names[number]
        options = {key: value for key, value in self._options.items() if key != "network" or is_url(name)}
        recipe = Recipe(name, "network" if is_url(name) else "sec2", options)
        return File._of(Opened(self._open.file(number), recipe))

    def append(
        self,
        files: Files,
        *,
        on_mismatch: Literal["error", "skip"] = "error",
        progress: ProgressLike = None,
    ) -> int:
        """Adds files that the collection does not have yet, after its own, which are not read again. If it has
        statistics, the new files are read for theirs, too.

        Args:
            files, on_mismatch, progress: As for :func:`open_collection`.

        Returns:
            The number of files that were new.
        """
        skip = _skips(on_mismatch)
        names = _names(files, self._options)
        with Progress(progress, len(names), "files") as shown:
            report = _reporter(shown) if is_wanted(progress) else None
            added = self._core.append(names, skip=skip, progress=report)
            try:
                self._core.gather(self._core.paths_with_statistics(), progress=None)
            finally:
                self._load()
                self.filename = None
        return added

    def gather(self, datasets: Sequence[str], *, progress: ProgressLike = None) -> None:
        """Reads datasets of all files once, and keeps their statistics: number of elements and of NaNs, minimum and
        maximum in each file (:attr:`CollectionDataset.statistics`). Queries and filtered scans of tables then skip the
        files that these rule out: for a local file, they check that it is the version that was collected; for one in an
        object store, they make no request, so that a later version goes unnoticed. Files that have statistics are not
        read again. Save the collection to keep the statistics.

        Args:
            datasets: Paths of joined datasets of integers, or of floating-point numbers of 32 or 64 bits.
            progress: Shows the number of files: True, a function of the finished part and the total, or a tqdm object
                (:mod:`hyperchunk.progress`).

        Raises:
            NotFoundError: There is no such dataset.
            UnsupportedError: A dataset is not joined, has elements of other types, or its values are not in the files
                themselves: it is virtual, external or live.
            ChangedError: A file is not the version that was collected.

        Example:
            >>> for number in range(3):
            ...     with hyperchunk.create(f"part{number}.h5") as file:
            ...         file["x"] = [number, 10 * number]
            >>> parts = hyperchunk.open_collection("part?.h5", concat=0)
            >>> parts.gather(["x"])
            >>> parts["x"].statistics[2]
            FileStatistics(count=2, nan=0, min=2, max=20)
            >>> parts.query("x", "value > 12")
            <1 of 3 files may hold 'value > 12'>
        """
        paths = _paths(datasets)
        with Progress(progress, len(self._names), "files") as shown:
            self._core.gather(paths, progress=_reporter(shown) if is_wanted(progress) else None)
        self.__dict__.pop("_digest", None)
        self.filename = None

    def save(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Writes the collection to a file, ``NAME.hcx``. The files stay where they are.

        Args:
            path: The new file.
            overwrite: True to replace an existing one.
        """
        self._core.save(_collection_name(path), overwrite)
        self.filename = _absolute(path)

    def table(
        self,
        path: str = "/",
        columns: Sequence[str] | None = None,
        rows: Rows | None = None,
        *,
        cells: Cells | None = None,
        strings: Strings | None = None,
        half: Half | None = None,
        enums: Enums | None = None,
        compounds: Compounds | None = None,
        batch_rows: int | None = None,
    ) -> Table:
        """Returns a table over the data of a group or a dataset of all files, one file after another, for pyarrow,
        polars, pandas and DuckDB. Nothing is read before values are requested; then the files are read batch by batch.

        Columns are the group's datasets that are joined along their first axis, which must be of equal length in each
        file; or the members of a compound dataset; or any other dataset. Values are the stored ones.

        Args:
            path: Path of a group or a dataset.
            columns: Names of columns, or paths of datasets relative to the group; by default all.
            rows: A slice, a range, or the first row and the end (exclusive); by default all.
            cells, strings, half, enums, compounds: As for :meth:`Group.table`.
            batch_rows: Maximum number of rows in a batch. A batch has rows of one file.

        Raises:
            KeyError: There is no object or column of that name.
            InvalidError: Columns have different lengths, are not joined along their first axis, or have units that
                differ between the files.

        Example:
            >>> for number in range(2):
            ...     with hyperchunk.create(f"part{number}.h5") as file:
            ...         file["hits/x"], file["hits/n"] = [number + 0.5, number + 1.5], [number, 7]
            >>> hits = hyperchunk.open_collection(["part0.h5", "part1.h5"], concat=0).table("hits")
            >>> hits, hits["x"][1:3].to_numpy()["x"].tolist()
            (<hyperchunk.Table: 4 rows of (n: Int64, x: Float64)>, [1.5, 1.5])
        """
        from hyperchunk.arrow.joined import joined_table

        return joined_table(
            self,
            path,
            columns,
            rows,
            batch_rows,
            cells=cells,
            strings=strings,
            half=half,
            enums=enums,
            compounds=compounds,
        )

    def query(self, path: str, predicate: str, box: BoxLike = None) -> CollectionQuery:
        """Finds the values of a dataset of all files that satisfy a condition.

        Args:
            path: Path of the dataset.
            predicate: The condition: ``"value > 12"``, ``"0 <= value < 5 or isnan(value)"``. Values are the stored
                ones.
            box: Part of the joined dataset: a slice without a step for each dimension; by default all.

        Returns:
            The query: iteration reads the matches of each file, :meth:`CollectionQuery.read` all of them. Statistics
            of a file (:func:`analyze`) are used if it has some. Iteration raises :class:`ChangedError` for a local file
            that was changed after it was collected, even if the collection's statistics rule it out (:meth:`gather`).

        Raises:
            KeyError: There is no such dataset.
            UnsupportedError: Its elements are not plain numbers.
            ValueError: The condition cannot be parsed.

        Example:
            >>> for number in range(2):
            ...     with hyperchunk.create(f"part{number}.h5") as file:
            ...         file["h"] = [4.0, 2500.0 * number]
            >>> parts = hyperchunk.open_collection(["part0.h5", "part1.h5"], concat=0)
            >>> indices, values = parts.query("h", "value > 1000").read()
            >>> indices.tolist(), values.tolist()
            ([[3]], [2500.0])
        """
        return CollectionQuery(self[path], predicate, box)

    def to_virtual(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Writes an HDF5 file with a virtual dataset for each dataset, which h5py and every other HDF5 program reads
        as one. Coordinates are copied. Files below the new file's folder are named relative to it.

        Args:
            path: The new file.
            overwrite: True to replace an existing one.

        Raises:
            UnsupportedError: A file of the collection is not local.
            InvalidError: The units of a coordinate differ between files.
        """
        from hyperchunk.collection_virtual import write_virtual

        write_virtual(self, path, overwrite)

    def to_kerchunk(
        self,
        path: PathLike,
        *,
        overwrite: bool = False,
        inline: int = 64 << 20,
        records: int = 100_000,
        strings: Literal["text", "bytes"] = "text",
    ) -> None:
        """Writes references to all chunks, for fsspec's reference file system. Data that Zarr's codecs cannot decode
        are decoded now, and stored in the references.

        Args:
            path: The new file, ``NAME.json``; or the new folder, ``NAME.parquet`` or ``NAME.parq``.
            overwrite: True to replace an existing one.
            inline: Maximum size in bytes of the data that are stored in the references, in base 64.
            records: Number of references in each file of Parquet.
            strings: ``"text"`` for variable-length strings as text, which must be UTF-8; ``"bytes"`` for their bytes.

        Raises:
            InvalidError: A string is not UTF-8, and `strings` is ``"text"``.

        Warns:
            LeftOutWarning: A dataset was left out: Zarr has no such elements, or `inline` is too small for it.
        """
        from hyperchunk.zarr.kerchunk import write_kerchunk

        write_kerchunk(self, path, overwrite, inline, records, strings)

    def to_virtualizarr(self, group: str = "") -> VirtualDataset:
        """Returns a group as a virtual dataset of VirtualiZarr. Variables whose chunks Zarr can decode are references
        to the chunks; others are read when their values are used.

        Args:
            group: Path of the group.

        Raises:
            KeyError: There is no such group.
            ModuleNotFoundError: virtualizarr is not installed.
        """
        from hyperchunk.zarr.manifests import virtual_dataset

        return virtual_dataset(self, group)

    def to_icechunk(
        self,
        repository: Repository,
        *,
        branch: str = "main",
        message: str | None = None,
        strings: Literal["text", "bytes"] = "text",
    ) -> str:
        """Commits the collection to a repository of Icechunk, in one atomic commit: references to the chunks that Zarr
        decodes, and values of all others. Files that were appended since the last commit are added to it. If a file was
        changed since then, all are written again, as are arrays of the collection that were changed in the branch;
        other arrays and attributes stay.

        Args:
            repository: An ``icechunk.Repository``, which is configured for references to the folders or buckets of the
                files (``virtual_chunk_containers``).
            branch: A branch that is empty, or has an earlier state of this collection.
            message: Message of the commit.
            strings: As for :meth:`to_kerchunk`.

        Returns:
            ID of the new snapshot; the branch's current one if there was nothing new.

        Raises:
            InvalidError: The branch has other data; or a string is not UTF-8, and `strings` is ``"text"``.
            ChangedError: A file is not the version that was collected.
            ModuleNotFoundError: icechunk is not installed.

        Warns:
            LeftOutWarning: A dataset was left out: Zarr has no such elements.
        """
        from hyperchunk.zarr.commits import commit

        return commit(self, repository, branch, message, strings)

    def __getitem__(self, path: str) -> CollectionDataset:
        name = "/" + path.strip("/")
        if name not in self._datasets:
            known = list(self._datasets) if few(len(self._datasets)) else []
            others = suggestion(name, len(self._datasets), known, "the collection")
            raise ObjectNotFoundError(f"cannot open {name}: the collection has no dataset of that name{others}")
        return self._datasets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._datasets)

    def __len__(self) -> int:
        return len(self._datasets)

    def __repr__(self) -> str:
        count = len(self._names)
        return f"<Collection of {count} file{'s' if count != 1 else ''}, joined along {self.concat!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        if self.filename is not None:
            return _reopen, (self.filename, self._digest, self._options)
        return _restore, (self._core.encoded(), self._options, self.filename)

    @cached_property
    def _digest(self) -> str:
        return self._core.digest()


# Collections that were unpickled, so that each is opened once.
_shared: WeakValueDictionary[tuple[str, str, str], Collection] = WeakValueDictionary()


def _reopen(name: str, digest: str, options: dict[str, object]) -> Collection:
    key = (name, digest, repr(options))
    found = _shared.get(key)
    if found is None:
        found = Collection(_core.Collection.open(name, **options), options, name)
        if found._digest != digest:
            raise ChangedError(f"cannot use the collection {name}: expected the one that was pickled, got another one")
        _shared[key] = found
    return found


def _restore(data: bytes, options: dict[str, object], name: str | None) -> Collection:
    return Collection(_core.Collection.decode(data, **options), options, name)


def _ends(lengths: bytes, path: str) -> Array:
    """Returns the row after the last one of each file: the cumulative sums of `lengths`, 64-bit integers."""
    ends = np.cumsum(np.frombuffer(lengths, np.uint64))
    if ends.size and int(ends[-1]) > np.iinfo(np.int64).max:
        raise InvalidError(f"cannot join {path}: expected less than 2^63 rows, got {ends[-1]}")
    return ends.astype(np.int64)
