"""Datasets written by HDF5-UDF 2.1: listed, shown, verified, refused, and run for signers with native code."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hdf5_udf_files import compiled, key_file, write

NDVI = {
    "lua": """
function dynamic_dataset()
    local n, r, q = lib.getData("NDVI"), lib.getData("Red"), lib.getData("NIR")
    local dims = lib.getDims("NDVI")
    assert(lib.getType("Red") == "float")
    for k = 1, dims[1] * dims[2] do n[k] = (q[k] - r[k]) / (q[k] + r[k]) end
end
""",
    "py": """
def dynamic_dataset():
    n, r, q = (lib.getData(name) for name in ("NDVI", "Red", "NIR"))
    rows, columns = lib.getDims("NDVI")
    assert lib.getType("Red") == b"float"
    for k in range(rows * columns):
        n[k] = (q[k] - r[k]) / (q[k] + r[k])
""",
    "cpp": """
extern "C" void dynamic_dataset() {
    auto n = lib.getData<float>("NDVI"), r = lib.getData<float>("Red"), q = lib.getData<float>("NIR");
    auto dims = lib.getDims("NDVI");
    if (strcmp(lib.getType("Red"), "float")) return;
    for (size_t k = 0; k < dims[0] * dims[1]; k++) n[k] = (q[k] - r[k]) / (q[k] + r[k]);
}
""",
}
TWO = 'def dynamic_dataset():\n    x, a, b = map(lib.getData, "xab")\n'
LIKE = np.zeros((30, 40), "f4")


def values(path: Path, dataset: str) -> Any:
    """Returns the values, the same in both readers."""
    with h5py.File(path) as file:
        read = file[dataset][...]
    with hyperchunk.open(path) as file:
        np.testing.assert_array_equal(file[dataset][...], read)
    return read


def refused(path: Path, dataset: str, *texts: str) -> None:
    """Checks that both readers refuse, with these texts."""
    with h5py.File(path) as file, pytest.raises(OSError, match="hyperchunk udf") as caught:
        file[dataset][...]
    with hyperchunk.open(path) as file, pytest.raises(hyperchunk.HyperchunkError) as second:
        file[dataset][...]
    for message in (str(caught.value), str(second.value)):
        for text in (f"{path}:/{dataset}", *texts):
            assert text in message, message


@pytest.fixture
def trusted(command: Any, tmp_path: Path) -> str:
    """Fingerprint of the author, whose key file is trusted."""
    done = command("trust", "add", key_file(tmp_path), "--profile", "default")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Ada ada@example.org is in profile default" in done.stdout
    fingerprint: str = done.stdout.split()[0]
    return fingerprint


@pytest.mark.parametrize("language", ["lua", "py", "cpp"])
def test_a_stranger_s_is_refused_and_a_listed_signer_s_runs(
    language: str, scene: Any, command: Any, tmp_path: Path
) -> None:
    file = scene()
    write(file, compiled(language, NDVI[language], tmp_path), "NDVI", LIKE)
    refused(
        file, "NDVI", "native code in effect", "no profile but `untrusted` knows", "trust add SHA256:", "is not stored"
    )
    done = command("udf", "verify", file)
    assert done.returncode == 3
    assert "its compiled form signed by SHA256:" in done.stdout

    assert command("trust", "add", f"{file}:/NDVI", "--profile", "default").returncode == 0
    with h5py.File(file) as opened:
        red, nir = opened["Red"][...], opened["NIR"][...]
    # Lua and Python compute in double precision.
    np.testing.assert_allclose(values(file, "NDVI"), (nir - red) / (nir + red), rtol=1e-6)
    done = command("udf", "verify", file)
    assert done.returncode == 0, done.stdout
    assert "profile default, without its grants: runs here" in done.stdout
    assert "covers only the compiled form" in done.stdout
    # Again, with a warm worker.
    np.testing.assert_allclose(values(file, "NDVI"), (nir - red) / (nir + red), rtol=1e-6)

    # The profile must allow native code.
    profile = tmp_path / "config" / "hyperchunk" / "profiles" / "default" / "profile.toml"
    profile.write_text('version = 1\nlanguages = ["python", "lua"]\n')
    profile.chmod(0o600)
    refused(file, "NDVI", "profile default does not run c++", "native code in effect")


def test_what_the_commands_say(scene: Any, command: Any, tmp_path: Path, trusted: str) -> None:
    file = scene()
    code = compiled("py", NDVI["py"], tmp_path)
    write(file, code, "NDVI", LIKE, keep_source=True)
    [row] = json.loads(command("udf", "ls", file, "--json").stdout)
    assert (row["path"], row["format"], row["backend"]) == ("/NDVI", "HDF5-UDF 2", "python")
    assert (row["inputs"], row["signer"], row["profile"]) == (["Red", "NIR"], trusted, "default")
    assert "/NDVI\tHDF5-UDF 2, CPython\tfloat 30x40\t" in command("udf", "ls", file).stdout
    shown = command("udf", "show", f"{file}:/NDVI").stdout
    assert "written   by HDF5-UDF" in shown
    assert NDVI["py"].strip() in shown
    assert "class Library" not in shown
    assert command("udf", "show", f"{file}:/NDVI", "--source").stdout.strip() == NDVI["py"].strip()
    assert json.loads(command("udf", "show", f"{file}:/NDVI", "--json").stdout)["source_code"] == code[1]
    told = command("udf", "explain", f"{file}:/NDVI").stdout
    assert "none of its grants" in told
    assert "it sees Red, NIR" in told
    assert "It runs here" in told


def test_who_signed_decides(scene: Any, command: Any, tmp_path: Path, trusted: str) -> None:
    code = compiled("py", NDVI["py"], tmp_path)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"seed": None}, "is not signed"),
        ({"seed": bytes(32)}, "no profile but `untrusted` knows"),
        ({"damage": True}, "is invalid"),
        ({"keep_source": True, "seed": None}, "hyperchunk udf convert"),
        ({"backend": "CUDA"}, "in CUDA, which is not run here"),
        ({"output_resolution": [40, 30]}, "its header (of HDF5-UDF) says [40, 30]"),
        ({"input_datasets": ["Red", "gone"]}, '"gone"'),
        ({"bytecode_size": 1 << 40}, "cut short"),
    ]
    for n, (options, text) in enumerate(cases):
        file = scene(f"{n}.h5")
        write(file, code, "NDVI", LIKE, **options)
        refused(file, "NDVI", text)
    assert command("udf", "verify", tmp_path / "2.h5").returncode == 1
    assert command("udf", "verify", tmp_path / "1.h5").returncode == 3
    assert command("trust", "revoke", trusted).returncode == 0
    file = scene()
    write(file, code, "NDVI", LIKE)
    refused(file, "NDVI", "was revoked")


def test_runtimes_that_do_not_match(scene: Any, tmp_path: Path, trusted: str) -> None:
    backend, source, form = compiled("py", NDVI["py"], tmp_path)
    old = (3413).to_bytes(2, "little") + form[2:]
    cases = [
        (("CPython", source, old), "made by another version of Python"),
        (("CPython", source, b"no code"), "not bytecode of CPython"),
        (("LuaJIT", "", b"\x1bLJ\x01 of LuaJIT 2.0"), "not bytecode of LuaJIT 2.1"),
        (("LuaJIT", "", b"\x1bLJ\x02 damaged"), "lua"),
        (("C++", "", b"not deflated, and a size" + (100).to_bytes(8, "little")), "is damaged"),
        (("C++", "", (1 << 60).to_bytes(8, "little")), "the limit is"),
    ]
    assert old[:4] != importlib.util.MAGIC_NUMBER
    for n, (code, text) in enumerate(cases):
        file = scene(f"{n}.h5")
        write(file, code, "NDVI", LIKE)
        refused(file, "NDVI", text)
    assert backend == "CPython"


def test_several_outputs_and_chains(scene: Any, tmp_path: Path, trusted: str) -> None:
    """Each output runs the whole function; an input may itself be live, of either kind, but not in a cycle."""
    file = scene(x=np.arange(5, dtype="i4"))
    two = TWO + "    for k in range(5):\n        a[k], b[k] = x[k] * 2, x[k] / 2\n"
    code = compiled("py", two, tmp_path)
    # HDF5-UDF's headers also name outputs that are written later.
    write(file, code, "a", np.zeros(5, "i4"), inputs=("x",), scratch=("b",))
    write(file, code, "b", np.zeros(5, "f8"), inputs=("x",), scratch=("a",))
    np.testing.assert_array_equal(values(file, "a"), [0, 2, 4, 6, 8])
    np.testing.assert_array_equal(values(file, "b"), [0, 0.5, 1, 1.5, 2])
    chain = (
        'def dynamic_dataset():\n    a, c = map(lib.getData, "ac")\n    for k in range(5):\n        c[k] = a[k] + 1\n'
    )
    write(file, compiled("py", chain, tmp_path), "c", np.zeros(5, "i4"), inputs=("a",))
    hyperchunk.udf.attach(file, outputs="d", expression="c * 10")
    np.testing.assert_array_equal(values(file, "d"), [10, 30, 50, 70, 90])

    circle = scene("circle.h5", x=np.arange(5, dtype="i4"))
    write(circle, compiled("py", chain, tmp_path), "c", np.zeros(5, "i4"), inputs=("a",))
    write(circle, compiled("py", chain, tmp_path), "a", np.zeros(5, "i4"), inputs=("c",))
    refused(circle, "c", "it reads itself")


def test_renamed_and_copied(scene: Any, tmp_path: Path, trusted: str) -> None:
    """HDF5-UDF looks up the name, in the first file that it finds; here the chunk's contents identify the dataset."""
    file, other = scene(), scene("other.h5", Red=LIKE + 1, NIR=LIKE + 3)
    code = compiled("py", NDVI["py"], tmp_path)
    write(file, code, "NDVI", LIKE, name="renamed")
    write(other, code, "NDVI", LIKE)
    np.testing.assert_array_equal(values(other, "NDVI"), LIKE + 0.5)
    expected = values(file, "renamed")
    assert not np.array_equal(expected, LIKE + 0.5)
    with h5py.File(file) as first, h5py.File(other) as second:
        dataset = second["NDVI"]
        with pytest.raises(OSError, match="compute different values"):
            first["renamed"][...]
        del dataset
    with hyperchunk.open(file) as first, hyperchunk.open(other) as second:
        np.testing.assert_array_equal(second["NDVI"][...], LIKE + 0.5)
        np.testing.assert_array_equal(first["renamed"][...], expected)


