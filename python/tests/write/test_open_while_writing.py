"""References and paths into other files, opened while a file is written, compared with h5py."""

from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import hyperchunk
import hyperchunk.h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

LIBRARIES = [h5py, hyperchunk.h5py]

# Steps of a program, each with the number of an object that exists.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["group", "dataset", "reference", "open", "attribute", "child", "write", "flush", "region"]),
        st.integers(0, 20),
    ),
    max_size=25,
)


def run(library: ModuleType, path: Path, steps: list[tuple[str, int]], mode: str) -> list[Any]:
    """Runs the steps; returns what the program sees, and what h5py finds in the file."""
    seen: list[Any] = []
    with library.File(path, mode) as file:
        names, references, regions = ["/"], [file.ref], []
        for number, (step, at) in enumerate(steps):
            name = names[at % len(names)]
            item = file[name]
            if step in ("group", "dataset"):
                made = f"{mode}{number}"
                parent = item if isinstance(item, library.Group) else file
                if step == "group":
                    item = parent.create_group(made)
                else:
                    item = parent.create_dataset(made, data=np.arange(4) + number)
                names.append(item.name)
            elif step == "reference":
                references.append(item.ref)
                seen.append(file[references[-1]].name)
            elif step == "open":
                found = file[references[at % len(references)]]
                seen.append((found.name, found[()].tolist() if isinstance(found, library.Dataset) else sorted(found)))
            elif step == "attribute":
                file[references[at % len(references)]].attrs[f"a{number}"] = number
            elif step == "child":
                found = file[references[at % len(references)]]
                if isinstance(found, library.Group):
                    found[f"c{mode}{number}"] = number
            elif step == "write" and isinstance(item, library.Dataset) and item.shape:
                item[1] = number
            elif step == "region" and isinstance(item, library.Dataset) and item.shape:
                regions.append(item.regionref[1:3])
            elif step == "flush":
                file.flush()
            seen.extend((file[region].name, file[file[region].name][region].tolist()) for region in regions)
        file.create_dataset(f"references{mode}", data=references, dtype=library.ref_dtype)
    with h5py.File(path) as file:
        file.visititems(lambda name, item: seen.append((name, dict(item.attrs), item.shape if name[0] == "r" else "")))
        for stored in (name for name in file if name.startswith("references")):
            seen.append([file[reference].name for reference in file[stored]])
    return seen


@settings(max_examples=60, deadline=None)
@given(STEPS, STEPS)
def test_opened_references_are_those_of_h5py(
    tmp_path_factory: pytest.TempPathFactory, first: list[tuple[str, int]], second: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("references")
    found = []
    for library in LIBRARIES:
        path = folder / f"{library.__name__}.h5"
        found.append([run(library, path, steps, mode) for mode, steps in (("w", first), ("a", second))])
    assert found[1] == found[0]


@pytest.mark.parametrize("mode", ["w", "r+", "a", "r"])
@pytest.mark.parametrize("through", ["e", "s", "g/e", "/e", "./e", "g/s"])
def test_paths_into_other_files(tmp_path: Path, mode: str, through: str) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["g/y"] = 1
        file["g/link"] = h5py.SoftLink("y")
        file["g/away"] = h5py.ExternalLink("third.h5", "z")
        file.create_group("g/sub")
    found = []
    for library in LIBRARIES:
        path = tmp_path / f"{library.__name__}.h5"
        with library.File(path, "w") as file:
            fill(library, file)
        with library.File(path, mode) as file:
            if mode == "w":
                fill(library, file)
            seen: list[Any] = []
            for last in ("y", "sub", "link", "away", "none", "sub/none", "y/none", "sub/"):
                name = f"{through}/{last}"
                try:
                    link: Any = type(file.get(name, getlink=True)).__name__
                except (RuntimeError, KeyError):
                    link = "none"
                seen.append((name, name in file, link))
            seen.append(file[f"{through}/y"][()])
            if mode != "r":
                seen.append(sorted(file.require_group(f"{through}/sub")))
            seen.extend([f"{through}/y" in file, "dangling/y" in file, "no/y" in file])
            found.append(seen)
    assert found[1] == found[0]


def fill(library: ModuleType, file: Any) -> None:
    file["e"] = library.ExternalLink("other.h5", "g")
    file["s"] = library.SoftLink("e")
    file["g/e"] = library.ExternalLink("other.h5", "/g")
    file["g/s"] = library.SoftLink("/e")
    file["dangling"] = library.ExternalLink("none.h5", "g")
