"""Property lists."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, Self, TypeAlias, TypedDict

import numpy as np

from hyperchunk.exceptions import UnsupportedError
from hyperchunk.h5py import h5ac, h5d, h5f, h5fd, h5z
from hyperchunk.h5py._objects import ObjectID, missing

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Buffer

    from hyperchunk.h5py.h5s import SpaceID
    from hyperchunk.typing import AnyModeOptions, Array

CRT_ORDER_TRACKED, CRT_ORDER_INDEXED = 1, 2
DEFAULT = None

Values = tuple[int, ...]
#: Name of a file.
FileNameLike: TypeAlias = str | bytes | os.PathLike[str]


class Properties(TypedDict, total=False):
    """Properties that were set, of any class, and settings of an open file."""

    alignment: tuple[int, int]
    alloc_time: int
    attribute_order: int
    cache: tuple[int, int, int, float]
    chunk: Values
    chunk_cache: tuple[int, int, float]
    close: int
    core: tuple[int, bool]
    driver: int
    efile_prefix: bytes
    encoding: int
    external: list[tuple[bytes, int, int]]
    fapl: PropFAID
    fileobj: object
    fill: Array
    fill_defined: int
    fill_time: int
    filters: list[tuple[int, int, Values, bytes]]
    flags: int
    image: bytes
    intermediate: bool
    layout: int
    libver: tuple[int, int]
    libver_names: tuple[str, str]
    link_order: int
    locking: tuple[bool, bool]
    locking_option: bool | str
    mappings: list[tuple[SpaceID, str, str, SpaceID]]
    mdc: h5ac.CacheConfig
    meta_block: int
    nlinks: int
    page: int
    pages: tuple[int, int, int]
    phases: tuple[int, int]
    prefix: bytes
    sieve: int
    sizes: tuple[int, int]
    strategy: tuple[int, bool, int]
    track_times: bool
    userblock: int
    version: tuple[int, int, int, int]
    virtual_gap: int
    virtual_prefix: bytes
    virtual_view: int


class PropID(ObjectID):
    """A property list, or a class of them."""

    def equal(self, plist: object) -> bool:
        """Returns whether another one is the same."""
        return self == plist


class PropClassID(PropID):
    """A class of property lists."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PropClassID) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)


class PropInstanceID(PropID):
    """A property list."""

    _class = "none"

    def __init__(self, values: Properties | None = None) -> None:
        super().__init__()
        self._values: Properties = values.copy() if values else {}

    def copy(self) -> Self:
        """Returns a copy."""
        return type(self)(self._values)

    def get_class(self) -> PropClassID:
        """Returns the class."""
        return PropClassID(self._class)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PropInstanceID):
            return NotImplemented
        return self is other or (self._class == other._class and repr(self._values) == repr(other._values))

    def __hash__(self) -> int:
        return id(self)


class PropCreateID(PropInstanceID):
    """Properties for creation."""


class PropOCID(PropCreateID):
    """Properties for creating an object."""

    _class = "object creation"

    def set_attr_creation_order(self, flags: int) -> None:
        """Changes the order of creation of attributes: ``CRT_ORDER_…`` bits."""
        self._values["attribute_order"] = int(flags)

    def get_attr_creation_order(self) -> int:
        """Returns the order of creation of attributes."""
        return int(self._values.get("attribute_order", 0))

    def set_attr_phase_change(self, max_compact: int = 8, min_dense: int = 6) -> None:
        """Changes the numbers of attributes at which their storage changes, which have no effect."""
        if not 0 <= max_compact < 1 << 16 or not 0 <= min_dense < 1 << 16:
            raise ValueError("Unable to set attribute phase change (expected numbers below 65536)")
        self._values["phases"] = (int(max_compact), int(min_dense))

    def get_attr_phase_change(self) -> tuple[int, int]:
        """Returns the numbers of attributes at which their storage changes."""
        return self._values.get("phases", (8, 6))

    def set_obj_track_times(self, track_times: bool) -> None:
        """Chooses whether times are stored."""
        self._values["track_times"] = bool(track_times)

    def get_obj_track_times(self) -> bool:
        """Returns whether times are stored."""
        return bool(self._values.get("track_times", True))


class PropTCID(PropOCID):
    """Properties for creating a committed datatype."""

    _class = "datatype creation"