def test_strings_and_compounds(scene: Any, tmp_path: Path, trusted: str) -> None:
    sites = np.zeros(6, np.dtype([("Serial number", "i4"), ("Temperature (F)", "f8")], align=True))
    sites["Serial number"], sites["Temperature (F)"] = np.arange(6), np.arange(6) / 3
    names = np.array([f"name{n}" for n in range(6)], "S9")
    file = scene(Sites=sites, Names=names)
    text = """
def dynamic_dataset():
    sites, names, labels = lib.getData("Sites"), lib.getData("Names"), lib.getData("labels")
    for k in range(6):
        lib.setString(labels[k], (lib.string(names[k]) + str(sites[k].serial_number)).encode())
"""
    write(file, compiled("py", text, tmp_path), "labels", np.zeros(6, "S7"), inputs=("Sites", "Names"))
    np.testing.assert_array_equal(values(file, "labels"), [b"name%d%d" % (n, n) for n in range(6)])
    text = """
extern "C" void dynamic_dataset() {
    auto sites = lib.getData<sites_t>("Sites");
    auto hot = lib.getData<double>("hot");
    for (int k = 0; k < 6; k++) hot[k] = sites[k].temperature * 3 + sites[k].serial_number;
}
"""
    declared = "struct sites_t { int serial_number; char _pad0[4]; double temperature; } __attribute__((packed));"
    write(file, compiled("cpp", text, tmp_path, declared), "hot", np.zeros(6), inputs=("Sites",))
    np.testing.assert_allclose(values(file, "hot"), np.arange(6) * 2)


