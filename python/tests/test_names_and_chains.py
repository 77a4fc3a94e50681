"""Names in a file, the distinction of inputs and outputs, and live datasets that read live datasets."""

import hashlib
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import WITH_CUDA
from fresh import failure, read
from hyperchunk.exceptions import ExistsError, NotFoundError, UdfSyntaxError, UnsupportedError
from programs import LANGUAGES, elementwise

A = np.arange(6, dtype="f4").reshape(2, 3)
NAMES = ["/group/out", "group/out", "a.b.c", "with space", "Ünïcode-名", "deep/er/out", "a(b)[c]", "x-y_z"]


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_names_of_inputs_and_outputs(name: str, scene: Any, attach: Any) -> None:
    """HDF5-UDF splits names at brackets, and strings in groups; here they are used unchanged."""
    file = scene(**{"group/a": A, "deep/er/a": A, f"{name} in": A})
    for language in LANGUAGES:
        output = f"{name} {language}"
        attach(file, language, elementwise(language, "a[i] + 1", output, [f"{name} in"]))
        np.testing.assert_array_equal(read(file, output), A + 1)


def test_the_group_of_an_output_must_exist(scene: Any, attach: Any) -> None:
    file = scene(a=A)
    with pytest.raises(hyperchunk.HyperchunkError, match="group"):
        attach(file, "lua", elementwise("lua", "a[i]", "nowhere/out", ["a"]))
    with h5py.File(file) as opened:
        assert list(opened) == ["a"]


def test_spellings_of_one_dataset(scene: Any, attach: Any) -> None:
    """A source may use both /a and a for one dataset."""
    file = scene(**{"g/a": A})
    text = """
function dynamic_dataset()
    local a, b, out = lib.getData("g/a"), lib.getData("/g/a"), lib.getData("/out")
    for i = 1, 6 do out[i] = a[i] + b[i] end
end
"""
    [record] = attach(file, "lua", text)
    assert record["input_datasets"] == ["g/a"]
    np.testing.assert_array_equal(read(file, "out"), 2 * A)


INFERENCE: list[tuple[str, tuple[str, ...], type[Exception], str]] = [
    # the source, the descriptions, the error, its text
    ("", (), UdfSyntaxError, "names no dataset"),
    ("a b", (), UdfSyntaxError, "nothing to compute"),
    ("a wide out", (), UdfSyntaxError, "inputs differ .*a:2x3:float, wide:2x3:double"),
    ("a long out", (), UdfSyntaxError, "inputs differ"),
    ("out", (), UdfSyntaxError, "no inputs to copy dimensions and type from"),
    ("a out other", ("out",), UdfSyntaxError, '"other" is neither in the file nor described'),
    ("a b", ("Out",), UdfSyntaxError, 'does not use the described dataset "Out"; it uses "a", "b"'),
    ("a out", ("out", "/out"), UdfSyntaxError, "described twice"),
    ("a out", ("out:2x3",), UdfSyntaxError, "the type is missing"),
    ("a out", ("out:float",), UdfSyntaxError, "the resolution is missing"),
    ("a out", ("out:float:2x3",), UdfSyntaxError, "comes before the type"),
    ("a out", ("out:2x3:float32",), UdfSyntaxError, "unknown type|types are"),
    ("a out", ("out:2X3:float",), UdfSyntaxError, "not a resolution"),
    ("a out", ("out:0x3:float",), UdfSyntaxError, "dimension is 0"),
    ("a out", (":2x3:float",), UdfSyntaxError, "no name"),
    ("a out", ("out:" + "x".join(["2"] * 33) + ":float",), UdfSyntaxError, "more than 32 dimensions"),
    ("a out", ("out:9999999999x9999999999:float",), UdfSyntaxError, "too many"),
    ("a out", ("out:2x3:string(*)",), UnsupportedError, "strings of variable length"),
]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_cannot_be_inferred_is_said(language: str, scene: Any, attach: Any) -> None:
    file = scene(a=A, b=A, wide=A.astype("f8"), long=np.arange(9, dtype="f4"))
    before = digest(file)
    if language == "cpp":
        program = 'extern "C" void dynamic_dataset() {{ {} }}'
    elif language == "lua":
        program = "function dynamic_dataset() {} end"
    else:
        program = "def dynamic_dataset():\n    pass; {}"
    call = {"cpp": 'lib.getDims("{}");', "lua": 'lib.getDims("{}");', "py": 'lib.getDims("{}");'}[language]
    call = call.replace("getDims", "getData<float>" if language == "cpp" else "getData")
    for names, outputs, error, message in INFERENCE:
        text = program.format(" ".join(call.format(n) for n in names.split()))
        with pytest.raises(error, match=message):
            attach(file, language, text, *outputs)
    assert digest(file) == before


