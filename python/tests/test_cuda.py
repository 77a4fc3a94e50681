"""``Dataset.cuda()`` with a driver that emulates the GPU on the processor: the array equals h5py's values."""

import ctypes
import functools
import gc
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import HAS_NVRTC
from fresh import HYPERCHUNK
from hyperchunk.cuda import CudaArray
from hyperchunk.exceptions import FilterError, UnsupportedError
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import ndvi

VARIABLE = "HYPERCHUNK_CUDA_DRIVER"


pytestmark = pytest.mark.usefixtures("cuda")


class Plain(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("kind", ctypes.c_int32),
        ("number", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", Plain), ("owner", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)))


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("owner", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("flags", ctypes.c_uint64),
        ("tensor", Plain),
    )


def pointer(capsule: object, name: bytes) -> int:
    """Returns the pointer in a capsule of this name."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, name))


def check(path: Path, name: str, selection: Any = ...) -> CudaArray:
    """Checks that the array on the GPU equals h5py's values, in native byte order."""
    with h5py.File(path) as file:
        expected = file[name][selection]
    with hyperchunk.open(path) as file:
        found = file[name].cuda(selection)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype.newbyteorder("=")
    assert found.nbytes == expected.nbytes
    np.testing.assert_array_equal(found.to_numpy(), expected)
    return found


NUMBERS = ["i1", "u2", "<i4", ">i4", "u8", "f2", ">f4", "f8", "c8", ">c16"]
SNAPPY = {"chunks": (40, 50), "compression": 32003}
STORED = {
    "contiguous": {},
    "chunks": {"chunks": (40, 50)},
    "deflate": {"chunks": (40, 50), "compression": "gzip", "shuffle": True},
    "fletcher32": {"chunks": (40, 50), "compression": "gzip", "fletcher32": True},
    "lzf": {"chunks": (40, 50), "compression": "lzf", "shuffle": True},
    "snappy": SNAPPY,
    "snappy and shuffle": SNAPPY | {"shuffle": True},
}
# Filters that nvCOMP decompresses, if it is installed.
ON_GPU = ("deflate", "fletcher32", "snappy", "snappy and shuffle")


def numbers(dtype: str, shape: tuple[int, ...] = (100, 130)) -> np.ndarray:
    """Returns numbers of different size and sign."""
    dice = np.random.default_rng(7)
    return (dice.integers(-100, 100, shape) * (1 + np.arange(shape[-1]) % 3)).astype(np.int64).astype(dtype)


@functools.cache
def has_nvcomp() -> bool:
    """Returns whether the GPU decompresses chunks, as reported by `hyperchunk doctor`."""
    done = subprocess.run([HYPERCHUNK, "doctor"], capture_output=True, text=True, check=False)
    return re.search(r"^nvcomp +6\.", done.stdout, re.MULTILINE) is not None


@pytest.mark.parametrize("how", STORED)
@pytest.mark.parametrize("dtype", ["<i4", ">f8", "u1"])
def test_layouts_and_filters(tmp_path: Path, how: str, dtype: str) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("d", data=numbers(dtype), **STORED[how])
    for selection in (
        ...,
        (),
        np.s_[10:20],
        np.s_[39:81, 49:],
        np.s_[5],
        np.s_[5, 7],
        np.s_[::7, 3:100:4],
        np.s_[[1, 40, 99], 5:9],
        np.s_[3:3],
    ):
        check(tmp_path / "f.h5", "d", selection)
    report = check(tmp_path / "f.h5", "d").report
    assert report is not None
    if not has_nvcomp():
        assert report.on_gpu == 0
        return
    # Chunks that did not shrink are stored without their filter.
    assert (report.on_gpu > 0, report.on_cpu > 0) == (how in ON_GPU or (how, dtype) == ("lzf", "u1"), how == "lzf")
    assert report.again == 0
    with hyperchunk.open(tmp_path / "f.h5") as file:
        assert file["d"].cuda(np.s_[::7]).report is None


def test_without_nvcomp(tmp_path: Path) -> None:
    """Without nvCOMP the processor decompresses, with the same values."""
    with h5py.File(tmp_path / "f.h5", "w") as file:
        for how, options in STORED.items():
            file.create_dataset(how, data=numbers(">i4"), **options)
    program = (
        "import sys, hyperchunk, numpy as np\n"
        "for dataset in hyperchunk.open(sys.argv[1]).values():\n"
        "    array = dataset.cuda()\n"
        "    np.testing.assert_array_equal(array.to_numpy(), dataset[...])\n"
        "    assert array.report.on_gpu == 0, array.report\n"
    )
    kept = {name: value for name, value in os.environ.items() if name not in ("HYPERCHUNK_NVCOMP", "HYPERCHUNK_CUFILE")}
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "f.h5")], env=kept, check=True)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_types(tmp_path: Path, dtype: str) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["d"] = numbers(dtype)
        file["scalar"] = numbers(dtype)[3, 4]
        file["empty"] = np.zeros((0, 3), dtype)
    assert check(tmp_path / "f.h5", "d").dtype.isnative
    assert check(tmp_path / "f.h5", "scalar", ()).shape == ()
    assert check(tmp_path / "f.h5", "empty").__cuda_array_interface__["data"] == (0, False)


