"""Groups and links."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

import numpy as np

from hyperchunk import Dataset as NativeDataset
from hyperchunk import Datatype as NativeDatatype
from hyperchunk import Empty, ExternalLink, HardLink, Reference, SoftLink
from hyperchunk import Group as NativeGroup
from hyperchunk import HLObject as Native
from hyperchunk.dtypes import as_empty
from hyperchunk.exceptions import HyperchunkError, InvalidError, NameExistsError, ObjectNotFoundError, also
from hyperchunk.h5py import h5d, h5g
from hyperchunk.h5py._hl import base
from hyperchunk.h5py._hl.dataset import Dataset
from hyperchunk.h5py._hl.datatype import Datatype
from hyperchunk.h5py._hl.vds import VirtualLayout
from hyperchunk.h5py._objects import R, identifier
from hyperchunk.h5py.h5 import get_config
from hyperchunk.h5py.h5py_warnings import H5pyDeprecationWarning
from hyperchunk.objects import encode
from hyperchunk.typing import DatasetOptions, ShapeLike
from hyperchunk.write.group import LikeOptions

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyperchunk.group import Link
    from hyperchunk.h5py.h5p import PropDCID, Properties
    from hyperchunk.typing import Member
    from hyperchunk.virtual import VirtualLayout as NativeLayout


class Options(DatasetOptions, total=False):
    """Options of a new dataset."""

    #: Property lists of the low-level interface, for creation and for access.
    dcpl: PropDCID | None
    dapl: object


class Group(base.MutableMappingHDF5, base.HLObject):
    """A group: a mapping of names to objects."""

    _id: h5g.GroupID

    if TYPE_CHECKING:

        @property
        def id(self) -> h5g.GroupID: ...
        @property
        def _hc(self) -> NativeGroup: ...

    def __init__(self, bind: object) -> None:
        if not isinstance(bind, h5g.GroupID):
            raise ValueError(f"{bind} is not a GroupID")
        super().__init__(bind)

    # The methods of `Mapping` would compare members.
    __hash__ = base.HLObject.__hash__
    __eq__ = base.HLObject.__eq__

    def _wrap(self, found: Any) -> Any:
        if Native not in type(found).__mro__:
            return found
        return base.wrap(identifier(found, self._id._handle))

    # --- Creation ---

    def create_group(
        self, name: str | bytes | None, track_order: bool | None = None, *, track_times: bool = False
    ) -> Group:
        """Creates a group, and the missing groups of its path."""
        order = get_config().track_order if track_order is None else track_order
        with _named("group"):
            made = self._hc.create_group(name, order, track_times=track_times)
        return Group(identifier(made, self._id._handle))

    def create_dataset(
        self,
        name: str | bytes | None,
        shape: ShapeLike | None = None,
        dtype: base.DtypeLike | None = None,
        data: object = None,
        **kwds: Unpack[Options],
    ) -> Dataset:
        """Creates a dataset. Options are h5py's, and the two of :meth:`hyperchunk.write.group.WritableGroup`."""
        options: dict[str, Any] = dict(kwds)
        plist = options.pop("dcpl", None)
        if plist is not None:
            from hyperchunk.h5py._plists import creation_options

            options = {**creation_options(plist), **options}
        options.pop("dapl", None)
        if shape is not None and as_empty(data) is not None:
            raise TypeError(f"cannot create a dataset: expected no shape for a null dataspace, got {shape!r}")
        if shape is None and data is None:
            if dtype is None:
                raise TypeError("One of data, shape or dtype must be specified")
            if any(options.get(option) for option in ("chunks", "maxshape", "compression", "shuffle", "fletcher32")):
                raise TypeError("Empty datasets don't support chunk/filter options")
            data = Empty(np.dtype("f4") if isinstance(dtype, Datatype) else np.dtype(cast("npt.DTypeLike", dtype)))
        elif dtype is None and data is None:
            warnings.warn(
                "Creating a dataset without passing data or dtype is deprecated. Pass an explicit dtype. Defaulting "
                "to dtype='f4'",
                H5pyDeprecationWarning,
                stacklevel=2,
            )
        if options.get("track_order") is None and get_config().track_order:
            options["track_order"] = True
        with _named("dataset"):
            made = self._hc.create_dataset(name, shape, base.datatype(dtype), _values(data), **options)
        return self._created(made, options)

    def _created(self, made: NativeDataset, options: dict[str, Any]) -> Dataset:
        """Returns a dataset, and keeps the options that its description does not contain."""
        found = identifier(made, self._id._handle)
        kept: Properties = {
            "fill_time": _FILL_TIMES.get(options.get("fill_time"), h5d.FILL_TIME_IFSET),
            "track_times": bool(options.get("track_times")),
        }
        if options.get("fill_time") or options.get("track_times"):
            self._id._handle.session.created[made._object.address] = kept
        return _with_cache(Dataset(found), options)

    def create_virtual_dataset(
        self, name: str | bytes | None, layout: NativeLayout, fillvalue: object = None
    ) -> Dataset:
        """Creates a virtual dataset."""
        made = self._hc.create_virtual_dataset(name, layout, fillvalue)
        return Dataset(identifier(made, self._id._handle))

    @contextmanager
    def build_virtual_dataset(
        self,
        name: str | bytes | None,
        shape: ShapeLike,
        dtype: base.DtypeLike,
        maxshape: int | tuple[int | None, ...] | None = None,
        fillvalue: object = None,
    ) -> Iterator[VirtualLayout]:
        """Creates a virtual dataset in a block ``with group.build_virtual_dataset(…) as layout``."""
        layout = VirtualLayout(shape, dtype, maxshape, self.file.filename)
        yield layout
        self.create_virtual_dataset(name, layout, fillvalue)

    def create_dataset_like(
        self, name: str | bytes | None, other: Dataset | NativeDataset, **kwupdate: Unpack[LikeOptions]
    ) -> Dataset:
        """Creates a dataset with the type, shape, chunks and filters of another one."""
        if "dtype" in kwupdate:
            kwupdate["dtype"] = base.datatype(kwupdate["dtype"])
        made = self._hc.create_dataset_like(name, base.native(other), **kwupdate)
        return Dataset(identifier(made, self._id._handle))

    def require_dataset(
        self,
        name: str | bytes,
        shape: int | tuple[int, ...],
        dtype: base.DtypeLike,
        exact: bool = False,
        **kwds: Unpack[Options],
    ) -> Dataset:
        """Returns the dataset of a name, and creates it if it does not exist."""
        if name in self:
            wanted = cast("npt.DTypeLike", base.datatype(dtype))
            found = self._hc.require_dataset(name, shape, wanted, exact, **_known(dict(kwds)))
            return _with_cache(self._wrap(found), dict(kwds))
        return self.create_dataset(name, shape, dtype, **kwds)

    def require_group(self, name: str | bytes) -> Group:
        """Returns the group of a name, and creates it if it does not exist."""
        if name not in self:
            return self.create_group(name)
        found: Group = self._wrap(self._hc.require_group(name))
        return found

    # --- Access ---

    def __getitem__(self, name: str | bytes | Reference) -> Any:
        try:
            return self._wrap(self._hc[name])
        except HyperchunkError as error:
            found = also(error, RuntimeError) if _is_cycle(error) else error
            if isinstance(found, KeyError) and self:
                # Programs search the message for libhdf5's text.
                found.args = (f"Unable to synchronously open object ({found})",)
            if found is error:
                raise
            raise found from None

    def _refuse_cycle(self, name: str | bytes) -> None:
        """Raises an error if a name without an object is a cycle of soft links."""
        try:
            self._hc._member(name)
        except ObjectNotFoundError as error:
            if _is_cycle(error):
                raise also(error, RuntimeError) from None

    def get(
        self,
        name: str | bytes | Reference,
        default: Any = None,
        getclass: bool = False,
        getlink: bool = False,
        elink_mode: str | None = None,
        elink_locking: bool | str | None = None,
        elink_swmr: bool | None = None,
    ) -> Any:
        """Returns the object of a name, or its class, its link or the class of its link; `default` if it is missing or
        the file is closed.
        """
        if not self._id:
            return default
        if elink_mode not in (None, "r", "r+"):
            raise ValueError(f"Invalid elink_mode {elink_mode!r}: 'r' or 'r+' expected")
        link = self._hc.get(name, getlink=True) if isinstance(name, str | bytes) else None
        if isinstance(link, ExternalLink) and not getlink and (elink_mode, elink_locking, elink_swmr) != (None,) * 3:
            found = self._elsewhere(link, elink_mode, elink_locking, elink_swmr)
            return type(found) if getclass else found
        found = self._hc.get(name, default, getclass=getclass, getlink=getlink)
        if found is default:
            if isinstance(link, SoftLink) and isinstance(name, str | bytes) and not getlink:
                self._refuse_cycle(name)
            return default
        if getclass and not getlink:
            return _CLASSES.get(found, found)
        return self._wrap(found)

    def _elsewhere(
        self, link: ExternalLink, mode: str | None, locking: bool | str | None, swmr: bool | None
    ) -> Group | Dataset | Datatype:
        """Opens the file of an external link in a mode, and returns the object."""
        from hyperchunk.h5py._hl.files import File

        mine = self.file
        beside = Path(mine.filename).parent / link.filename
        path = beside if beside.exists() else link.filename
        if mode is None:
            mode = mine.mode
        if locking is None:
            locking = mine.id._handle.session.settings.get("locking_option")
        other = File(path, mode, locking=locking, swmr=bool(swmr) if mode == "r" else False)
        found = other._hc[link.path or "/"]
        return base.wrap(identifier(found, other.id._handle))

    def __setitem__(self, name: str | bytes, obj: object) -> None:
        if isinstance(obj, Datatype) and not obj.id.committed():
            obj.id.commit(self._id, name.encode() if isinstance(name, str) else name)
            return
        with _named("link", KeyError if isinstance(obj, np.dtype) else None):
            self._set(name, obj)

    def _set(self, name: str | bytes, obj: object) -> None:
        if isinstance(obj, base.HLObject) and not isinstance(obj, Dataset):
            self._hc[name] = base.native(obj)
        elif isinstance(obj, Dataset):
            self._hc[name] = obj._hc
        else:
            plain = obj is None or isinstance(obj, SoftLink | ExternalLink | HardLink | np.dtype)
            if not plain and get_config().track_order:
                self.create_dataset(name, data=obj)
            else:
                self._hc[name] = obj

    def __delitem__(self, name: str | bytes) -> None:
        if isinstance(name, str | bytes) and not any(part not in (b"", b".") for part in encode(name).split(b"/")):
            raise also(InvalidError(f"Couldn't delete link (expected the name of a link, got {name!r})"), KeyError)
        del self._hc[name]

    def __len__(self) -> int:
        return len(self._hc)

    def __iter__(self) -> Iterator[str]:
        return iter(self._hc)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._hc)

    def __contains__(self, name: object) -> bool:
        return bool(self._id) and name in self._hc

    def _pairs(self, backwards: bool) -> Iterator[tuple[str, Any]]:
        # Of a dangling link, there is no object.
        pairs: Iterator[tuple[str, Member | None]] = self._hc._pairs(backwards)
        for name, found in pairs:
            if found is None:
                self._refuse_cycle(name)
            yield name, self._wrap(found)

    # --- Structure ---

    def copy(
        self,
        source: base.HLObject | str | bytes,
        dest: base.HLObject | str | bytes,
        name: str | bytes | None = None,
        shallow: bool = False,
        expand_soft: bool = False,
        expand_external: bool = False,
        expand_refs: Literal[False] = False,
        without_attrs: bool = False,
    ) -> None:
        """Copies an object and everything below it. `expand_refs` is not supported: it raises an error."""
        self._hc.copy(
            cast("Native | str | bytes", base.native(source)), cast("Native | str | bytes", base.native(dest)), name,
            shallow, expand_soft, expand_external, expand_refs,
            without_attrs,
        )  # fmt: skip

    def move(self, source: str | bytes, dest: str | bytes) -> None:
        """Renames a link."""
        if source != dest:
            self._hc.move(source, dest)

    def visit(self, func: Callable[[str], R | None]) -> R | None:
        """Calls a function with the path of each object below the group until it returns a value."""
        return self._hc.visit(func)

    def visititems(self, func: Callable[[str, Any], R | None]) -> R | None:
        """Like :meth:`visit`, with the objects."""
        return self._hc.visititems(lambda name, found: func(name, self._wrap(found)))

    def visit_links(self, func: Callable[[str], R | None]) -> R | None:
        """Calls a function with the path of each link below the group until it returns a value."""
        return self._hc.visit_links(func)

    def visititems_links(self, func: Callable[[str, Link], R | None]) -> R | None:
        """Like :meth:`visit_links`, with the links."""
        return self._hc.visititems_links(func)

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 group>"
        name = self.name
        shown = "(anonymous)" if name is None else f'"{name}"'
        return f"<HDF5 group {shown} ({len(self)} members)>"


