"""Files over a network through the connector: unmodified programs open URLs, and HDF5 reads them like local files."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from flight_server import Server

from vol import helpers, releases

TOKEN = "a-t0ken"

# Compares every object of two files; arguments: their names.
COMPARE = """
    import sys
    import h5py
    import numpy as np
    def value(file, element):
        # References are equal if they lead to equal names.
        if isinstance(element, h5py.Reference):
            return file[element].name if element else None
        if isinstance(element, np.void) and element.dtype.names:
            return [value(file, element[name]) for name in element.dtype.names]
        if isinstance(element, np.ndarray):
            return [value(file, part) for part in element]
        return element.tobytes() if isinstance(element, np.generic) else element
    def attributes(thing):
        attrs = thing.attrs
        return {name: (str(attrs.get_id(name).dtype), value(thing.file, attrs[name])) for name in attrs}
    def look(file):
        found = {"/": attributes(file)}
        def visit(name, thing):
            found[name] = [type(thing).__name__, attributes(thing)]
            if isinstance(thing, h5py.Dataset):
                found[name] += [str(thing.dtype), thing.shape, thing.chunks, thing.compression, thing.fillvalue is None]
                data = None if thing.shape is None else thing[()]
                found[name].append(value(file, data))
        file.visititems(visit)
        return found
    with h5py.File(sys.argv[1], "r") as first, h5py.File(sys.argv[2], "r") as second:
        one, two = look(first), look(second)
        assert list(one) == list(two)
        for name in one:
            assert str(one[name]) == str(two[name]), name
        print(len(one), first.filename, first.id.get_filesize() == second.id.get_filesize())
"""


def make(path: Path) -> None:
    """Makes a file with many kinds of objects."""
    random = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "a file"
        group = file.create_group("group/inner")
        group.attrs["numbers"] = np.arange(5)
        group.attrs["names"] = ["one", "two" * 100]
        file.create_dataset("chunked", data=random.integers(0, 99, (500, 400)), chunks=(60, 70), compression="gzip")
        file.create_dataset("shuffled", data=random.random((50, 40)), chunks=(9, 40), shuffle=True, fletcher32=True)
        file.create_dataset("contiguous", data=random.random(300_000))
        file.create_dataset("grows", data=np.arange(5000), maxshape=(None,), chunks=(100,))
        file["strings"] = ["a", "bc" * 1000, ""]
        file["fixed"] = np.array([b"x", b"yz"])
        compound = np.zeros(20, dtype=[("a", "i2"), ("b", ">f8"), ("c", "S5"), ("d", "f4", (3,))])
        compound["a"], compound["b"] = np.arange(20), np.arange(20) / 2
        file["compound"] = compound
        ragged = file.create_dataset("ragged", (3,), dtype=h5py.vlen_dtype("i4"))
        ragged[0], ragged[2] = [1], np.arange(1000)
        file["reference"] = file["group/inner"].ref
        file["region"] = file["chunked"].regionref[3:5, 2]
        file["empty"] = h5py.Empty("f4")
        file["nothing"] = np.zeros((0, 3), dtype="u2")
        file["enum"] = np.array([0, 1], dtype=h5py.enum_dtype({"no": 0, "yes": 1}, basetype="u1"))
        file["soft"] = h5py.SoftLink("/chunked")
        file["beside"] = h5py.ExternalLink("sub/other.h5", "/x")
        file["elsewhere"] = h5py.ExternalLink("../secret.h5", "/secret")
        file["another"] = h5py.ExternalLink("grpc://127.0.0.1:9/a.h5", "/x")
        for number in range(300):
            file.create_group(f"many/{number}").attrs["number"] = number
    with h5py.File(path, "r+", libver="latest") as file:
        new = file.create_group("new")
        for number in range(20):
            new.attrs[f"a{number}"] = np.arange(number + 1)
        new.create_dataset("chunked", data=random.random((100, 100)), chunks=(10, 10), compression="gzip")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A served folder, beside a file that is not served."""
    base = tmp_path_factory.mktemp("remote")
    folder = base / "served"
    (folder / "sub").mkdir(parents=True)
    make(folder / "a.h5")
    with h5py.File(folder / "sub" / "other.h5", "w") as file:
        file["x"] = np.arange(10.0)
    with h5py.File(base / "secret.h5", "w") as file:
        file["secret"] = np.arange(3)
    (base / "secret.txt").write_text("secret" * 8)
    with h5py.File(folder / "raw.h5", "w") as file:
        file.create_dataset("raw", (48,), "u1", external=[(str(base / "secret.txt"), 0, 48)])
    layout = h5py.VirtualLayout((3, 10), "f8")
    for row, name in enumerate(["sub/other.h5", "none.h5", "sub/other.h5"]):
        layout[row] = h5py.VirtualSource(name, "x", (10,))
    with h5py.File(folder / "virtual.h5", "w") as file:
        file.create_virtual_dataset("v", layout, fillvalue=-1)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """A server without a token."""
    with Server(folder) as running:
        yield running


