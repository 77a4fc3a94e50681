"""Copies of objects with committed datatypes: they keep the datatype, as h5py's copies do."""

import subprocess
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK

PAIR = np.dtype([("a", "i4"), ("b", "f8")])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.h5"
    with h5py.File(path, "w") as file:
        file["types/pair"] = PAIR
        file["types/text"] = h5py.string_dtype()
        pair, text = file["types/pair"], file["types/text"]
        pair.attrs["made"] = [1, 2]
        for name in ("g/one", "g/two"):
            dataset = file.create_dataset(name, (3,), pair, chunks=(2,))
            dataset[...] = np.array([(1, 2), (3, 4), (5, 6)], PAIR)
            dataset.attrs.create("range", np.array((7, 8), PAIR), dtype=pair)
        file.create_dataset("g/words", data=["a", "b"], dtype=text)
        file["g"].attrs.create("of", "x", dtype=text)
        file["g/plain"] = [1, 2]
    return path


def described(path: Path, name: str) -> dict[str, object]:
    """Returns which types of a copy are committed, the names of these types, and which objects share one."""
    found: dict[str, object] = {}
    addresses: dict[int, str] = {}

    def kind(one: str, committed: h5py.h5t.TypeID) -> None:
        if not committed.committed():
            found[one] = None
            return
        address = h5py.h5o.get_info(committed).addr
        found[one] = (h5py.h5i.get_name(committed), addresses.setdefault(address, one))

    with h5py.File(path) as file:
        top = file[name]
        objects = {"": top}
        if isinstance(top, h5py.Group):
            top.visititems(objects.__setitem__)
        for one, thing in sorted(objects.items()):
            if isinstance(thing, h5py.Dataset):
                kind(one, thing.id.get_type())
                found[f"{one} values"] = thing[...].tolist()
            for attribute in thing.attrs:
                kind(f"{one}@{attribute}", h5py.h5a.open(thing.id, attribute.encode()).get_type())
    return found


@pytest.mark.parametrize("name", ["g/one", "g", "/", "types"])
@pytest.mark.parametrize("where", ["same", "other", "new"])
@pytest.mark.parametrize("how", ["python", "command"])
def test_copies_keep_committed_types(source: Path, tmp_path: Path, name: str, where: str, how: str) -> None:
    targets = []
    for who in ("h5py", "own"):
        target = tmp_path / f"{who}.h5"
        if where == "same":
            target.write_bytes(source.read_bytes())
        elif where == "other":
            with h5py.File(target, "w") as file:
                file["there"] = [1]
        targets.append(target)
    stock, own = targets
    with h5py.File(source) as other, h5py.File(stock, "a") as file:
        from_file = file if where == "same" else other
        file.copy(from_file[name], "copy")
    if how == "python":
        with hyperchunk.open(source) as file, hyperchunk.open(own, "a") as into:
            into.copy((into if where == "same" else file)[name], "copy")
    else:
        read = own if where == "same" else source
        words = [str(HYPERCHUNK), "cp", f"{read}:/{name.strip('/')}", f"{own}:/copy"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    expected, found = described(stock, "copy"), described(own, "copy")
    if where == "same" and name != "/":
        # libhdf5 makes copies of the datatypes, without names; here copies have the same datatypes.
        names = {one: kind[0] for one, kind in found.items() if isinstance(kind, tuple)}
        assert set(names.values()) <= {b"/types/pair", b"/types/text"}
        expected = {one: (names[one], kind[1]) if isinstance(kind, tuple) else kind for one, kind in expected.items()}
    assert found == expected
    with hyperchunk.open(own) as file:
        assert "copy" in file


def test_a_second_copy_uses_the_same_types_in_the_same_file(source: Path) -> None:
    with hyperchunk.open(source, "r+") as file:
        file.copy("g/one", "first")
        file.copy("first", "second")
    with h5py.File(source) as file:
        types = [file[name].id.get_type() for name in ("g/one", "first", "second")]
        assert len({h5py.h5o.get_info(one).addr for one in types}) == 1
        assert h5py.h5i.get_name(types[0]) == b"/types/pair"


@pytest.mark.parametrize("name", ["/", "g/one"])
def test_datatypes_that_their_users_bring_keep_their_attributes(source: Path, tmp_path: Path, name: str) -> None:
    with hyperchunk.open(source) as file, hyperchunk.open(tmp_path / "b.h5", "w") as into:
        # In the order of names, the datasets that use the datatypes come before them.
        into.copy(file[name], "copy")
    with h5py.File(tmp_path / "b.h5") as file:
        used = file["copy/g/one" if name == "/" else "copy"].id.get_type()
        assert h5py.h5a.exists(used, b"made")
        if name == "/":
            assert file["copy/types/pair"].attrs["made"].tolist() == [1, 2]
            assert h5py.h5o.get_info(used).addr == h5py.h5o.get_info(file["copy/types/pair"].id).addr


def stored(dataset: h5py.Dataset) -> tuple[bytes, h5py.h5t.TypeID]:
    """Returns the bytes of a dataset without any conversion, and its datatype."""
    datatype = dataset.id.get_type()
    out = np.empty(dataset.shape, f"V{datatype.get_size()}")
    dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, out, datatype)
    return out.tobytes(), datatype