@contextmanager
def _named(what: str, kind: type[Exception] | None = None) -> Iterator[None]:
    """Changes the message about an existing name to libhdf5's, which programs search for."""
    try:
        yield
    except NameExistsError as error:
        made = error if kind is None else also(error, kind)
        made.args = (f"Unable to synchronously create {what} (name already exists: {error})",)
        raise made from None


def _is_cycle(error: HyperchunkError) -> bool:
    """Returns whether a path of a file that is being written leads through a cycle of soft links."""
    return isinstance(error, ObjectNotFoundError) and ": too many soft links (file " in str(error)


_CLASSES: dict[object, type[base.HLObject]] = {NativeGroup: Group, NativeDataset: Dataset, NativeDatatype: Datatype}


_FILL_TIMES: dict[object, int] = {
    "alloc": h5d.FILL_TIME_ALLOC,
    "never": h5d.FILL_TIME_NEVER,
    "ifset": h5d.FILL_TIME_IFSET,
}


def _with_cache(dataset: Dataset, options: dict[str, Any]) -> Dataset:
    given = [options.get(option) for option in ("rdcc_nslots", "rdcc_nbytes", "rdcc_w0")]
    if any(value is not None for value in given):
        usual = dataset.id.get_access_plist().get_chunk_cache()
        slots, size, w0 = given
        dataset.id._cache = (
            usual[0] if slots is None else slots,
            usual[1] if size is None else size,
            usual[2] if w0 is None else w0,
        )
    return dataset


def _values(data: object) -> object:
    return np.asarray(data) if isinstance(data, Dataset) else base.native(data)


def _known(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ("dcpl", "dapl")}


__all__ = ["ExternalLink", "Group", "HardLink", "Reference", "SoftLink"]