def test_dimensions_and_types_are_copied_from_the_inputs(scene: Any, attach: Any) -> None:
    for kind in ("i2", "u8", "f8", ">f4"):
        file = scene(f"{kind[-2:]}.h5", a=A.astype(kind), b=A.astype(kind))
        attach(file, "lua", elementwise("lua", "a[i] + b[i]", inputs=["a", "b"]))
        got = read(file, "out")
        assert got.dtype == np.dtype(kind).newbyteorder("=")
        np.testing.assert_array_equal(got, 2 * A)


def test_a_description_that_gives_all_needs_no_inputs_that_agree(scene: Any, attach: Any) -> None:
    file = scene(a=A, long=np.arange(9, dtype="f8"))
    attach(file, "lua", elementwise("lua", "b[3 - i + 1] + a[1]", inputs=["a", "long"]), "out:3:uint8")
    assert read(file, "out").tolist() == [2, 1, 0]


@pytest.mark.parametrize("language", LANGUAGES)
def test_several_outputs_of_one_source(language: str, scene: Any, attach: Any) -> None:
    file = scene(a=A)
    texts = {
        "py": """
def dynamic_dataset():
    a, plus, minus = lib.getData("a"), lib.getData("plus"), lib.getData("minus")
    for i in range(len(a)):
        plus[i], minus[i] = a[i] + 1, a[i] - 1
""",
        "lua": """
function dynamic_dataset()
    local a, plus, minus = lib.getData("a"), lib.getData("plus"), lib.getData("minus")
    for i = 1, 6 do plus[i], minus[i] = a[i] + 1, a[i] - 1 end
end
""",
        "cpp": """
extern "C" void dynamic_dataset() {
    auto a = lib.getData<float>("a"), plus = lib.getData<float>("plus"), minus = lib.getData<float>("minus");
    for (int i = 0; i < 6; i++) { plus[i] = a[i] + 1; minus[i] = a[i] - 1; }
}
""",
    }
    records = attach(file, language, texts[language])
    assert [r["output_dataset"] for r in records] == ["plus", "minus"]
    assert [r["scratch_datasets"] for r in records] == [["minus"], ["plus"]]
    np.testing.assert_array_equal(read(file, "plus"), A + 1)
    np.testing.assert_array_equal(read(file, "minus"), A - 1)


@pytest.mark.parametrize("outer", LANGUAGES)
@pytest.mark.parametrize("inner", LANGUAGES)
def test_live_datasets_that_read_live_datasets(inner: str, outer: str, scene: Any, attach: Any) -> None:
    file = scene(a=A)
    attach(file, inner, elementwise(inner, "a[i] + 1", "middle", ["a"]), chunks="1x3")
    attach(file, outer, elementwise(outer, "a[i] * 10 + b[i]", "out", ["middle", "a"]), chunks="2x2")
    np.testing.assert_array_equal(read(file, "out"), (A + 1) * 10 + A)
    np.testing.assert_array_equal(read(file, "out", np.s_[1, 2]), 65)


def chain(file: Path, attach: Any, length: int) -> None:
    for n in range(length):
        language = ("py", "lua")[n % 2]
        attach(file, language, elementwise(language, "a[i] + 1", f"d{n + 1}", [f"d{n}"]))


def test_the_limit_on_the_depth_of_chains(scene: Any, attach: Any, config: Path) -> None:
    file = scene(d0=A)
    chain(file, attach, 9)
    np.testing.assert_array_equal(read(file, "d8"), A + 8)
    failure(file, "d9")
    # A user may allow a deeper chain, or a shorter one.
    folder = config / "hyperchunk" / "profiles" / "self"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "profile.toml").write_text("version = 1\n[limits]\nchain_depth = 9\n")
    np.testing.assert_array_equal(read(file, "d9"), A + 9)
    (folder / "profile.toml").write_text("version = 1\n[limits]\nchain_depth = 2\n")
    np.testing.assert_array_equal(read(file, "d2"), A + 2)
    assert "more than 2" in failure(file, "d3")


def circles(scene: Any, attach: Any) -> list[tuple[Path, str]]:
    """Two live datasets that read each other, and one that reads itself."""
    two, one = scene("two.h5", b=A), scene("one.h5", y=A)
    attach(two, "lua", elementwise("lua", "a[i]", "x", ["b"]))
    attach(two, "py", elementwise("py", "a[i]", "b", ["x"]), "b", overwrite=True)
    attach(one, "lua", elementwise("lua", "a[i]", "z", ["y"]))
    with h5py.File(one, "r+") as opened:
        del opened["y"]
        opened["y"] = h5py.SoftLink("/z")
    return [(two, "x"), (two, "b"), (one, "z")]


def test_a_circle_is_an_error(scene: Any, attach: Any) -> None:
    for file, name in circles(scene, attach):
        failure(file, name)


def test_a_circle_is_called_one(scene: Any, attach: Any) -> None:
    for file, name in circles(scene, attach):
        assert "form a cycle" in failure(file, name)