def run(code: str, *arguments: object, folder: Path, options: dict[str, object] | None = None, **env: str) -> str:
    """Runs a program with the connector; returns its output."""
    variables = hyperchunk.plugins.environment(**(options or {})) | env
    return helpers.finish(helpers.start(code, *arguments, folder=folder, env=variables))


def failure(url: str, mode: str = "r", *, folder: Path, options: dict[str, object] | None = None, **env: str) -> str:
    """Returns the error of opening a URL."""
    code = """
    import sys, h5py
    try:
        h5py.File(sys.argv[1], sys.argv[2])
    except OSError as error:
        print(type(error).__name__, error)
    """
    return run(code, url, mode, folder=folder, options=options, **env)


# Reading.


def test_every_object_is_as_in_the_file_itself(server: Server, folder: Path) -> None:
    count, name, same = run(COMPARE, f"{server.url}/a.h5", folder / "a.h5", folder=folder).split()
    assert (int(count) > 310, name, same) == (True, f"{server.url}/a.h5", "True")


def test_a_socket_of_the_file_system(folder: Path, tmp_path: Path) -> None:
    with Server(folder, options=(f"--listen=grpc+unix://{tmp_path}/socket",)) as server:
        run(COMPARE, f"{server.url}?file=a.h5", folder / "a.h5", folder=folder)


def test_files_that_it_leads_to(server: Server, tmp_path: Path) -> None:
    code = """
    import sys, h5py
    with h5py.File(sys.argv[1] + "/a.h5", "r") as file, h5py.File(sys.argv[1] + "/virtual.h5", "r") as virtual:
        print(file["beside"][3], virtual["v"][:, 4].tolist())
        for of, name in (file, "elsewhere"), (file, "another"), (h5py.File(sys.argv[1] + "/raw.h5", "r"), "raw"):
            try:
                print(of[name])
            except (KeyError, OSError) as error:
                print(type(error).__name__)
    """
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["secret"] = [1]
    out = run(code, server.url, folder=tmp_path)
    assert out.splitlines() == ["3.0 [4.0, -1.0, 4.0]", "KeyError", "KeyError", "KeyError"]


@pytest.mark.slow
def test_sources_of_a_virtual_dataset_that_cannot_be_reached(folder: Path) -> None:
    """Unreachable sources are not treated as missing ones."""
    code = """
    import sys, h5py
    with h5py.File(sys.argv[1], "r") as file:
        data = file["v"]
        print(flush=True)
        sys.stdin.readline()
        try:
            print(data[...])
        except OSError as error:
            print(error)
    """
    with Server(folder) as server:
        url = f"{server.url}/virtual.h5"
        program = helpers.start(code, url, folder=folder, env=hyperchunk.plugins.environment())
        assert program.stdout is not None
        program.stdout.readline()
        server.stop(signal.SIGKILL)
        out, err = program.communicate("go\n", timeout=100)
    assert "a source of this virtual dataset cannot be read" in out, out + err


