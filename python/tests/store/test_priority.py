"""In one epoch, data of the writer with the higher priority win: elements, attributes and objects."""

from pathlib import Path

import hyperchunk
import numpy as np
import pytest
from hyperchunk import store

TRIES = 8  # Writers' ids are random: in half of the tries the lower priority has the lower id.


@pytest.mark.filterwarnings("ignore::hyperchunk.store.StoreWarning")
@pytest.mark.parametrize("is_reopened", [False, True])
def test_the_higher_priority_lies_above(is_reopened: bool, tmp_path: Path) -> None:
    for number in range(TRIES):
        path = tmp_path / f"{number}.h5"
        run = store.create(path, {"/g/d": store.Dataset((3,), "i4")})
        if is_reopened:
            with run.writer() as first:
                first["/g/d"][:] = 0
            run.commit()
        writers = {priority: run.writer(priority=priority) for priority in (1, 0, 2)}
        for priority, writer in writers.items():
            writer["/g/d"][:] = priority
            writer.structure["s"] = f"of {priority}"
            writer["/g/d"].attrs["a"] = priority
            writer.structure.require_group("/g").attrs["a"] = np.full(priority + 1, priority)
            writer.attrs["a"] = priority
        for writer in writers.values():
            writer.close()
        run.commit(on_conflict="warn")
        with hyperchunk.open(path) as file:
            assert file["g/d"][:].tolist() == [2, 2, 2]
            assert file["s"].asstr()[()] == "of 2"
            assert file["g/d"].attrs["a"] == 2
            assert file["g"].attrs["a"].tolist() == [2, 2, 2]
            assert file.attrs["a"] == 2
