"""Groups, links, names and attributes, compared with h5py."""

import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("objects")
    with h5py.File(folder / "other.h5", "w") as file:
        file["d"] = np.arange(3)
        file.create_group("deep/er")
        file["deep/soft"] = h5py.SoftLink("er")
    with h5py.File(folder / "objects.h5", "w") as file:
        group = file.create_group("g")
        group["x"] = np.arange(5)
        group.create_group("sub")["y"] = 1
        file["soft"] = h5py.SoftLink("/g")
        file["dangling"] = h5py.SoftLink("/nope")
        file["circle"] = h5py.SoftLink("/circle")
        file["away"] = h5py.ExternalLink("other.h5", "/d")
        file["deep away"] = h5py.ExternalLink("other.h5", "deep")
        file["lost"] = h5py.ExternalLink("missing.h5", "/d")
        file["hard"] = group
        file["back"] = h5py.SoftLink("g/x")
        group["up"] = file["/"]
        file["type"] = np.dtype([("a", "i4"), ("b", "f8")])
        file["é"] = 1
        file["ref"] = np.array([group.ref, file.ref, None], dtype=h5py.ref_dtype)
        regions = file.create_dataset("regions", (3,), h5py.regionref_dtype)
        regions[0] = group["x"].regionref[1:4]
        regions[1] = group["x"].regionref[[0, 2]]
        tracked = file.create_group("tracked", track_order=True)
        for name in "zma":
            tracked[name] = h5py.SoftLink(name)
            tracked.attrs[name] = name
        file.attrs["text"] = "x"
        file.attrs["list"] = ["a", "b"]
        file.attrs["bytes"] = np.bytes_(b"abc")
        file.attrs["empty"] = h5py.Empty("S3")
        file.attrs["ref"] = group.ref
        many = file.create_group("many")
        for number in range(300):
            many[f"{number}"] = h5py.SoftLink("/g")
            many.attrs[f"{number}"] = number
    return folder / "objects.h5"


@pytest.fixture(scope="module")
def files(path: Path) -> Iterator[tuple[Any, Any]]:
    with h5py.File(path) as theirs, hyperchunk.File(path) as ours:
        yield theirs, ours


EXPRESSIONS = """
f['soft'].name
f['soft/x'].name
f['hard/x'].name
f['back'].name
f['away'].name
f['away'].parent.name
f['away'][:].tolist()
f['deep away/er'].name
f['deep away/soft'].name
f['deep away'].file['d'].shape
f['g/./x'].name
f['//g//x/'].name
f[b'g/x'].name
f['g'].parent.name
f['/'].parent.name
f['g/sub/y'].parent.name
f.name
f['.'].name
f['g']['/g/x'].name
f['é'].name
f['dangling']
f['circle']
f['lost']
f['nope']
f['nope/x']
f['g/x/y']
f['g/../g']
f['']
f[1]
f[None]
'dangling' in f
'dangling/x' in f
'soft/x' in f
'away' in f
'lost' in f
'nope' in f
'nope/x' in f
'g/x/y' in f
'' in f
'.' in f
'/' in f
'/g' in f['g']
1 in f
f.get('nope')
f.get('nope', 'D')
f.get('dangling')
f.get('dangling', getlink=True)
f.get('dangling', getlink=True).path
f.get('away', getlink=True).filename
f.get('away', getlink=True).path
f.get('g', getclass=True).__name__
f.get('soft', getclass=True).__name__
f.get('type', getclass=True).__name__
f.get('g/x', getclass=True).__name__
f.get('soft', getclass=True, getlink=True).__name__
f.get('away', getclass=True, getlink=True).__name__
f.get('g', getclass=True, getlink=True).__name__
f.get('nope', 3, getclass=True)
f['type']
f['type'].dtype
f['type'].name
f[f['ref'][0]] == f['g']
f[f['ref'][1]].name
f[f['ref'][2]]
f['ref'][2]
f['ref'][0]
bool(f['ref'][2])
f['ref'][...].shape
f['regions'][0]
f[f['regions'][0]] == f['g/x']
f['g/x'][f['regions'][0]].tolist()
f['g/x'][f['regions'][1]].tolist()
f['g/x'][f['regions'][2]]
f['é'][f['regions'][0]]
f['g/x'].regionref.shape(f['regions'][0])
f['g/x'].regionref.selection(f['regions'][1])
f.attrs['text']
f.attrs['list'].tolist()
f.attrs['bytes']
f.attrs['ref']
f[f.attrs['ref']] == f['g']
f.attrs['nope']
f.attrs[1]
'nope' in f.attrs
'text' in f.attrs
f.attrs.get('nope', 3)
list(f.attrs)
len(f.attrs)
f.attrs.keys()
len(f['many'].attrs)
list(f['many'].attrs) == sorted(map(str, range(300)))
f['many'].attrs['299']
[int(v) for v in f['many'].attrs.values()][:3]
list(f['many'])[:5]
len(f['many'])
'299' in f['many']
'300' in f['many']
list(f)
list(reversed(f))
f.keys()
f.values()
f['g'].items()
list(f['g'].values())
list(f['g'].items())
[n for n, v in f.items()]
f['dangling'] if False else ('dangling', None) in list(f.items())
f['g'] in f.values()
('g', f['g']) in f.items()
list(f['tracked'])
list(reversed(f['tracked']))
list(f['tracked'].attrs)
list(f['tracked'].attrs.items())
len(f)
f
f['g']
f['g/x']
f['é']
f['g/x'].fillvalue
f.driver
f.libver
f.userblock_size
f.mode
f.swmr_mode
f == f['/']
f['g'] == f['hard']
f['g'] != f['hard']
f['g'] == 3
f['g'].file == f
hash(f['g']) == hash(f['hard'])
{f['g'], f['hard']} == {f['g']}
f['g'].ref == f['g/x'].ref
f[f['g'].ref] == f['g']
visited(f.visit)
visited(f.visititems)
visited(f.visit_links)
visited(f.visititems_links)
visited(f['g'].visit)
f.visit(lambda name: name if 'x' in name else None)
f.visititems(lambda name, obj: obj.name if hasattr(obj, 'shape') else None)
f['g/x'].dims[0].label
len(f['g/x'].dims)
f['g/x'].dims[1]
f['g/x'].is_scale
f['g/x'].virtual_sources()
f['g/x'].iter_chunks()
f['g/x'].asstr()
f['g/x'].astype('S3')[:]
""".strip().splitlines()


