"""A store's folder that others can write is refused, and its data are not silently read another way."""

import os
from pathlib import Path

import hyperchunk
import numpy as np
import pytest
from hyperchunk import store

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")


@pytest.mark.filterwarnings("ignore:.*companion of the file")
@pytest.mark.parametrize("mode", [0o777, 0o775])
@pytest.mark.parametrize("reader", ["open", "file"])
def test_what_libhdf5_would_read_is_not_read_instead(mode: int, reader: str, tmp_path: Path) -> None:
    """The list of external files points into the same folder, without a check of its owner."""
    path = tmp_path / "s.h5"
    run = store.create(path, {"/a": store.Dataset(8, "f8")}, sync="never")
    with run.writer() as writer:
        writer["a"][:] = np.arange(8.0)
    run.commit()
    opened = hyperchunk.open if reader == "open" else hyperchunk.File
    with opened(path) as file:
        assert file["a"][5] == 5
    folder = Path(f"{path}.d")
    folder.chmod(mode)
    with pytest.raises(hyperchunk.HyperchunkError, match=r"companion of the file.*s\.h5\.d"), opened(path) as file:
        file["a"][5]
    folder.chmod(0o755)
    with opened(path) as file:
        assert file["a"][5] == 5
