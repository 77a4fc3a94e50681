"""Random histories of a file that is being written, against a model in memory."""

import threading
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TYPES = ["u1", "<i4", ">f8"]


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, Any]:
    """Returns creation options of a dataset of one dimension."""
    options: dict[str, Any] = {
        "shape": (draw(st.sampled_from([1, 90, 500, 3000])),),
        "dtype": draw(st.sampled_from(TYPES)),
    }
    if draw(st.booleans()):
        options["chunks"] = (draw(st.integers(1, 700)),)
        options["maxshape"] = (None,)
        options["compression"] = draw(st.sampled_from([None, "gzip"]))
    if draw(st.booleans()):
        options["fillvalue"] = 7
    return options


def check(path: Path, model: dict[str, np.ndarray[Any, Any]]) -> None:
    """Compares a file with the model, by h5py and by Hyperchunk."""
    for opened in (h5py.File, hyperchunk.open):
        with opened(path) as file:
            assert sorted(file) == sorted(model)
            for name, values in model.items():
                np.testing.assert_array_equal(file[name][...], values, err_msg=f"{opened.__module__}: {name}")


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), journal=st.booleans(), threads=st.sampled_from([1, 2]))
def test_a_history_ends_as_the_model_says(data: st.DataObject, journal: bool, threads: int, tmp_path: Path) -> None:
    """Freed space is used again for data of all layouts, and is never read as values."""
    draw = data.draw
    path = tmp_path / "model.h5"
    model: dict[str, np.ndarray[Any, Any]] = {}
    with hyperchunk.open(path, "w", journal=journal, threads=threads, sync="never") as file:
        for step in range(draw(st.integers(8, 40))):
            verb = draw(
                st.sampled_from(
                    ["create", "create", "write", "replace", "replace", "resize", "delete", "flush", "flush"]
                )
            )
            if verb == "create":
                options = draw(layouts())
                file.create_dataset(f"d{step}", **options)
                model[f"d{step}"] = np.full(options["shape"], options.get("fillvalue", 0), options["dtype"])
                continue
            if verb == "flush":
                file.flush()
                check(path, model)
                continue
            if not model:
                continue
            name = draw(st.sampled_from(sorted(model)))
            values = model[name]
            if verb == "delete":
                del file[name], model[name]
            elif verb == "resize" and file[name].chunks:
                length = draw(st.integers(0, 3000))
                file[name].resize((length,))
                grown = np.full((length,), file[name].fillvalue, values.dtype)
                both = min(length, len(values))
                grown[:both] = values[:both]
                model[name] = grown
            elif verb in ("write", "replace") and len(values):
                start = draw(st.integers(0, len(values) - 1)) if verb == "write" else 0
                stop = draw(st.integers(start, len(values))) if verb == "write" else len(values)
                part = (np.arange(start, stop) % 250 + step + 1).astype(values.dtype)
                file[name][start:stop] = part
                values[start:stop] = part
    check(path, model)


@pytest.mark.parametrize("journal", [True, False])
@pytest.mark.parametrize("delete", [True, False])
def test_elements_in_freed_space_are_the_fill_value(journal: bool, delete: bool, tmp_path: Path) -> None:
    """Contiguous data of which a part is written, in space that other data had."""
    path = tmp_path / "a.h5"
    with hyperchunk.open(path, "w", journal=journal) as file:
        old = file.create_dataset("old", (100_000,), "f8", chunks=(100_000,))
        for value in (7.0, 8.0, 9.0):
            old[:] = value
            file.flush()
        if delete:
            del file["old"]
            file.flush()
        file.create_dataset("new", (50_000,), "f8")[0] = 1
    with h5py.File(path) as opened:
        assert opened["new"][0] == 1
        assert not opened["new"][1:].any()


@pytest.mark.parametrize("mode", ["w", "r+"])
def test_a_reader_beside_commits_reads_its_own_values(mode: str, tmp_path: Path) -> None:
    """Freed space is not used again while another thread reads."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as made:
        made["old"] = 0
    with hyperchunk.open(path, mode, sync="never") as file:
        for name, sign in (("z", 1.0), ("w", -1.0)):
            file.create_dataset(name, data=np.full(4000, sign), chunks=(400,))
        file.flush()
        stopped = threading.Event()
        wrong: list[float] = []

        def read() -> None:
            while not stopped.is_set():
                values = file["z"][...]
                wrong.extend(values[values < 0].tolist())

        reader = threading.Thread(target=read)
        reader.start()
        for number in range(1, 150):
            file["z"][...] = number
            file["w"][...] = -number
            file.flush()
        stopped.set()
        reader.join()
        assert wrong == []