def test_bool_enumerations_and_arrays(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["bool"] = numbers("i4") > 0
        file.create_dataset("enum", data=[0, 1, 1], dtype=h5py.enum_dtype({"A": 0, "B": 1}, "u2"))
        file.create_dataset("arrays", (3,), np.dtype(("f4", (2, 5))))
        file["arrays"][...] = np.arange(30).reshape(3, 2, 5)
    check(tmp_path / "f.h5", "bool")
    check(tmp_path / "f.h5", "enum")
    assert check(tmp_path / "f.h5", "arrays", np.s_[1:]).shape == (2, 2, 5)


def test_what_has_no_place_on_a_gpu(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["strings"] = ["a", "bc"]
        file["fixed"] = np.array([b"a", b"bc"])
        file["compound"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
        file["long"] = np.zeros(3, np.longdouble)
        file["null"] = h5py.Empty("f4")
    with hyperchunk.open(tmp_path / "f.h5") as file:
        for name in ("strings", "fixed", "compound", "long"):
            with pytest.raises(UnsupportedError, match=f"cannot read /{name} to a GPU"):
                file[name].cuda()
        with pytest.raises(TypeError, match="empty dataset"):
            file["null"].cuda()


def test_fill_values_sparse_virtual_external_and_live(tmp_path: Path, scene: Any, source: Any) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("sparse", (1000, 300), "i4", chunks=(100, 100), fillvalue=-7, compression="gzip")
        file["sparse"][450:460, 120:130] = 1
        file.create_dataset("never", (20, 20), "f4", fillvalue=2.5)
        file.create_dataset("external", data=numbers("f4"), external=[(str(tmp_path / "raw"), 0, h5py.h5f.UNLIMITED)])
        layout = h5py.VirtualLayout((200, 300), "i4")
        layout[:150] = h5py.VirtualSource(".", "sparse", (1000, 300))[400:550]
        file.create_virtual_dataset("virtual", layout, fillvalue=3)
    for name in ("sparse", "never", "virtual"):
        check(tmp_path / "f.h5", name)
        check(tmp_path / "f.h5", name, np.s_[5:15, 3:])
    with hyperchunk.open(tmp_path / "f.h5") as file:
        np.testing.assert_array_equal(file["external"].cuda().to_numpy(), numbers("f4"))
    live = scene()
    hyperchunk.udf.attach(live, source("lua", ndvi("lua")), chunks="auto")
    with hyperchunk.open(live) as file:
        np.testing.assert_array_equal(file["NDVI"].cuda().to_numpy(), file["NDVI"][...])


def test_what_is_larger_than_is_decoded_at_once(tmp_path: Path) -> None:
    """Selections that are no boxes are decoded by the processor, part by part."""
    data = np.arange(20_000_000).reshape(4000, 5000)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("d", data=data, chunks=(700, 5000))
    assert check(tmp_path / "f.h5", "d", np.s_[1::2]).report is None
    assert check(tmp_path / "f.h5", "d", np.s_[:3999:2, 1:]).report is None


def test_a_file_that_is_being_written(tmp_path: Path) -> None:
    with hyperchunk.open(tmp_path / "f.h5", "w") as file:
        file["d"] = numbers("f4")
        np.testing.assert_array_equal(file["d"].cuda().to_numpy(), numbers("f4"))


def test_damage_is_an_error(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        made = file.create_dataset("d", data=numbers("i4"), **SNAPPY)
        made.id.write_direct_chunk((40, 50), b"no snappy at all")
    with hyperchunk.open(tmp_path / "f.h5") as file:
        with pytest.raises(FilterError):
            file["d"].cuda()
        with pytest.raises(IndexError):
            file["d"].cuda(100)


@pytest.fixture
def array(tmp_path: Path) -> Iterator[CudaArray]:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["d"] = np.arange(24, dtype="i2").reshape(2, 3, 4)
    with hyperchunk.open(tmp_path / "a.h5") as file:
        yield file["d"].cuda()


def elements(tensor: Plain) -> np.ndarray:
    """Returns a tensor's elements, read as another library that uses the driver would."""
    library, context, device = ctypes.CDLL(str(hyperchunk.cuda.driver()[0])), ctypes.c_void_p(), ctypes.c_int()
    assert library.cuDeviceGet(ctypes.byref(device), tensor.number) == 0
    assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert library.cuCtxSetCurrent(context) == 0
    shape = [tensor.shape[axis] for axis in range(tensor.ndim)]
    out = np.empty(shape, {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}[tensor.code] + str(tensor.bits // 8))
    place, size = ctypes.c_void_p(out.ctypes.data), ctypes.c_size_t(out.nbytes)
    assert library.cuMemcpyDtoHAsync_v2(place, ctypes.c_uint64(tensor.data), size, ctypes.c_void_p()) == 0
    assert library.cuCtxSynchronize() == 0
    return out


class Counts(ctypes.Structure):
    """Counters of the test driver."""

    NAMES = (
        "allocations bytes peak pinned streams events modules launches up down direct decompressed mistakes "
        "taken created imported shared"
    )
    _fields_ = tuple((name, ctypes.c_uint64) for name in NAMES.split())


def counts(driver: Path) -> Counts:
    """Returns the counters of this process."""
    found = Counts()
    get = ctypes.CDLL(str(driver)).hyperchunk_fake_counts
    get.restype, get.argtypes = ctypes.c_bool, [ctypes.c_void_p, ctypes.c_size_t]
    assert get(ctypes.addressof(found), ctypes.sizeof(found)), "the driver counts something else"
    return found


def test_dlpack(array: CudaArray) -> None:
    assert array.__dlpack_device__() == (2, 0)
    capsule = array.__dlpack__()
    tensor = Managed.from_address(pointer(capsule, b"dltensor")).tensor
    assert (tensor.kind, tensor.number, tensor.ndim, tensor.lanes, tensor.offset) == (2, 0, 3, 1, 0)
    assert [tensor.strides[axis] for axis in range(3)] == [12, 4, 1]
    assert tensor.data == array.__cuda_array_interface__["data"][0]
    np.testing.assert_array_equal(elements(tensor), array.to_numpy())
    versioned = array.__dlpack__(stream=-1, max_version=(1, 0), dl_device=(2, 0), copy=False)
    managed = Versioned.from_address(pointer(versioned, b"dltensor_versioned"))
    assert (managed.major, managed.flags, managed.tensor.data) == (1, 0, tensor.data)
    copied = array.__dlpack__(max_version=(1, 1), copy=True)
    managed = Versioned.from_address(pointer(copied, b"dltensor_versioned"))
    assert managed.flags == 2
    assert managed.tensor.data != tensor.data
    np.testing.assert_array_equal(elements(managed.tensor), array.to_numpy())
    with pytest.raises(BufferError, match="is on GPU 0"):
        array.__dlpack__(dl_device=(2, 1))


def test_numpy_gets_a_copy_if_it_asks_for_one(array: CudaArray) -> None:
    np.testing.assert_array_equal(np.from_dlpack(array, device="cpu"), array.to_numpy())
    with pytest.raises(BufferError, match="without a copy"):
        np.from_dlpack(array, device="cpu", copy=False)


def test_interface(array: CudaArray) -> None:
    found = array.__cuda_array_interface__
    assert (found["shape"], found["typestr"], found["strides"], found["version"]) == ((2, 3, 4), "<i2", None, 3)
    assert (len(array), array.ndim, array.size, array.device) == (2, 3, 24, 0)
    assert repr(array) == "<CudaArray shape (2, 3, 4), dtype int16, GPU 0>"


def test_memory_lives_as_long_as_somebody_has_it(tmp_path: Path, fake_cuda: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["d"] = numbers("f4")
    gc.collect()
    before = counts(fake_cuda).allocations
    with hyperchunk.open(tmp_path / "f.h5") as file:
        array = file["d"].cuda()
    assert counts(fake_cuda).allocations == before + 1
    unused, taken = array.__dlpack__(), array.__dlpack__(max_version=(1, 0))
    managed = Versioned.from_address(pointer(taken, b"dltensor_versioned"))
    # As a consuming library does.
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = b"used_dltensor_versioned"
    assert rename(taken, name) == 0
    del array, unused, taken
    gc.collect()
    assert counts(fake_cuda).allocations == before + 1
    np.testing.assert_array_equal(elements(managed.tensor), numbers("f4"))
    managed.deleter(ctypes.addressof(managed))
    assert counts(fake_cuda).allocations == before


def fails(path: Path, environment: dict[str, str]) -> str:
    """Returns the error of `Dataset.cuda()` in a fresh process."""
    program = "import sys, hyperchunk; hyperchunk.open(sys.argv[1])['d'].cuda()"
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_without_a_driver_or_a_gpu(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["d"] = np.arange(3)
    if not Path("/dev/nvidiactl").exists():
        assert fails(tmp_path / "f.h5", {}).startswith("hyperchunk.exceptions.CudaError: no GPU can be used")
    missing = fails(tmp_path / "f.h5", {VARIABLE: "/nowhere/libcuda.so.1"})
    assert "/nowhere/libcuda.so.1" in missing
    with hyperchunk.open(tmp_path / "f.h5") as file, pytest.raises(hyperchunk.exceptions.CudaError, match="no GPU 9"):
        file["d"].cuda(device=9)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_byte_orders_are_turned_on_the_gpu(tmp_path: Path, dtype: str) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("d", data=numbers(dtype), chunks=(30, 40))
    assert check(tmp_path / "f.h5", "d").report is not None


def test_devices(fake_cuda: Path) -> None:
    (gpu, *_) = hyperchunk.cuda.devices()
    assert gpu.memory > 0
    assert len(gpu.uuid) == 16
    path, version = hyperchunk.cuda.driver()
    assert path == fake_cuda
    assert version >= (11, 0)


def test_doctor(fake_cuda: Path) -> None:
    done = subprocess.run([HYPERCHUNK, "doctor"], capture_output=True, text=True, check=False)
    assert re.search(rf"^cuda +\d+\.\d+ {fake_cuda}$", done.stdout, re.MULTILINE)
    assert re.search(r"^gpu +0: .*, sm_\d+, [\d.]+ GiB, GPU-[-0-9a-f]{36}$", done.stdout, re.MULTILINE)
    assert re.search(rf"^nvcomp +6\.\d+ {fake_cuda}, for Snappy, LZ4, deflate, zstd$", done.stdout, re.MULTILINE)
    assert re.search(rf"^cufile +.*{fake_cuda}, ", done.stdout, re.MULTILINE)
    assert re.search(r"^nvrtc +\d" if HAS_NVRTC else r"^nvrtc +none", done.stdout, re.MULTILINE)
    environment = os.environ | {VARIABLE: "/nowhere/libcuda.so.1"}
    done = subprocess.run([HYPERCHUNK, "doctor"], env=environment, capture_output=True, text=True, check=False)
    assert re.search(r"^cuda +none: .*/nowhere/libcuda", done.stdout, re.MULTILINE)
    environment = os.environ | {"HYPERCHUNK_FAKE_CUDA": "devices=0"}
    done = subprocess.run([HYPERCHUNK, "doctor"], env=environment, capture_output=True, text=True, check=False)
    assert re.search(r"^(cuda|gpu) +none", done.stdout, re.MULTILINE)


def test_failures_of_the_gpu(tmp_path: Path, fake_cuda: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["d"] = np.arange(3)
    environment = os.environ | {"HYPERCHUNK_FAKE_CUDA": "out_of_memory=1"}
    assert fails(tmp_path / "f.h5", environment).startswith("hyperchunk.exceptions.LimitError")
    environment = os.environ | {"HYPERCHUNK_FAKE_CUDA": "devices=0"}
    assert fails(tmp_path / "f.h5", environment).startswith("hyperchunk.exceptions.CudaError")


def test_a_fork_is_told(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["d"] = np.arange(3)
    program = (
        "import os, sys, hyperchunk\n"
        "d = hyperchunk.open(sys.argv[1])['d']\n"
        "array = d.cuda()\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        d.cuda()\n"
        "    except hyperchunk.exceptions.UnsupportedError as error:\n"
        "        os._exit('fork' in str(error))\n"
        "    os._exit(2)\n"
        "assert os.waitstatus_to_exitcode(os.wait()[1]) == 1\n"
        "assert array.to_numpy().tolist() == [0, 1, 2]\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "f.h5")], check=True)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_box(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=4)))
    chunk = tuple(data.draw(st.integers(1, length)) for length in shape)
    how = data.draw(st.sampled_from([{}, {"chunks": chunk}, SNAPPY | {"chunks": chunk, "shuffle": True}]))
    bounds = [sorted(data.draw(st.tuples(st.integers(0, length), st.integers(0, length)))) for length in shape]
    path = tmp_path_factory.mktemp("box") / "f.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("d", data=numbers(data.draw(st.sampled_from(["u1", ">i2", "<f8"])), shape), **how)
    check(path, "d", tuple(slice(*pair) for pair in bounds))


def measured(environment: dict[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs ``bench/gpu.py``."""
    program = Path(__file__).resolve().parents[2] / "bench" / "gpu.py"
    command = [sys.executable, program, "--sizes", "32", "--rounds", "1", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is missing: pip install nvidia-cuda-nvrtc-cu12")
def test_the_program_that_measures(fake_cuda: Path) -> None:
    """The benchmark compares the GPU's results with the processor's."""
    done = measured(dict(os.environ), "--driver", fake_cuda)
    assert done.returncode == 0, done.stderr
    assert "the figures mean nothing" in done.stdout
    for title in ("int32, contiguous", "int32, Snappy", "float32, contiguous", "float32, Snappy"):
        assert f"### {title}" in done.stdout


def test_nothing_is_measured_without_a_gpu() -> None:
    done = measured(os.environ | {VARIABLE: "/nowhere/libcuda.so.1"}, "--no-page")
    assert done.returncode == 2
    assert "There is no GPU here" in done.stderr
