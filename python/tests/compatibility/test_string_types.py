"""HDF5 types of computed strings: C's and HDF5-UDF's, which every reader can convert; UTF-8 on request."""

import shutil
import struct
import subprocess
from pathlib import Path

import h5py
import hyperchunk
import pytest
from fresh import environment

from compatibility.inputs import both, run

SOURCE = """
def dynamic_dataset():
    out = lib.getData("out")
    for n in range(3):
        lib.setString(out[n], "label %d" % n)
"""
COMPOUND = """
def dynamic_dataset():
    out = lib.getData("out")
    for n in range(3):
        out[n].id = n
        lib.setString(out[n].name, "label %d" % n)
        lib.setString(out[n].text, "überall %d" % n)
"""


def text_types(file: Path) -> list[tuple[int, int]]:
    """Returns padding and character set of the strings of /out: 0 is null-terminated, and ASCII."""
    with h5py.File(file) as opened:
        kind = opened["out"].id.get_type()
        kinds = [kind] if not isinstance(kind, h5py.h5t.TypeCompoundID) else []
        kinds += [] if kinds else [kind.get_member_type(n) for n in range(kind.get_nmembers())]
        return [(k.get_strpad(), k.get_cset()) for k in kinds if isinstance(k, h5py.h5t.TypeStringID)]


def test_strings_are_those_of_c(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    run(tmp_path, file, "py", SOURCE, "out:3:string(16)")
    assert text_types(file) == [(0, 0)]
    assert both(file, "out").tolist() == [b"label 0", b"label 1", b"label 2"]
    run(tmp_path, file, "py", SOURCE, "out:3:string(16,utf8)", overwrite=True)
    assert text_types(file) == [(0, 1)]
    assert both(file, "out").tolist() == [b"label 0", b"label 1", b"label 2"]
    with h5py.File(file) as opened:
        assert opened["out"].asstr()[...].tolist() == ["label 0", "label 1", "label 2"]


def test_members_of_compounds(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    run(tmp_path, file, "py", COMPOUND, "out:{id:int32,name:string(16),text:string(20,utf8)}:3")
    assert text_types(file) == [(0, 0), (0, 1)]
    assert both(file, "out")["name"].tolist() == [b"label 0", b"label 1", b"label 2"]
    assert [text.decode() for text in both(file, "out")["text"].tolist()] == [f"überall {n}" for n in range(3)]


def test_values_that_fill_the_string(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    run(tmp_path, file, "py", SOURCE, "out:3:string(7)")
    assert both(file, "out").tolist() == [b"label 0", b"label 1", b"label 2"]


READER = r"""
#include <hdf5.h>
#include <stdio.h>
int main(void) {
    static char text[3][16];
    hid_t data = H5Dopen(H5Fopen("a.h5", H5F_ACC_RDONLY, H5P_DEFAULT), "out", H5P_DEFAULT), type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, 16);
    if (H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) < 0) return 1;
    printf("%s\n%s\n", text[0], text[2]);
    return 0;
}
"""


@pytest.mark.skipif(not shutil.which("h5cc") or not shutil.which("h5dump"), reason="libhdf5-dev and hdf5-tools")
def test_idiom_of_c_and_h5dump(tmp_path: Path, config: Path) -> None:
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    run(tmp_path, file, "py", SOURCE, "out:3:string(16)")
    (tmp_path / "read.c").write_text(READER, encoding="utf-8")
    subprocess.run(["h5cc", "-shlib", "-o", "read", "read.c"], cwd=tmp_path, check=True, capture_output=True)
    env = environment(config)
    done = subprocess.run(["./read"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "label 0\nlabel 2\n"), done.stderr
    dump = ["h5dump", "-A", "0", "-d", "out", "a.h5"]
    done = subprocess.run(dump, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert '(0): "label 0", "label 1", "label 2"' in done.stdout


def lookup3(data: bytes) -> int:
    """Bob Jenkins' hash, the checksum of HDF5 metadata."""

    def turned(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & 0xFFFFFFFF

    a = b = c = 0xDEADBEEF + len(data) & 0xFFFFFFFF
    blocks = [data[at : at + 12] for at in range(0, len(data), 12)]
    for number, block in enumerate(blocks, 1):
        parts = struct.unpack("<3I", block.ljust(12, b"\0"))
        a, b, c = ((value + part) & 0xFFFFFFFF for value, part in zip((a, b, c), parts, strict=True))
        if number < len(blocks):
            for by in (4, 6, 8, 16, 19, 4):
                a, c = (a - c) & 0xFFFFFFFF ^ turned(c, by), (c + b) & 0xFFFFFFFF
                a, b, c = b, c, a
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - turned(b, by)) & 0xFFFFFFFF
        a, b, c = b, c, a
    return b


def seal(content: bytearray, header: int) -> None:
    """Updates the checksum of an object header of version 2."""
    flags = content[header + 5]
    at = header + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    end = at + width + int.from_bytes(content[at : at + width], "little")
    content[end : end + 4] = lookup3(bytes(content[header:end])).to_bytes(4, "little")


@pytest.mark.parametrize(("padding", "charset", "works"), [(1, 1, True), (1, 0, True), (0, 1, True), (2, 0, False)])
@pytest.mark.parametrize("compound", [False, True])
def test_strings_as_they_once_were_made(
    padding: int, charset: int, works: bool, compound: bool, tmp_path: Path
) -> None:
    """Files with UTF-8 and null-padded strings are read as before; space padding would expose zeros."""
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    output = "out:{id:int32,name:string(16),b:bool}:3" if compound else "out:3:string(16)"
    source = SOURCE.replace("out[n]", "out[n].name") if compound else SOURCE
    run(tmp_path, file, "py", source, output)
    # Datatype message of a string: version and class, padding and character set, size.
    now, then = (bytes([0x13, kind, 0, 0]) + (16).to_bytes(4, "little") for kind in (0, padding | charset << 4))
    content = bytearray(file.read_bytes())
    assert content.count(now) == 1
    at = content.index(now)
    content[at : at + len(now)] = then
    seal(content, content.rindex(b"OHDR", 0, at))
    file.write_bytes(content)
    if not compound:
        assert text_types(file) == [(padding, charset)]
    if works:
        values = both(file, "out")
        assert (values["name"] if compound else values).tolist() == [b"label 0", b"label 1", b"label 2"]
        return
    for opener in (h5py.File, hyperchunk.open):
        with opener(file) as opened, pytest.raises(OSError, match=r"another byte order or layout|its record says"):
            opened["out"][...]