def test_the_same_file_twice(server: Server, folder: Path) -> None:
    code = """
    import os, sys, h5py
    first, second = (h5py.File(sys.argv[1], "r") for _ in range(2))
    assert first == second and first["chunked"] == second["chunked"]
    assert h5py.h5f.is_hdf5(sys.argv[1].encode())
    again = h5py.h5f.open(sys.argv[1].encode(), h5py.h5f.ACC_RDONLY, first.id.get_access_plist())
    assert again == first.id
    again.close()
    first.close()
    print(second["chunked"].shape, second["group/inner"].attrs["numbers"].tolist())
    """
    assert run(code, f"{server.url}/a.h5", folder=folder) == "(500, 400) [0, 1, 2, 3, 4]\n"


def test_h5netcdf(server: Server, folder: Path) -> None:
    pytest.importorskip("h5netcdf")
    code = """
    import sys, h5netcdf
    with h5netcdf.File("n.nc", "w") as file:
        file.dimensions = {"x": 5}
        file.create_variable("v", ("x",), "i4", data=range(5))
    with h5netcdf.File(sys.argv[1] + "/n.nc", "r") as file:
        print(file["v"][...].tolist(), file["v"].dimensions)
    """
    assert run(code, server.url, folder=folder) == "[0, 1, 2, 3, 4] ('x',)\n"


NETCDF = """
    import sys, netCDF4
    try:
        with netCDF4.Dataset(sys.argv[1], sys.argv[2]) as file:
            print(file["v"][:].tolist(), file["v"].units, file.dimensions["x"].size, file["g/w"][:].tolist())
    except OSError as error:
        print(type(error).__name__)
"""


def test_links(server: Server, folder: Path, tmp_path: Path) -> None:
    """netCDF-C does not accept our URLs, so it gets a file that links to one."""
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(folder / "n4.nc", "w") as file:
        file.createDimension("x", 5)
        file.createVariable("v", "i4", ("x",), zlib=True)[:] = range(5)
        file["v"].units = "m"
        file.createVariable("g/w", str, ("x",))[:] = np.array(["a", "b", "c", "d", "e"], dtype=object)
    link = [helpers.command(), "link", f"{server.url}/n4.nc", "link.nc"]
    subprocess.run(link, cwd=tmp_path, check=True)
    links: dict[str, object] = {"links": True}
    out = run(NETCDF, "link.nc", "r", folder=tmp_path, options=links)
    assert out == "[0, 1, 2, 3, 4] m 5 ['a', 'b', 'c', 'd', 'e']\n"
    assert run(NETCDF, "link.nc", "a", folder=tmp_path, options=links) == "OSError\n"
    assert "is a link to" in failure("link.nc", folder=tmp_path)
    assert "read-only" in failure("link.nc", "r+", folder=tmp_path, options=links)
    assert not failure("link.nc", folder=tmp_path, options=links)
    # A program that does not know such link files fails, instead of finding an empty file.
    assert helpers.run(NETCDF, "link.nc", "r", folder=tmp_path, native=True) == "OSError\n"
    done = subprocess.run(link, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.returncode, "--overwrite" in done.stderr) == (1, True)


