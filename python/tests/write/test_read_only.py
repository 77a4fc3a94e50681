"""Methods that change a file, on files that are open for reading."""

from pathlib import Path

import h5py
import hyperchunk
import pytest
from hyperchunk.exceptions import ReadOnlyError
from hyperchunk.objects import HLObject
from hyperchunk.write.dataset import WritableDataset
from hyperchunk.write.file import WritableFile
from hyperchunk.write.group import WritableGroup

# What only a file in memory has, and a property of a file that is written.
OWN = {"getbuffer", "stored"}


@pytest.mark.parametrize(
    ("writable", "path"), [(WritableDataset, "d"), (WritableGroup, "g"), (WritableFile, "/")], ids=["d", "g", "f"]
)
def test_methods_for_changes_say_how_to_open_the_file(tmp_path: Path, writable: type[HLObject], path: str) -> None:
    """No method is missing, which would be an AttributeError that does not help."""
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made.create_dataset("d", (4,), "f4", chunks=(2,), maxshape=(None,))
        made.create_group("g")
    with hyperchunk.open(tmp_path / "a.h5") as file:
        read = file if path == "/" else file[path]
        names = {name for name in dir(writable) if not name.startswith("_")} - OWN
        assert names - set(dir(type(read))) == set()
        changes = [name for name in names if getattr(getattr(type(read), name), "__name__", "") == "_refuse"]
        assert changes
        for name in changes:
            with pytest.raises(ReadOnlyError, match=r'mode "r\+"'):
                getattr(read, name)()