class PropGCID(PropOCID):
    """Properties for creating a group."""

    _class = "group creation"

    def set_link_creation_order(self, flags: int) -> None:
        """Changes the order of creation of links: ``CRT_ORDER_…`` bits."""
        self._values["link_order"] = int(flags)

    def get_link_creation_order(self) -> int:
        """Returns the order of creation of links."""
        return int(self._values.get("link_order", 0))


class PropFCID(PropGCID):
    """Properties for creating a file."""

    _class = "file creation"

    def get_version(self) -> tuple[int, int, int, int]:
        """Returns the versions of superblock, free space, symbol table and shared headers."""
        return self._values.get("version", (0, 0, 0, 0))

    def set_userblock(self, size: int) -> None:
        """Changes the size of the user block in bytes."""
        if size and (size < 512 or size & (size - 1)):
            raise ValueError("Unable to set user block (userblock size is non-zero, and below 512 or no power of 2)")
        self._values["userblock"] = int(size)

    def get_userblock(self) -> int:
        """Returns the size of the user block in bytes."""
        return int(self._values.get("userblock", 0))

    def set_sizes(self, addr: int, size: int) -> None:
        """Changes the widths of addresses and lengths in bytes; only 8 is supported for writing."""
        self._values["sizes"] = (int(addr), int(size))

    def get_sizes(self) -> tuple[int, int]:
        """Returns the widths of addresses and lengths in bytes."""
        return self._values.get("sizes", (8, 8))

    def set_file_space_strategy(self, strategy: int, persist: bool, threshold: int) -> None:
        """Changes the management of free space."""
        self._values["strategy"] = (int(strategy), bool(persist), int(threshold))

    def get_file_space_strategy(self) -> tuple[int, int, int]:
        """Returns the management of free space: strategy, 1 if free space is persistent, and the smallest
        tracked size."""
        strategy, persist, threshold = self._values.get("strategy", (0, False, 1))
        return strategy, int(persist), threshold

    def set_file_space_page_size(self, fsp_size: int) -> None:
        """Changes the size of pages in bytes."""
        self._values["page"] = int(fsp_size)

    def get_file_space_page_size(self) -> int:
        """Returns the size of pages in bytes."""
        return int(self._values.get("page", 4096))