@pytest.mark.parametrize("release", releases.RELEASES)
def test_other_releases(release: tuple[str, str], server: Server, folder: Path) -> None:
    package, version = release
    library = releases.library(package)
    code = """
    import ctypes, sys
    import numpy as np
    hdf5 = ctypes.CDLL(sys.argv[1])
    ID = ctypes.c_int64
    for name in "H5Fopen H5Dopen2 H5Aopen_by_name".split():
        getattr(hdf5, name).restype = ID
    def good(value):
        assert value >= 0
        return value
    good(hdf5.H5open())
    version = [ctypes.c_uint() for _ in range(3)]
    good(hdf5.H5get_libversion(*map(ctypes.byref, version)))
    double, long = (ID.in_dll(hdf5, f"H5T_NATIVE_{name}_g") for name in ("DOUBLE", "LONG"))
    zero = ID(0)
    files = [good(hdf5.H5Fopen(sys.argv[2].encode(), 0, zero)) for _ in range(2)]
    for file, name, kind, shape in (0, b"contiguous", double, 300_000), (1, b"chunked", long, (500, 400)):
        data = good(hdf5.H5Dopen2(ID(files[file]), name, zero))
        got = np.zeros(shape, "f8" if kind is double else "i8")
        good(hdf5.H5Dread(ID(data), kind, zero, zero, zero, ID(got.ctypes.data)))
        good(hdf5.H5Dclose(ID(data)))
        np.save(name.decode(), got)
    for file in files:
        good(hdf5.H5Fclose(ID(file)))
    assert hdf5.H5Fopen(sys.argv[2].encode(), 1, zero) < 0
    print(".".join(str(part.value) for part in version))
    """
    beside = {"LD_LIBRARY_PATH": str(library.parent)}
    assert run(code, library, f"{server.url}/a.h5", folder=folder, **beside).startswith(version)
    with h5py.File(folder / "a.h5") as file:
        for name in "contiguous", "chunked":
            np.testing.assert_array_equal(np.load(folder / f"{name}.npy"), file[name][...])


# Errors.


@pytest.mark.parametrize("mode", ["r+", "a", "w", "x"])
def test_writing(mode: str, server: Server, folder: Path) -> None:
    assert "read-only: open it with mode 'r'" in failure(f"{server.url}/a.h5", mode, folder=folder)


def test_what_is_not_there(server: Server, folder: Path) -> None:
    assert failure(f"{server.url}/none.h5", folder=folder).startswith("FileNotFoundError")
    (folder / "no.txt").write_text("no HDF5")
    assert "signature" in failure(f"{server.url}/no.txt", folder=folder)


def test_the_token(folder: Path) -> None:
    with Server(folder, token=TOKEN) as server:
        url = f"{server.url}/a.h5"
        for wrong in ({}, {"HYPERCHUNK_TOKEN": "another"}):
            assert "token" in failure(url, folder=folder, **wrong)
        assert not failure(url, folder=folder, HYPERCHUNK_TOKEN=TOKEN)


def test_the_command(server: Server, folder: Path) -> None:
    url = f"{server.url}/a.h5"
    ours = helpers.command()
    assert not failure(url, folder=folder, options={"command": ours}, HYPERCHUNK_COMMAND="/not/there")
    assert not failure(url, folder=folder, HYPERCHUNK_COMMAND=str(ours))
    assert "HYPERCHUNK_COMMAND" in failure(url, folder=folder, HYPERCHUNK_COMMAND="/not/there")
    assert "is no relay" in failure(url, folder=folder, HYPERCHUNK_COMMAND="/bin/true")


def test_a_sharded_store(server: Server, folder: Path) -> None:
    made = "import h5py; h5py.File('store.h5', 'w')['x'] = range(10)"
    helpers.run(made, folder=folder, store=True)
    code = """
    import sys, h5py
    with h5py.File(sys.argv[1], "r") as file:
        try:
            file["x"]
        except (KeyError, OSError) as error:
            print(error)
    """
    assert "sharded store" in run(code, f"{server.url}/store.h5", folder=folder)


STEPS = """
    import sys, h5py
    with h5py.File(sys.argv[1], "r") as file:
        data = file["contiguous"]
        print(data[0], flush=True)
        sys.stdin.readline()
        try:
            print(data[200_000:].sum())
        except OSError as error:
            print("failed:", error)
"""


