"""Low-level access to attributes by index, compared with h5py, and properties for new files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk.h5py
import pytest
from hyperchunk.exceptions import UnsupportedError


def told(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        return type(error).__name__


def made(path: Path, tracked: bool, count: int) -> Path:
    with h5py.File(path, "w", libver="latest") as file:
        group = file.create_group("g", track_order=tracked)
        for number in range(count):
            group.attrs[chr(ord("z") - number)] = number
        group.attrs["w2"] = 1
    return path


def by_index(module: Any, path: Path, options: dict[str, Any]) -> list[Any]:
    low = module.h5a
    with module.File(path, "r+") as file:
        place = file["g"].id
        seen: list[bytes] = []
        found = [told(lambda at=at: low.open(place, index=at, **options).name) for at in (0, 1, 2, 50)]
        found += [told(lambda at=at: low.get_info(place, index=at, **options).data_size) for at in (0, 50)]
        found += [told(lambda at=at: low.iterate(place, seen.append, index=at, **options)) for at in (0, 2, 50)]
        found.append(told(lambda: low.delete(place, index=50, **options)))
        low.delete(place, index=0, **options)
        return [*found, seen, sorted(file["g"].attrs)]


@pytest.mark.parametrize("count", [3, 12])
@pytest.mark.parametrize("tracked", [True, False])
def test_index(tracked: bool, count: int, tmp_path: Path) -> None:
    orders = [{}, *({"index_type": 0, "order": order} for order in (0, 1))]
    if tracked:
        orders += [{"index_type": 1, "order": order} for order in (0, 1)]
    for options in orders:
        expected = by_index(h5py, made(tmp_path / "a.h5", tracked, count), options)
        assert by_index(hyperchunk.h5py, made(tmp_path / "b.h5", tracked, count), options) == expected


def edits(module: Any, path: Path) -> list[Any]:
    low = module.h5a
    with module.File(path, "w") as file:
        file.attrs["a"] = "text"
        file.attrs["b"] = "text"
        pairs = [(b"a", b"a"), (b"no", b"other"), (b"no", b"b"), (b"a", b"b")]
        found = [told(lambda pair=pair: low.rename(file.id, *pair)) for pair in pairs]
        found += [told(lambda value=value: file.attrs.modify("a", value)) for value in (True, 5, None, "new")]
        found += [told(lambda: low.open(file.id)), told(lambda: low.delete(file.id))]
        return [*found, sorted(file.attrs.items())]


def test_rename_and_modify(tmp_path: Path) -> None:
    assert edits(hyperchunk.h5py, tmp_path / "b.h5") == edits(h5py, tmp_path / "a.h5")


def test_free_space_of_properties(tmp_path: Path) -> None:
    given: list[dict[str, Any]] = [
        {"fs_persist": True, "fs_strategy": "page"},
        {"fs_threshold": 5, "fs_strategy": "page"},
        {"fs_strategy": "none"},
        {"fs_strategy": "aggregate"},
    ]
    for number, options in enumerate(given):
        path, output = tmp_path / f"{number}.h5", tmp_path / "new.h5"
        h5py.File(path, "w", **options).close()
        with hyperchunk.h5py.File(path) as file:
            plist = file.id.get_create_plist()
        with pytest.raises(UnsupportedError, match="fs_"):
            hyperchunk.h5py.h5f.create(bytes(output), fcpl=plist)
        assert not output.exists()
    h5py.File(tmp_path / "page.h5", "w", fs_strategy="page", fs_page_size=8192).close()
    with hyperchunk.h5py.File(tmp_path / "page.h5") as file:
        plist = file.id.get_create_plist()
    hyperchunk.h5py.h5f.create(bytes(output), fcpl=plist).close()
    with h5py.File(output) as file:
        assert file.id.get_create_plist().get_file_space_page_size() == 8192