class PropDCID(PropOCID):
    """Properties for creating a dataset."""

    _class = "dataset creation"

    def set_layout(self, layout_code: int) -> None:
        """Changes the layout: ``h5d.COMPACT``, ``CONTIGUOUS``, ``CHUNKED`` or ``VIRTUAL``."""
        self._values["layout"] = int(layout_code)

    def get_layout(self) -> int:
        """Returns the layout."""
        return int(self._values.get("layout", h5d.CONTIGUOUS))

    def set_chunk(self, chunksize: Sequence[int]) -> None:
        """Changes the extent of chunks."""
        if not all(int(length) > 0 for length in chunksize):
            raise ValueError("Chunk sizes must be positive")
        self._values["chunk"] = tuple(int(length) for length in chunksize)
        self._values["layout"] = h5d.CHUNKED

    def get_chunk(self) -> Values:
        """Returns the extent of chunks."""
        if "chunk" not in self._values:
            raise ValueError("Unable to get chunk dimensions (not a chunked storage layout)")
        return self._values["chunk"]

    # --- Fill value ---

    def set_fill_value(self, value: npt.ArrayLike) -> None:
        """Changes the fill value: an array of one element."""
        self._values["fill"] = np.array(value)

    def get_fill_value(self, value: Array) -> None:
        """Puts the fill value into an array of one element."""
        fill = self._values.get("fill")
        value[...] = 0 if fill is None else fill

    def fill_value_defined(self) -> int:
        """Returns whether the fill value is ``h5d.FILL_VALUE_DEFAULT``, ``…_USER_DEFINED`` or ``…_UNDEFINED``."""
        if "fill" in self._values:
            return h5d.FILL_VALUE_USER_DEFINED
        return int(self._values.get("fill_defined", h5d.FILL_VALUE_DEFAULT))

    def set_fill_time(self, fill_time: int) -> None:
        """Changes the time at which fill values are written."""
        self._values["fill_time"] = int(fill_time)

    def get_fill_time(self) -> int:
        """Returns the time at which fill values are written."""
        return int(self._values.get("fill_time", h5d.FILL_TIME_IFSET))

    def set_alloc_time(self, alloc_time: int) -> None:
        """Changes the time at which space is allocated, which has no effect."""
        self._values["alloc_time"] = int(alloc_time)

    def get_alloc_time(self) -> int:
        """Returns the time at which space is allocated."""
        by_layout = {h5d.COMPACT: h5d.ALLOC_TIME_EARLY, h5d.CONTIGUOUS: h5d.ALLOC_TIME_LATE}
        found = self._values.get("alloc_time", h5d.ALLOC_TIME_DEFAULT)
        return int(found or by_layout.get(self.get_layout(), h5d.ALLOC_TIME_INCR))

    # --- Filters ---

    @property
    def _pipeline(self) -> list[tuple[int, int, Values, bytes]]:
        return self._values.setdefault("filters", [])

    def copy(self) -> Self:
        """Returns a copy."""
        made = type(self)(self._values)
        made._values["filters"] = list(self._pipeline)
        made._values["mappings"] = list(self._mappings)
        made._values["external"] = list(self._external)
        return made

    def set_filter(self, filter_code: int, flags: int = 0, values: Values | None = None) -> None:
        """Adds a filter."""
        if not h5z.filter_avail(filter_code) and flags & 1 == 0:
            raise ValueError(f"Unable to set filter (failed to load dynamically loaded filter {filter_code})")
        self._pipeline.append((int(filter_code), int(flags), tuple(values or ()), _NAMES.get(filter_code, b"")))

    def all_filters_avail(self) -> bool:
        """Returns whether all filters are available."""
        return all(h5z.filter_avail(number) for number, *_ in self._pipeline)

    def get_nfilters(self) -> int:
        """Returns the number of filters."""
        return len(self._pipeline)

    def get_filter(self, filter_idx: int) -> tuple[int, int, Values, bytes]:
        """Returns number, flags, parameters and name of a filter by its position."""
        if not 0 <= filter_idx < len(self._pipeline):
            raise ValueError("Filter index must be non-negative and less than the number of filters")
        return self._pipeline[filter_idx]

    def get_filter_by_id(self, filter_code: int) -> tuple[int, Values, bytes] | None:
        """Returns flags, parameters and name of a filter by its number; None if it is not used."""
        for number, flags, values, name in self._pipeline:
            if number == filter_code:
                return flags, values, name
        return None

    def remove_filter(self, filter_class: int) -> None:
        """Removes a filter by its number."""
        self._values["filters"] = [known for known in self._pipeline if known[0] != filter_class]

    def set_deflate(self, level: int = 5) -> None:
        """Adds gzip."""
        self.set_filter(h5z.FILTER_DEFLATE, h5z.FLAG_OPTIONAL, (int(level),))

    def set_fletcher32(self) -> None:
        """Adds checksums."""
        self.set_filter(h5z.FILTER_FLETCHER32)

    def set_shuffle(self) -> None:
        """Adds shuffling of bytes."""
        self.set_filter(h5z.FILTER_SHUFFLE, h5z.FLAG_OPTIONAL)

    def set_szip(self, options: int, pixels_per_block: int) -> None:
        """Adds szip."""
        self.set_filter(h5z.FILTER_SZIP, h5z.FLAG_OPTIONAL, (int(options), int(pixels_per_block)))

    def set_scaleoffset(self, scale_type: int, scale_factor: int) -> None:
        """Adds scale-offset."""
        self.set_filter(h5z.FILTER_SCALEOFFSET, h5z.FLAG_OPTIONAL, (int(scale_type), int(scale_factor)))

    # --- External files and virtual datasets ---

    @property
    def _external(self) -> list[tuple[bytes, int, int]]:
        return self._values.setdefault("external", [])

    def set_external(self, name: FileNameLike, offset: int, size: int) -> None:
        """Adds an external file."""
        self._external.append((os.fsencode(name), int(offset), int(size)))

    def get_external_count(self) -> int:
        """Returns the number of external files."""
        return len(self._external)

    def get_external(self, idx: int = 0) -> tuple[bytes, int, int]:
        """Returns name, offset and size of an external file."""
        return self._external[idx]

    @property
    def _mappings(self) -> list[tuple[SpaceID, str, str, SpaceID]]:
        return self._values.setdefault("mappings", [])

    def set_virtual(
        self, vspace: SpaceID, src_file_name: FileNameLike, src_dset_name: str | bytes, src_space: SpaceID
    ) -> None:
        """Adds a source of a virtual dataset."""
        self._mappings.append((vspace.copy(), os.fsdecode(src_file_name), os.fsdecode(src_dset_name), src_space.copy()))
        self._values["layout"] = h5d.VIRTUAL

    def get_virtual_count(self) -> int:
        """Returns the number of sources of a virtual dataset."""
        return len(self._mappings)

    def get_virtual_filename(self, index: int = 0) -> str:
        """Returns the name of the file of a source."""
        return self._mappings[index][1]

    def get_virtual_dsetname(self, index: int = 0) -> str:
        """Returns the name of the dataset of a source."""
        return self._mappings[index][2]

    def get_virtual_vspace(self, index: int = 0) -> SpaceID:
        """Returns the selection in the virtual dataset."""
        return self._mappings[index][0]

    def get_virtual_srcspace(self, index: int = 0) -> SpaceID:
        """Returns the selection in a source."""
        return self._mappings[index][3]


