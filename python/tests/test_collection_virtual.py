"""Virtual datasets of a collection: any HDF5 program reads the values that the collection has."""

from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest

RECORD = np.dtype([("a", "<i4"), ("b", ">f8")])
#: Datasets without the joined dimension.
ALONE: dict[str, Any] = {
    "crs": np.int32(7),
    "text": "hellö",
    "bytes": np.bytes_(b"four"),
    "record": np.array((1, 2.5), RECORD),
    "complex": np.complex128(1 + 2j),
    "boolean": np.True_,
    "big": np.array(3, ">u2"),
    "null": h5py.Empty("f4"),
    "none": np.zeros((0, 3)),
    "also none": np.zeros((3, 0), RECORD),
    "latitude": np.arange(3.0),
    "words": np.array(["a", "bc", ""], object),
    "records": np.array([(1, 2), (3, 4)], RECORD),
    "below/that/scalar": np.float32(1.5),
}
#: Rows of datasets with it.
ROWS: dict[str, Any] = {
    "numbers": lambda first, count: np.arange(first, first + count, dtype=">i2"),
    "texts": lambda first, count: np.array([f"row {first + row}" for row in range(count)], object),
    "pairs": lambda first, count: np.array([(first + row, row / 2) for row in range(count)], RECORD),
    "below/boxes": lambda first, count: np.full((count, 2, 3), first, "f4"),
}


def files(folder: Path, counts: list[int]) -> list[Path]:
    made = []
    first = 0
    for number, count in enumerate(counts):
        path = folder / f"{number}.h5"
        with h5py.File(path, "w") as file:
            time = file.create_dataset("time", data=np.arange(first, first + count), maxshape=(None,), chunks=(2,))
            time.make_scale("time")
            for name, value in ALONE.items():
                file[name] = value
                file[name].attrs["said"] = name
            for name, rows in ROWS.items():
                data = rows(first, count)
                dtype = h5py.string_dtype() if data.dtype.kind == "O" else None
                made_one = file.create_dataset(name, data=data, dtype=dtype, maxshape=(None, *data.shape[1:]))
                made_one.dims[0].attach_scale(time)
            file["crs"].attrs["of"] = file["time"].ref
        first += count
        made.append(path)
    return made


@pytest.mark.parametrize("counts", [[2, 3, 1], [0, 2], [3], [0, 0]], ids=str)
@pytest.mark.filterwarnings("ignore::hyperchunk.exceptions.LeftOutWarning")
def test_every_kind_of_dataset(tmp_path: Path, counts: list[int]) -> None:
    paths = files(tmp_path, counts)
    with hyperchunk.open_collection(paths, concat="time") as collection:
        collection.to_virtual(tmp_path / "all.h5")
        assert set(collection) == {f"/{name}" for name in ("time", *ALONE, *ROWS)}
        wanted = {name: collection[name][()] for name in collection}
    with h5py.File(tmp_path / "all.h5") as file, h5py.File(paths[0]) as first:
        for name, value in wanted.items():
            assert file[name].dtype == first[name].dtype, name
            if isinstance(value, h5py.Empty | hyperchunk.Empty):
                assert file[name].shape is None
                continue
            assert file[name].shape == np.shape(value), name
            assert np.asarray(file[name][()]).tolist() == np.asarray(value).tolist(), name
        assert {name: file[name].attrs["said"] for name in ALONE} == {name: name for name in ALONE}
        assert list(file["crs"].attrs) == ["said"]
        assert file["crs"][()] == first["crs"][()]
        assert file["numbers"].dims[0][0] == file["time"]