def in_steps(url: str, folder: Path, between: Any) -> str:
    """Opens a file, calls `between`, and returns the output of reading on."""
    program = helpers.start(STEPS, url, folder=folder, env=hyperchunk.plugins.environment())
    assert program.stdout is not None
    program.stdout.readline()
    between(program)
    program.stdin.write("go\n")  # type: ignore[union-attr]
    program.stdin.flush()  # type: ignore[union-attr]
    return helpers.finish(program)


def test_a_file_that_changes(tmp_path: Path) -> None:
    make(tmp_path / "a.h5")

    def change(_: object) -> None:
        with h5py.File(tmp_path / "a.h5", "r+") as file:
            file["contiguous"][:] = 0
            file["more"] = np.arange(10)

    with Server(tmp_path) as server:
        assert "failed" in in_steps(f"{server.url}/a.h5", tmp_path, change)


@pytest.mark.slow
def test_a_server_that_is_gone(folder: Path) -> None:
    with Server(folder) as server:
        started = time.monotonic()
        said = in_steps(f"{server.url}/a.h5", folder, lambda _: server.stop(signal.SIGKILL))
        assert said.startswith("failed: ")
        assert "a.h5" in said
        assert time.monotonic() - started < 60


def relays(process: int) -> list[int]:
    """Returns the children of a process."""
    return [int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def ended(process: int) -> bool:
    """Returns whether a process ends soon; it may stay a zombie."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        status = Path(f"/proc/{process}/status")
        if not status.exists() or "State:\tZ" in status.read_text():
            return True
        time.sleep(0.02)
    return False


def test_a_relay_that_is_killed_is_replaced(server: Server, folder: Path) -> None:
    def kill(program: Any) -> None:
        [relay] = relays(program.pid)
        os.kill(relay, signal.SIGKILL)

    assert "failed" not in in_steps(f"{server.url}/a.h5", folder, kill)


def test_nothing_is_left(server: Server, folder: Path) -> None:
    """No relay remains after a program that ends, one that closes its files, and one that is killed."""
    program = helpers.start(STEPS, f"{server.url}/a.h5", folder=folder, env=hyperchunk.plugins.environment())
    assert program.stdout is not None
    program.stdout.readline()
    [relay] = relays(program.pid)
    program.kill()
    program.communicate()
    assert ended(relay)
    code = """
    import os, sys, h5py
    children = lambda: open(f"/proc/self/task/{os.getpid()}/children").read().split()
    files = [h5py.File(f"{sys.argv[1]}/{name}.h5", "r") for name in ("a", "sub/other", "virtual", "a")]
    [relay] = children()
    for file in files:
        file.close()
    h5py.File(sys.argv[1] + "/a.h5", "r")["chunked"][0]
    assert children() == [relay]
    print(relay)
    """
    relay = int(run(code, server.url, folder=folder))
    assert ended(relay)


def test_credentials_that_change(folder: Path) -> None:
    with Server(folder, token=TOKEN) as server:
        code = """
        import os, sys, h5py
        for token in "a-t0ken", "another", "a-t0ken":
            os.environ["HYPERCHUNK_TOKEN"] = token
            try:
                kept = h5py.File(sys.argv[1], "r")
                print("read", kept["chunked"].shape)
            except OSError as error:
                print("token" in str(error))
        """
        out = run(code, f"{server.url}/a.h5", folder=folder)
    assert out.splitlines() == ["read (500, 400)", "True", "read (500, 400)"]


def test_a_fork(server: Server, folder: Path) -> None:
    code = """
    import os, sys, h5py
    file = h5py.File(sys.argv[1], "r")
    expected = h5py.File("a.h5", "r")
    for _ in range(3):
        child = os.fork()
        if not child:
            same = (file["contiguous"][100_000:] == expected["contiguous"][100_000:]).all()
            same &= file["many/7"].attrs["number"] == 7
            file.close()
            os._exit(0 if same else 1)
        assert (file["chunked"][100:400] == expected["chunked"][100:400]).all()
        assert os.waitpid(child, 0)[1] == 0
    """
    run(code, f"{server.url}/a.h5", folder=folder)