def test_a_taken_name_is_an_error_without_overwrite(scene: Any, attach: Any) -> None:
    file = scene(a=A, out=np.zeros(3))
    before = digest(file)
    text = elementwise("lua", "a[i] + 1", inputs=["a"])
    with pytest.raises(ExistsError, match="overwrite"):
        attach(file, "lua", text, "out")
    assert digest(file) == before
    attach(file, "lua", text, "out", overwrite=True)
    np.testing.assert_array_equal(read(file, "out"), A + 1)
    with pytest.raises(ExistsError):
        attach(file, "py", elementwise("py", "a[i] + 2", inputs=["a"]), "out")
    np.testing.assert_array_equal(read(file, "out"), A + 1)
    attach(file, "py", elementwise("py", "a[i] + 2", inputs=["a"]), "out", overwrite=True)
    np.testing.assert_array_equal(read(file, "out"), A + 2)


def test_a_failed_overwrite_leaves_the_old_dataset(scene: Any, attach: Any) -> None:
    file = scene(a=A)
    attach(file, "lua", elementwise("lua", "a[i] + 1", inputs=["a"]))
    with pytest.raises(hyperchunk.exceptions.UdfError):
        attach(file, "lua", 'function dynamic_dataset( lib.getData("out") end', "out:2:float", overwrite=True)
    with pytest.raises(UdfSyntaxError):
        attach(file, "lua", elementwise("lua", "1"), "out:2:float", overwrite=True, chunks="1x1")
    np.testing.assert_array_equal(read(file, "out"), A + 1)


@pytest.mark.parametrize("language", WITH_CUDA)
def test_a_dry_run_writes_nothing(language: str, scene: Any, attach: Any) -> None:
    """HDF5-UDF has no dry run."""
    file = scene(a=A)
    before = digest(file), file.stat().st_mtime_ns
    [record] = attach(file, language, elementwise(language, "a[i]", inputs=["a"]), dry_run=True)
    assert (record["output_dataset"], record["output_resolution"]) == ("out", [2, 3])
    assert (digest(file), file.stat().st_mtime_ns) == before
    with pytest.raises(ExistsError):
        attach(file, language, elementwise(language, "1", "a"), "a:3:float", dry_run=True)


def test_a_file_or_source_that_is_not_there(scene: Any, attach: Any, tmp_path: Path) -> None:
    file = scene()
    with pytest.raises(NotFoundError, match="no such file"):
        attach(tmp_path / "none.h5", "lua", elementwise("lua", "1"), "out:3:float")
    with pytest.raises(NotFoundError, match="no such source"):
        hyperchunk.udf.attach(file, tmp_path / "none.lua")
    with pytest.raises(UnsupportedError, match="extension"):
        attach(file, "txt", "x")
    with pytest.raises(hyperchunk.HyperchunkError):
        hyperchunk.udf.attach(tmp_path, tmp_path / "none.lua")
    not_hdf5 = tmp_path / "text.h5"
    not_hdf5.write_text("no HDF5")
    with pytest.raises(hyperchunk.HyperchunkError, match=r"text\.h5"):
        attach(not_hdf5, "lua", elementwise("lua", "1"), "out:3:float")


def test_ls_show_and_rm(scene: Any, attach: Any) -> None:
    file = scene(**{"g/a": A})
    attach(file, "lua", elementwise("lua", "a[i]", "g/out", ["g/a"]))
    attach(file, "py", elementwise("py", "a[i]", "first", ["g/out"]), chunks="1x3", unsigned=True)
    first, out = hyperchunk.udf.ls(file)
    assert (first.path, out.path) == ("/first", "/g/out")
    assert (first.signer, first.profile, first.error) == (None, "untrusted", None)
    assert (out.profile, out.error) == ("self", None)
    assert out.signer is not None
    assert out.signer.startswith("SHA256:")
    assert 0 < out.stub_bytes <= 128
    assert first.stub_bytes == 2 * out.stub_bytes
    assert hyperchunk.udf.show(file, "g/out") == out
    assert out.record["source_code"] == elementwise("lua", "a[i]", "g/out", ["g/a"])
    with pytest.raises(NotFoundError):
        hyperchunk.udf.show(file, "g/a")
    with pytest.raises(NotFoundError):
        hyperchunk.udf.rm(file, "g/a")
    hyperchunk.udf.rm(file, "g/out")
    assert [live.path for live in hyperchunk.udf.ls(file)] == ["/first"]
    assert 'input "g/out"' in failure(file, "first")


@pytest.mark.parametrize("depth", [3, 9])
def test_the_reason_at_the_end_of_a_chain_is_told(depth: int, scene: Any, attach: Any) -> None:
    file = scene(d0=A)
    chain(file, attach, depth)
    with h5py.File(file, "r+") as opened:
        del opened["d0"]
    reason = failure(file, f"d{depth}")
    assert 'input "d0"' in reason or "more than 8" in reason