_NAMES = {
    h5z.FILTER_DEFLATE: b"deflate",
    h5z.FILTER_SHUFFLE: b"shuffle",
    h5z.FILTER_FLETCHER32: b"fletcher32",
    h5z.FILTER_SZIP: b"szip",
    h5z.FILTER_NBIT: b"nbit",
    h5z.FILTER_SCALEOFFSET: b"scaleoffset",
    h5z.FILTER_LZF: b"lzf",
}


class PropFAID(PropInstanceID):
    """Access properties of a file."""

    _class = "file access"

    def set_fclose_degree(self, close_degree: int) -> None:
        """Changes the behaviour of closing, which has no effect: files are closed with all their objects."""
        self._values["close"] = int(close_degree)

    def get_fclose_degree(self) -> int:
        """Returns the behaviour of closing."""
        return int(self._values.get("close", h5f.CLOSE_DEFAULT))

    def set_fapl_core(self, block_size: int = 65536, backing_store: bool = True) -> None:
        """Chooses the driver that keeps a file in memory."""
        self._values |= {"driver": h5fd.CORE, "core": (int(block_size), bool(backing_store))}

    def get_fapl_core(self) -> tuple[int, bool]:
        """Returns block size and backing store of the driver that keeps a file in memory."""
        return self._values.get("core", (65536, True))

    def set_fapl_sec2(self) -> None:
        """Chooses the default driver."""
        self._values["driver"] = h5fd.SEC2

    def set_fapl_stdio(self) -> None:
        """Chooses the driver of C's standard library, which reads like the default one."""
        self._values["driver"] = h5fd.STDIO

    def set_fapl_family(self, *_: object, **__: object) -> NoReturn:
        """Raises an error: files in several pieces are not supported."""
        raise UnsupportedError("h5p.PropFAID.set_fapl_family: files in several pieces are not supported")

    def set_fapl_split(self, *_: object, **__: object) -> NoReturn:
        """Raises an error: files in several pieces are not supported."""
        raise UnsupportedError("h5p.PropFAID.set_fapl_split: files in several pieces are not supported")

    def set_fileobj_driver(self, driver_id: int, fileobj: object) -> None:
        """Chooses a file-like object."""
        self._values |= {"driver": int(driver_id), "fileobj": fileobj}

    def get_driver(self) -> int:
        """Returns the driver."""
        return int(self._values.get("driver", h5fd.SEC2))

    def set_cache(self, mdc: int, rdcc: int, rdcc_nbytes: int, rdcc_w0: float) -> None:
        """Changes the settings of libhdf5's caches, which have no effect."""
        self._values["cache"] = (0, int(rdcc), int(rdcc_nbytes), float(rdcc_w0))

    def get_cache(self) -> tuple[int, int, int, float]:
        """Returns the settings of libhdf5's caches."""
        return self._values.get("cache", (0, 8191, 8388608, 0.75))

    def set_sieve_buf_size(self, size: int) -> None:
        """Changes the size of libhdf5's sieve buffer, which has no effect."""
        self._values["sieve"] = int(size)

    def get_sieve_buf_size(self) -> int:
        """Returns the size of libhdf5's sieve buffer."""
        return int(self._values.get("sieve", 65536))

    def set_libver_bounds(self, low: int, high: int) -> None:
        """Changes the oldest and the newest release whose format is written."""
        self._values["libver"] = (int(low), int(high))

    def get_libver_bounds(self) -> tuple[int, int]:
        """Returns the oldest and the newest release whose format is written."""
        return self._values.get("libver", (h5f.LIBVER_EARLIEST, h5f.LIBVER_LATEST))

    def set_meta_block_size(self, size: int) -> None:
        """Changes the block size of libhdf5's metadata, which has no effect."""
        self._values["meta_block"] = int(size)

    def get_meta_block_size(self) -> int:
        """Returns the block size of libhdf5's metadata."""
        return int(self._values.get("meta_block", 2048))

    def get_mdc_config(self) -> h5ac.CacheConfig:
        """Returns the settings of libhdf5's metadata cache."""
        return self._values.setdefault("mdc", h5ac.CacheConfig())

    def set_mdc_config(self, config: h5ac.CacheConfig) -> None:
        """Changes the settings of libhdf5's metadata cache, which have no effect."""
        self._values["mdc"] = config

    def get_alignment(self) -> tuple[int, int]:
        """Returns threshold and interval of the alignment."""
        return self._values.get("alignment", (1, 1))

    def set_alignment(self, threshold: int, interval: int) -> None:
        """Changes threshold and interval of the alignment."""
        self._values["alignment"] = (int(threshold), int(interval))

    def set_file_image(self, image: Buffer) -> None:
        """Changes the bytes of a file in memory."""
        self._values["image"] = bytes(image)

    def set_page_buffer_size(self, buf_size: int, min_meta_per: int = 0, min_raw_per: int = 0) -> None:
        """Changes the size of libhdf5's page buffer, which has no effect."""
        self._values["pages"] = (int(buf_size), int(min_meta_per), int(min_raw_per))

    def get_page_buffer_size(self) -> tuple[int, int, int]:
        """Returns the size of libhdf5's page buffer."""
        return self._values.get("pages", (0, 0, 0))

    def set_file_locking(self, use_file_locking: bool, ignore_when_disabled: bool) -> None:
        """Chooses whether files are locked, and whether to continue if the file system does not support it."""
        self._values["locking"] = (bool(use_file_locking), bool(ignore_when_disabled))

    def get_file_locking(self) -> tuple[bool, bool]:
        """Returns whether files are locked, and whether to continue if the file system does not support it."""
        return self._values.get("locking", (True, True))

    def _options(self) -> AnyModeOptions:
        """Returns options for opening a file with Hyperchunk."""
        options: AnyModeOptions = {}
        if self._values.get("driver") == h5fd.CORE:
            options |= {"driver": "core", "backing_store": self.get_fapl_core()[1]}
        if "locking" in self._values:
            locks, best_effort = self.get_file_locking()
            options["locking"] = ("best-effort" if best_effort else True) if locks else False
        if "libver" in self._values:
            low, high = self.get_libver_bounds()
            options["libver"] = (_RELEASES[low], _RELEASES[high])
        if "alignment" in self._values:
            options["alignment_threshold"], options["alignment_interval"] = self.get_alignment()
        return options


