"""Common base of groups, datasets and committed datatypes in a file that is being written."""

from __future__ import annotations

from hyperchunk import _core
from hyperchunk.file import File
from hyperchunk.objects import HLObject, RegionProxy
from hyperchunk.references import OBJECT1, REGION1, Reference, RegionReference
from hyperchunk.typing import Index
from hyperchunk.write.attributes import WritableAttributes
from hyperchunk.write.opened import Writing


class WritableObject(HLObject):
    """An object of a file that is being written."""

    __slots__ = ()

    @property
    def _writing(self) -> Writing:
        opened = self._opened
        assert isinstance(opened, Writing)
        opened.writer  # noqa: B018 - raises an error if the file is closed
        return opened

    @property
    def _node(self) -> _core.Node:
        """The `_core` object."""
        self._writing  # noqa: B018
        assert isinstance(self._found, _core.Node)
        return self._found

    @property
    def file(self) -> File:
        """File of the object."""
        from hyperchunk.write.file import WritableFile

        return WritableFile._of(self._writing)

    @property
    def attrs(self) -> WritableAttributes:
        """Attributes of the object."""
        self._opened.need()
        return WritableAttributes(self)

    @property
    def ref(self) -> Reference:
        """Reference to the object."""
        return Reference(OBJECT1, self._node.pin().to_bytes(8, "little"))

    @property
    def regionref(self) -> RegionProxy:
        """Region references: ``regionref[index]`` makes one to a selection of a dataset."""
        return _WritableRegions(self)


class _WritableRegions(RegionProxy):
    def __getitem__(self, args: Index) -> RegionReference:
        made = super().__getitem__(args)
        return RegionReference(REGION1, made._raw, made._region)
