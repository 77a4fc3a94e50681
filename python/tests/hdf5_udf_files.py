"""Files in the format of HDF5-UDF 2.1: its framing, around functions that tests compile.

The prelude texts before a function are ours; they use HDF5-UDF's names, by which a compiled form is entered.
"""

import base64
import hashlib
import importlib.util
import json
import marshal
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hostile import ed25519

SEED = hashlib.sha256(b"the author of old files").digest()

LUA = """local lib = {}
function init(library)
    lib.library = library
    error("whoever runs it here has another way in")
end

-- User-Defined Function

"""
PYTHON = """class Library:
    def getData(self, name):
        raise RuntimeError("nobody loaded it")


lib = Library()

# User-Defined Function

"""
CPP = """#include <stdio.h>
#include <string.h>
#include <string>
#include <vector>
std::vector<void *> hdf5_udf_data;
std::vector<const char *> hdf5_udf_names;
std::vector<const char *> hdf5_udf_types;
std::vector<std::vector<size_t>> hdf5_udf_dims;
const char *hdf5_file_path;
struct UserDefinedLibrary {
    size_t find(const char *name) {
        for (size_t i = 0; i < hdf5_udf_names.size(); i++)
            if (!strcmp(name, hdf5_udf_names[i])) return i;
        return 0;
    }
    template <class T> T *getData(const char *name) { return static_cast<T *>(hdf5_udf_data[find(name)]); }
    const char *getType(const char *name) { return hdf5_udf_types[find(name)]; }
    std::vector<size_t> getDims(const char *name) { return hdf5_udf_dims[find(name)]; }
    const char *getFilePath() { return hdf5_file_path; }
} lib;
DECLARATIONS
// User-Defined Function

"""


def compiled(language: str, text: str, folder: Path, declarations: str = "") -> tuple[str, str, bytes]:
    """Returns the back end's name, the whole source, and the compiled form."""
    if language == "py":
        source = PYTHON + text
        header = importlib.util.MAGIC_NUMBER + bytes(12)
        return "CPython", source, header + marshal.dumps(compile(source, "udf.py", "exec"))
    if language == "lua":
        if not (luajit := shutil.which("luajit")):
            pytest.skip("needs luajit")
        source = LUA + text
        (folder / "udf.lua").write_text(source)
        subprocess.run([luajit, "-b", "udf.lua", "udf.luac"], cwd=folder, check=True)
        return "LuaJIT", source, (folder / "udf.luac").read_bytes()
    if not (compiler := shutil.which("g++")):
        pytest.skip("needs g++")
    source = CPP.replace("DECLARATIONS", declarations) + text
    (folder / "udf.cpp").write_text(source)
    words = [compiler, "-Os", "-s", "-rdynamic", "-fPIC", "-shared", "-std=c++14", "-o", "udf.so", "udf.cpp"]
    subprocess.run(words, cwd=folder, check=True)
    shared = (folder / "udf.so").read_bytes()
    return "C++", source, zlib.compress(shared) + struct.pack("<Q", len(shared))


def write(
    path: Path,
    code: tuple[str, str, bytes],
    output: str,
    like: Any,
    *,
    inputs: tuple[str, ...] = ("Red", "NIR"),
    scratch: tuple[str, ...] = (),
    seed: bytes | None = SEED,
    keep_source: bool = False,
    name: str | None = None,
    damage: bool = False,
    **changes: Any,
) -> None:
    """Adds a dataset of the shape and type of ``like``, with one chunk that holds a header and a compiled form."""
    backend, source, form = code
    like = np.asarray(like)
    kind = {"f": "float" if like.dtype.itemsize == 4 else "double", "S": "string", "V": "compound"}
    datatype = kind.get(like.dtype.kind) or like.dtype.name
    signature = None
    blob = form
    if seed is not None:
        key = base64.b64encode(ed25519.public_key(seed)).decode()
        signature = {"email": "ada@example.org", "name": "Ada", "public_key": key}
        blob = ed25519.sign(seed, form) + form
    if damage:
        blob = blob[:-1] + bytes([blob[-1] ^ 1])
    header = {
        "api_version": 2, "backend": backend, "bytecode_size": len(blob), "input_datasets": list(inputs),
        "output_dataset": output, "output_datatype": datatype, "output_resolution": list(like.shape),
        "scratch_datasets": list(scratch), "source_code": source if keep_source else "",
        **({"signature": signature} if signature else {}),
    } | changes  # fmt: skip
    with h5py.File(path, "r+") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(like.shape)
        plist.set_filter(31300, h5py.h5z.FLAG_MANDATORY, ())
        space = h5py.h5s.create_simple(like.shape)
        datatype_id = h5py.h5t.py_create(like.dtype, logical=True)
        dataset = h5py.h5d.create(file.id, (name or output).encode(), datatype_id, space, plist)
        dataset.write_direct_chunk((0,) * like.ndim, json.dumps(header).encode() + b"\0" + blob)


def key_file(folder: Path, seed: bytes = SEED) -> Path:
    """Writes a public key in HDF5-UDF's format."""
    path = folder / "ada.pub"
    key = base64.b64encode(ed25519.public_key(seed)).decode()
    path.write_text(json.dumps({"name": "Ada", "email": "ada@example.org", "public_key": key}))
    return path