_RELEASES = ("earliest", "v108", "v110", "v112", "v114", "v200")


class PropDAID(PropInstanceID):
    """Access properties of a dataset; settings of libhdf5's caches have no effect."""

    _class = "dataset access"

    def set_chunk_cache(self, rdcc_nslots: int, rdcc_nbytes: int, rdcc_w0: float) -> None:
        """Changes the settings of libhdf5's chunk cache."""
        self._values["chunk_cache"] = (int(rdcc_nslots), int(rdcc_nbytes), float(rdcc_w0))

    def get_chunk_cache(self) -> tuple[int, int, float]:
        """Returns the settings of libhdf5's chunk cache."""
        return self._values.get("chunk_cache", (8191, 8388608, 0.75))

    def set_efile_prefix(self, prefix: FileNameLike) -> None:
        """Changes the folder of external files."""
        self._values["efile_prefix"] = os.fsencode(prefix)

    def get_efile_prefix(self) -> bytes:
        """Returns the folder of external files."""
        return bytes(self._values.get("efile_prefix", b""))

    def set_virtual_prefix(self, prefix: FileNameLike) -> None:
        """Changes the folder of sources of virtual datasets."""
        self._values["virtual_prefix"] = os.fsencode(prefix)

    def get_virtual_prefix(self) -> bytes:
        """Returns the folder of sources of virtual datasets."""
        return bytes(self._values.get("virtual_prefix", b""))

    def set_virtual_view(self, view: int) -> None:
        """Chooses where a virtual dataset with unlimited sources ends."""
        self._values["virtual_view"] = int(view)

    def get_virtual_view(self) -> int:
        """Returns where a virtual dataset with unlimited sources ends."""
        return int(self._values.get("virtual_view", h5d.VDS_LAST_AVAILABLE))

    def set_virtual_printf_gap(self, gap_size: int = 0) -> None:
        """Changes the number of missing files after which a virtual dataset ends."""
        self._values["virtual_gap"] = int(gap_size)

    def get_virtual_printf_gap(self) -> int:
        """Returns the number of missing files after which a virtual dataset ends."""
        return int(self._values.get("virtual_gap", 0))