@pytest.mark.parametrize("padding", [h5py.h5t.STR_NULLTERM, h5py.h5t.STR_NULLPAD, h5py.h5t.STR_SPACEPAD])
@pytest.mark.parametrize("shape", [(), (6,), (3, 2)])
@pytest.mark.parametrize("in_compound", [False, True])
@pytest.mark.parametrize("compact", [False, True])
def test_elements_are_copied_as_stored(
    padding: int, shape: tuple[int, ...], in_compound: bool, compact: bool, tmp_path: Path
) -> None:
    """PyTables fills strings that end with a null: their last character is in the place of the null."""
    path = tmp_path / "a.h5"
    text = h5py.h5t.C_S1.copy()
    text.set_size(4)
    text.set_strpad(padding)
    datatype = text
    if in_compound:
        datatype = h5py.h5t.create(h5py.h5t.COMPOUND, 8)
        datatype.insert(b"text", 3, text)
    random = np.random.default_rng(1)
    count = int(np.prod(shape))
    raw = random.choice(np.frombuffer(b"ab \0", "u1"), count * datatype.get_size())
    with h5py.File(path, "w") as file:
        options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if compact:
            options.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
        dataset = h5py.h5d.create(file.id, b"x", datatype, space, options)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, raw.view(f"V{datatype.get_size()}"), datatype)
        before = stored(file["x"])
    with hyperchunk.open(path, "r+") as file:
        file.copy("x", "copy")
    with hyperchunk.open(path) as source, hyperchunk.open(tmp_path / "b.h5", "w") as file:
        source.copy("x", file, "copy")
    for name in ("a.h5", "b.h5"):
        with h5py.File(tmp_path / name) as file:
            assert stored(file["copy"]) == before


@pytest.mark.parametrize("number", [32004, 32024])
def test_chunks_are_copied_as_stored_whatever_their_filter_is_called(tmp_path: Path, number: int) -> None:
    """Names of filters are free text: each writer has another one. SZ3 (32024) has no encoder."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((3,))
        properties.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (2, 0, 1, 2, 3, 4, 5, 6, 7) if number == 32024 else (0,))
        made = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((6,)), properties)
        made.write_direct_chunk((0,), b"stored bytes of a chunk")
        made.write_direct_chunk((3,), b"and of another")
        wanted = made.get_create_plist().get_filter(0)
    with hyperchunk.open(tmp_path / "a.h5") as source, hyperchunk.create(tmp_path / "b.h5") as file:
        file.copy(source["x"], "y")
    with h5py.File(tmp_path / "b.h5") as file:
        found = file["y"].id
        assert found.get_create_plist().get_filter(0)[0] == number
        assert found.get_create_plist().get_filter(0)[2] == wanted[2]
        assert found.read_direct_chunk((0,)) == (0, b"stored bytes of a chunk")
        assert found.read_direct_chunk((3,)) == (0, b"and of another")
