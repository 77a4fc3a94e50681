"""Attribute counts of damaged objects: the number that can be listed, or an error."""

import h5py
import hyperchunk
import pytest


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("count", [3, 12])
def test_count_is_that_of_the_list_or_an_error(tmp_path, libver, count):
    path = tmp_path / "attributes.h5"
    with h5py.File(path, "w", libver=libver) as f:
        for number in range(count):
            f.attrs[f"name{number:02}"] = number
    whole = path.read_bytes()
    wrong, errors = [], 0
    for at in range(0, len(whole), 1 if len(whole) < 3000 else 3):
        damaged = bytearray(whole)
        damaged[at] ^= 0x5A
        path.write_bytes(damaged)
        try:
            with hyperchunk.open(path) as f:
                try:
                    listed = len(list(f.attrs))
                except hyperchunk.HyperchunkError:
                    listed = None
                try:
                    counted = len(f.attrs)
                except hyperchunk.HyperchunkError:
                    counted = None
        except hyperchunk.HyperchunkError:
            errors += 1
            continue
        errors += counted is None
        if counted != listed:
            wrong.append((at, counted, listed))
    assert not wrong
    assert errors, "nothing was damaged"