def visited(method: Any) -> list[Any]:
    found: list[Any] = []
    method(lambda name, *rest: found.append((name, *(type(thing).__name__ for thing in rest))))
    return found


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression(files: tuple[Any, Any], expression: str) -> None:
    def outcome(file: Any) -> Any:
        try:
            return eval(expression, {"f": file, "visited": visited})
        except Exception as error:
            return error

    theirs, ours = map(outcome, files)
    if isinstance(theirs, Exception):
        builtin = next(cls for cls in type(theirs).__mro__ if cls.__module__ == "builtins")
        assert isinstance(ours, builtin), (theirs, ours)
    elif isinstance(theirs, str | int | list | tuple | np.dtype) or theirs is None:
        assert repr(ours) == repr(theirs)
    else:
        assert repr(ours).rstrip(">") == repr(theirs).rstrip(">")


def test_references_and_links_have_their_places(files: tuple[Any, Any]) -> None:
    ours = files[1]
    with pytest.raises(KeyError, match=r"nope.*objects\.h5"):
        ours["nope"]
    with pytest.raises(KeyError, match=r"no attribute of the name 'nope' \(object /g, file .*objects\.h5\)"):
        ours["g"].attrs["nope"]
    with pytest.raises(hyperchunk.HyperchunkError, match=r"missing\.h5"):
        ours["lost"]


def test_closed(path: Path) -> None:
    file = hyperchunk.File(path)
    group, dataset, attrs, kind = file["g"], file["g/x"], file.attrs, file["type"]
    dataset[0]
    for thing in (file, group, dataset, kind):
        assert thing
    file.close()
    file.close()
    reprs = [repr(thing) for thing in (file, group, dataset, attrs, kind)]
    assert reprs == [
        "<Closed HDF5 file>",
        "<Closed HDF5 group>",
        "<Closed HDF5 dataset>",
        "<Attributes of closed HDF5 object>",
        "<Closed HDF5 named type>",
    ]
    actions = (
        lambda: file["g"],
        lambda: list(group),
        lambda: dataset[0],
        lambda: dataset[...],
        lambda: dataset.shape,
        lambda: dataset.dtype,
        lambda: attrs["text"],
        lambda: group.attrs,
        lambda: file.filename,
        lambda: file.mode,
        lambda: group.file,
    )
    for action in actions:
        with pytest.raises(ValueError, match=r"the file is closed \(file .*objects\.h5\)"):
            action()
    assert not any((file, group, dataset, kind))
    assert file.name is None
    assert "g" not in file
    with hyperchunk.open(path) as file:
        assert file
    assert not file