@pytest.mark.parametrize("language", ["lua", "py", "cpp"])
def test_converted(language: str, scene: Any, command: Any, tmp_path: Path) -> None:
    """Converted from the stored source, and signed by the converting user; attributes stay."""
    file = scene()
    write(file, compiled(language, NDVI[language], tmp_path), "NDVI", LIKE, keep_source=True)
    write(file, compiled("py", NDVI["py"], tmp_path), "lost", LIKE)
    texts = np.array(["a", "bcd"], dtype=h5py.string_dtype())
    with h5py.File(file, "r+") as opened:
        opened["NDVI"].attrs.update({"units": "1", "texts": texts, "grid": np.arange(6).reshape(2, 3)})
        opened["NDVI"].attrs["none"] = h5py.Empty("f4")
    before = file.read_bytes()
    assert "would attach NDVI" in command("udf", "convert", f"{file}:/NDVI", "--dry-run").stdout
    assert file.read_bytes() == before

    done = command("udf", "convert", file)
    assert done.returncode == 1
    assert "attached NDVI" in done.stdout
    assert "/lost: its source is not stored" in done.stderr
    assert "1 of 2 datasets" in done.stderr
    with h5py.File(file) as opened:
        red, nir = opened["Red"][...], opened["NIR"][...]
        attributes = dict(opened["NDVI"].attrs)
    np.testing.assert_allclose(values(file, "NDVI"), (nir - red) / (nir + red), rtol=1e-6)
    assert (attributes["units"], list(attributes["texts"])) == ("1", ["a", "bcd"])
    np.testing.assert_array_equal(attributes["grid"], np.arange(6).reshape(2, 3))
    assert isinstance(attributes["none"], h5py.Empty)
    live = hyperchunk.udf.show(file, "NDVI")
    assert live.record["source_code"].strip() == NDVI[language].strip()
    assert (live.profile, live.error) == ("self", None)
    assert command("udf", "convert", f"{file}:/NDVI").returncode == 1


def test_what_cannot_be_converted(scene: Any, command: Any, tmp_path: Path) -> None:
    code = compiled("py", TWO, tmp_path)
    like = np.zeros(5, "i4")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"name": "other"}, "was renamed since"),
        ({"scratch": ("b",)}, 'computes "b", too'),
        ({"scratch": ("x",)}, 'computes "x", too: there is no live dataset of this name'),
        ({"source_code": "def dynamic_dataset(): pass"}, "lacks the text that HDF5-UDF 2 adds"),
        ({"backend": "CUDA"}, "in CUDA"),
    ]
    for n, (options, text) in enumerate(cases):
        file = scene(f"{n}.h5", x=like)
        write(file, code, "a", like, inputs=("x",), keep_source=True, **options)
        before = file.read_bytes()
        done = command("udf", "convert", f"{file}:/{options.get('name', 'a')}")
        assert done.returncode == 1
        assert text in done.stderr
        assert file.read_bytes() == before
