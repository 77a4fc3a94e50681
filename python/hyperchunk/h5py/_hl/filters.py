"""Filters as mappings, as plugin packages subclass them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hyperchunk.h5py import h5z
from hyperchunk.write.chunking import guess

if TYPE_CHECKING:
    from hyperchunk.h5py.h5p import PropDCID
    from hyperchunk.likeness import FilterSetting

DEFAULT_GZIP = 4
DEFAULT_SZIP = ("nn", 8)
#: Names of filters that can be read, and written.
decode = encode = ("gzip", "shuffle", "fletcher32", "lzf", "szip", "scaleoffset")
_NAMES = {
    h5z.FILTER_DEFLATE: "gzip",
    h5z.FILTER_SZIP: "szip",
    h5z.FILTER_SHUFFLE: "shuffle",
    h5z.FILTER_FLETCHER32: "fletcher32",
    h5z.FILTER_LZF: "lzf",
    h5z.FILTER_SCALEOFFSET: "scaleoffset",
}


class FilterRefBase(Mapping[str, object]):
    """A filter with its options: a mapping to the keywords of ``create_dataset``."""

    filter_id: int | None = None
    filter_options: tuple[int, ...] = ()

    @property
    def _kwargs(self) -> dict[str, object]:
        return {"compression": self.filter_id, "compression_opts": self.filter_options}

    def __hash__(self) -> int:
        return hash((self.filter_id, self.filter_options))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FilterRefBase):
            return False
        return self.filter_id == other.filter_id and self.filter_options == other.filter_options

    def __len__(self) -> int:
        return len(self._kwargs)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kwargs)

    def __getitem__(self, item: str) -> object:
        return self._kwargs[item]


class Gzip(FilterRefBase):
    """Gzip."""

    filter_id = h5z.FILTER_DEFLATE

    def __init__(self, level: int = DEFAULT_GZIP) -> None:
        self.filter_options = (level,)


def get_filters(plist: PropDCID) -> dict[str, FilterSetting]:
    """Returns the filters of creation properties by name, with their settings."""
    from hyperchunk.likeness import filter_setting

    found = {}
    for index in range(plist.get_nfilters()):
        number, _, values, _ = plist.get_filter(index)
        found[_NAMES.get(number, str(number))] = filter_setting(number, list(values))
    return found


def get_filter_name(code: int) -> str:
    """Returns the name of a filter."""
    return _NAMES.get(code, str(code))


def guess_chunk(shape: Sequence[int], maxshape: tuple[int | None, ...] | None, typesize: int) -> tuple[int, ...]:
    """Returns an extent of chunks for a dataset."""
    return tuple(guess(tuple(shape), maxshape, typesize))