def test_what_a_file_may_be(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    with path.open("rb") as stream, hyperchunk.open(stream) as file:
        assert file["g/x"][2] == 2
        assert file.driver == "fileobj"
    with hyperchunk.File.from_bytes(data) as file:
        assert file["g/x"][2] == 2
        assert file.driver == "core"
        with pytest.raises(TypeError):
            pickle.dumps(file)
    for name in (str(path), os.fsencode(path), path):
        with hyperchunk.open(name) as file:
            assert file.filename == str(path)
    assert hyperchunk.is_hdf5(path)
    text = tmp_path / "text"
    text.write_text("text")
    assert not hyperchunk.is_hdf5(text)
    assert not hyperchunk.is_hdf5(tmp_path / "missing")
    with pytest.raises(FileNotFoundError) as missing:
        hyperchunk.open(tmp_path / "missing")
    assert missing.value.errno == 2
    with pytest.raises(OSError, match="no HDF5 signature"):
        hyperchunk.open(text)
    with pytest.raises(OSError, match="folder"):
        hyperchunk.open(tmp_path)
    edited = tmp_path / "edited.h5"
    edited.write_bytes(data)
    for mode in ("r+", "a"):
        with hyperchunk.open(edited, mode) as file:
            assert file.mode == "r+"
        with path.open("rb") as stream, pytest.raises(hyperchunk.exceptions.UnsupportedError, match="a local file"):
            hyperchunk.open(stream, mode)
    with pytest.raises(ValueError, match="Invalid mode"):
        hyperchunk.open(path, "rw")
    with pytest.raises(ValueError, match="Unknown driver"):
        hyperchunk.open(path, driver="nonsense")
    with pytest.raises(TypeError, match="nonsense"):
        hyperchunk.open(path, nonsense=1)
    hyperchunk.open(path, rdcc_nbytes=1 << 20, libver="latest", locking=False, driver="sec2").close()


def test_nothing_writes(files: tuple[Any, Any]) -> None:
    ours = files[1]
    actions = (
        lambda: ours.create_group("a"),
        lambda: ours.__setitem__("a", 1),
        lambda: ours.__delitem__("g"),
        lambda: ours["g/x"].__setitem__(0, 1),
        lambda: ours.attrs.__setitem__("a", 1),
        lambda: ours.attrs.create("a", 1),
        lambda: ours["g/x"].resize((3,)),
        lambda: ours["g/x"].dims[0].attach_scale(ours["g/x"]),
    )
    for action in actions:
        with pytest.raises(hyperchunk.exceptions.UnsupportedError, match="no write intent"):
            action()


def test_pickle(files: tuple[Any, Any], path: Path) -> None:
    ours = files[1]
    for thing in (ours, ours["g"], ours["g/x"], ours["type"]):
        copy = pickle.loads(pickle.dumps(thing))
        assert copy == thing
        assert copy.name == thing.name
    assert pickle.loads(pickle.dumps(ours["g/x"]))[3] == 3
    reference = ours["ref"][0]
    assert ours[pickle.loads(pickle.dumps(reference))] == ours["g"]


def test_limits(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("d", data=np.arange(100), chunks=(50,), compression="gzip")
        file["link"] = h5py.SoftLink("d")
    low = {"chunk_bytes": 399, "link_depth": 0}
    for opened in (
        hyperchunk.open(tmp_path / "f.h5", limits=low),
        hyperchunk.File.from_bytes((tmp_path / "f.h5").read_bytes(), limits=low),
        pickle.loads(pickle.dumps(hyperchunk.open(tmp_path / "f.h5", limits=low))),
    ):
        with opened as file:
            with pytest.raises(hyperchunk.exceptions.LimitError, match="chunk_bytes"):
                file["d"][...]
            with pytest.raises(hyperchunk.exceptions.LimitError, match="links"):
                file["link"]
    with hyperchunk.open(tmp_path / "f.h5", limits={"chunk_bytes": 400}) as file:
        assert (file["link"][...] == np.arange(100)).all()
    with pytest.raises(ValueError, match=r"no limit `chunks`; there are .*chunk_bytes"):
        hyperchunk.open(tmp_path / "f.h5", limits={"chunks": 1})
    with pytest.raises(OverflowError):
        hyperchunk.open(tmp_path / "f.h5", limits={"visits": -1})


def test_the_highest_depths(tmp_path: Path) -> None:
    nested = np.dtype("i4")
    for _ in range(63):
        nested = np.dtype([("a", nested)])
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["0"] = np.arange(5)
        for number in range(1024):
            file[f"link {number + 1}"] = h5py.SoftLink(f"link {number}" if number else "0")
        for number in range(63):
            layout = h5py.VirtualLayout((5,), "i8")
            layout[:] = h5py.VirtualSource(".", str(number), (5,))
            file.create_virtual_dataset(str(number + 1), layout)
        file.create_dataset("nested", (2,), nested)
    high = {"datatype_depth": 64, "link_depth": 1024, "virtual_depth": 64}
    with hyperchunk.open(tmp_path / "f.h5", limits=high) as file:
        assert (file["link 1024"][...] == np.arange(5)).all()
        assert (file["63"][...] == np.arange(5)).all()
        assert file["nested"].dtype == nested
        assert (file["nested"][...] == np.zeros(2, nested)).all()
    with hyperchunk.open(tmp_path / "f.h5") as file:
        for name, limit in (("link 1024", "link_depth"), ("63", "virtual_depth"), ("nested", "datatype_depth")):
            with pytest.raises(hyperchunk.exceptions.LimitError, match=limit):
                file[name][...]
    for name in high:
        with pytest.raises(ValueError, match="at most"):
            hyperchunk.open(tmp_path / "f.h5", limits={name: 1025})


def test_many_threads(files: tuple[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "threads.h5"
    data = np.arange(1_000_000).reshape(1000, 1000)
    with h5py.File(path, "w") as file:
        file.create_dataset("d", data=data, chunks=(100, 100), compression="gzip", compression_opts=1)
    wrong: list[Any] = []

    def work(number: int) -> None:
        try:
            for step in range(5):
                start = (number * 131 + step * 17) % 900
                if not np.array_equal(file["d"][start : start + 100, ::3], data[start : start + 100, ::3]):
                    wrong.append(start)
        except Exception as error:
            wrong.append(error)

    with hyperchunk.open(path) as file:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_fork(tmp_path: Path) -> None:
    path = tmp_path / "fork.h5"
    data = np.arange(2_000_000)
    with h5py.File(path, "w") as file:
        file.create_dataset("d", data=data, chunks=(10_000,), compression="gzip", compression_opts=1)
    with hyperchunk.open(path) as file:
        dataset = file["d"]
        assert np.array_equal(dataset[:], data)
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(dataset[:], data) and np.array_equal(file["d"][5:], data[5:]) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert np.array_equal(dataset[:], data)


def test_dimension_scales(tmp_path: Path) -> None:
    path = tmp_path / "scales.h5"
    with h5py.File(path, "w") as file:
        file["d"] = np.zeros((3, 4))
        file["x"], file["x2"], file["y"] = np.arange(3), np.arange(3) * 2, np.arange(4)
        for name, label in (("x", "ex"), ("x2", "ex2"), ("y", "")):
            file[name].make_scale(label)
        file["d"].dims[0].attach_scale(file["x"])
        file["d"].dims[0].attach_scale(file["x2"])
        file["d"].dims[1].attach_scale(file["y"])
        file["d"].dims[0].label = "first"
    results = []
    for module in (h5py, hyperchunk):
        with module.File(path) as file:
            dims = file["d"].dims
            results.append(
                [
                    [dimension.label for dimension in dims],
                    [[(name, scale.name) for name, scale in dimension.items()] for dimension in dims],
                    dims[0][1].name,
                    dims[0]["ex2"].name,
                    [len(dimension) for dimension in dims],
                    [dimension.keys() for dimension in dims],
                    list(dims[0]),
                    [file[name].is_scale for name in ("d", "x", "y")],
                ]
            )
            with pytest.raises(KeyError):
                dims[0]["nope"]
    assert results[0] == results[1]


def test_virtual_datasets(tmp_path: Path) -> None:
    for number in range(3):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["data"] = np.arange(10) + 10 * number
    layout = h5py.VirtualLayout((4, 10), "i8")
    for number in range(3):
        layout[number] = h5py.VirtualSource(f"{number}.h5", "data", (10,))
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file.create_virtual_dataset("v", layout, fillvalue=-1)
    with h5py.File(tmp_path / "virtual.h5") as theirs, hyperchunk.File(tmp_path / "virtual.h5") as ours:
        assert np.array_equal(theirs["v"][:], ours["v"][:])
        assert np.array_equal(theirs["v"][1:, ::3], ours["v"][1:, ::3])
        assert ours["v"].is_virtual
        expected = [
            (m.file_name, m.dset_name, m.vspace.get_regular_hyperslab(), m.vspace.shape)
            for m in theirs["v"].virtual_sources()
        ]
        found = [
            (m.file_name, m.dset_name, m.vspace.get_regular_hyperslab(), m.vspace.shape)
            for m in ours["v"].virtual_sources()
        ]
        assert found == expected


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
@pytest.mark.parametrize("target", ["/deep/real", "/deep"])
def test_names_behind_several_external_links(tmp_path: Path, depth: int, target: str) -> None:
    with h5py.File(tmp_path / "0.h5", "w") as file:
        file["deep/real"] = 1
    leads_to = target
    for number in range(1, depth + 1):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file[f"m{number}"] = h5py.ExternalLink(f"{number - 1}.h5", leads_to)
            file["soft"] = h5py.SoftLink(f"/m{number}")
        leads_to = f"/m{number}"
    with hyperchunk.open(tmp_path / f"{depth}.h5") as file:
        found = file[leads_to]
        assert found.name == target
        assert Path(found.file.filename).name == "0.h5"
        assert Path(file["soft"].file.filename).name == "0.h5"
        if target == "/deep":
            assert file[f"{leads_to}/real"].name == "/deep/real"
            assert found["real"].name == "/deep/real"