class PropDXID(PropInstanceID):
    """Properties of a transfer."""

    _class = "dataset transfer"


class PropLCID(PropCreateID):
    """Properties for creating a link."""

    _class = "link creation"

    def set_char_encoding(self, encoding: int) -> None:
        """Changes the character set of names."""
        if encoding not in (0, 1):
            raise ValueError("Unable to set character encoding (unknown character set)")
        self._values["encoding"] = int(encoding)

    def get_char_encoding(self) -> int:
        """Returns the character set of names."""
        return int(self._values.get("encoding", 0))

    def set_create_intermediate_group(self, create: bool) -> None:
        """Chooses whether missing groups of a path are created: they are."""
        self._values["intermediate"] = bool(create)

    def get_create_intermediate_group(self) -> bool:
        """Returns whether missing groups of a path are created."""
        return bool(self._values.get("intermediate", False))


class PropLAID(PropInstanceID):
    """Access properties of a link."""

    _class = "link access"

    def set_nlinks(self, nlinks: int) -> None:
        """Changes the maximum number of soft links in a path, which has no effect."""
        self._values["nlinks"] = int(nlinks)

    def get_nlinks(self) -> int:
        """Returns the maximum number of soft links in a path."""
        return int(self._values.get("nlinks", 16))

    def set_elink_prefix(self, prefix: FileNameLike) -> None:
        """Changes the folder of files of external links."""
        self._values["prefix"] = os.fsencode(prefix)

    def get_elink_prefix(self) -> bytes:
        """Returns the folder of files of external links."""
        return bytes(self._values.get("prefix", b""))

    def set_elink_fapl(self, fapl: PropFAID) -> None:
        """Changes the access to files of external links."""
        self._values["fapl"] = fapl

    def get_elink_fapl(self) -> PropFAID:
        """Returns the access to files of external links."""
        return self._values.setdefault("fapl", PropFAID())

    def set_elink_acc_flags(self, flags: int) -> None:
        """Changes the mode in which files of external links are opened."""
        self._values["flags"] = int(flags)

    def get_elink_acc_flags(self) -> int:
        """Returns the mode in which files of external links are opened."""
        return int(self._values.get("flags", 0xFFFF))


class PropCopyID(PropInstanceID):
    """Properties of copying."""

    _class = "object copy"

    def set_copy_object(self, flags: int) -> None:
        """Changes the ``h5o.COPY_…`` flags."""
        self._values["flags"] = int(flags)

    def get_copy_object(self) -> int:
        """Returns the ``h5o.COPY_…`` flags."""
        return int(self._values.get("flags", 0))


NO_CLASS = PropClassID("none")
_KINDS: dict[str, type[PropInstanceID]] = {
    "FILE_CREATE": PropFCID,
    "FILE_ACCESS": PropFAID,
    "DATASET_CREATE": PropDCID,
    "DATASET_ACCESS": PropDAID,
    "DATASET_XFER": PropDXID,
    "LINK_CREATE": PropLCID,
    "LINK_ACCESS": PropLAID,
    "GROUP_CREATE": PropGCID,
    "OBJECT_CREATE": PropOCID,
    "OBJECT_COPY": PropCopyID,
}
_CLASSES = {name: PropClassID(kind._class) for name, kind in _KINDS.items()}
_INSTANCES = {kind._class: kind for kind in _KINDS.values()}


def create(cls: PropClassID) -> PropInstanceID:
    """Creates a property list of a class."""
    if cls._name not in _INSTANCES:
        raise ValueError("Unable to create property list (no class)")
    return _INSTANCES[cls._name]()


_missing = missing(__name__)


def __getattr__(name: str) -> PropClassID:
    return _CLASSES[name] if name in _CLASSES else _missing(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_CLASSES})
