"""Datasets in the memory of a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hyperchunk import _core, selections, values
from hyperchunk.dtypes import Description, Dtype
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.values import Array

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset

# The kinds of devices of DLPack.
_CPU, _CUDA = 1, 2
_KINDS = {"i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16), "b": (1,)}


class Device(NamedTuple):
    """A GPU."""

    #: What NVIDIA calls it.
    name: str
    #: Its compute capability: ``(9, 0)`` is sm_90.
    capability: tuple[int, int]
    #: Its memory, in bytes.
    memory: int
    #: What identifies it on all machines.
    uuid: bytes


def devices() -> list[Device]:
    """The GPUs that this process may use; their numbers are their places in the list.

    Raises:
        CudaError: NVIDIA's driver is missing, or finds no GPU.
    """
    return [Device(*found) for found in _core.cuda_devices()]


def driver() -> tuple[Path, tuple[int, int]]:
    """The file of NVIDIA's driver, and the newest version of CUDA that it can do.

    Raises:
        CudaError: It is missing.
    """
    return _core.cuda_driver()


class Report(NamedTuple):
    """How an array came to the GPU. Reading goes on beside the rest, so that times do not add up."""

    #: Bytes that were read, as they are stored.
    stored: int
    #: Bytes that went to the GPU through page-locked memory.
    uploaded: int
    #: Bytes that cuFile read into its memory.
    direct: int
    #: Chunks that the GPU decompressed or unshuffled.
    on_gpu: int
    #: Chunks that the processor decoded.
    on_cpu: int
    #: Those among them with which the GPU had failed.
    again: int
    #: Blocks of a live dataset that its kernels computed in the GPU's memory, where they stayed.
    computed: int
    #: Seconds of reading, and of decoding by the processor.
    reading: float
    #: Seconds on the GPU: copies, decompression, and putting elements into their places.
    copying: float
    #: Seconds on the GPU: decompression.
    decompressing: float
    #: Seconds on the GPU: unshuffling, checksums and putting elements into their places.
    arranging: float


class CudaArray:
    """An array in the memory of a GPU, which PyTorch, CuPy, JAX and Numba take without a copy:
    ``torch.from_dlpack(array)``, ``cupy.asarray(array)``, ``jax.dlpack.from_dlpack(array)``,
    ``numba.cuda.as_cuda_array(array)``.

    Its elements lie in row-major order, in the byte order of this machine, and all of them are there: no stream has to
    be waited for. The memory is freed when the last array that uses it is gone."""

    __slots__ = ("_core", "_dtype")

    def __init__(self, core: _core.DeviceArray, dtype: Dtype) -> None:
        self._core = core
        self._dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extent."""
        return self._core.shape

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self._core.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return self._core.nbytes // self._dtype.itemsize

    @property
    def dtype(self) -> Dtype:
        """The NumPy dtype of its elements."""
        return self._dtype

    @property
    def nbytes(self) -> int:
        """How many bytes it takes on the GPU."""
        return self._core.nbytes

    @property
    def device(self) -> int:
        """The number of its GPU."""
        return self._core.device

    @property
    def report(self) -> Report | None:
        """How it came there; None if its elements were decoded or computed in the memory of this machine, and then
        copied: see :attr:`through_host`."""
        found = self._core.report
        return None if found is None else Report(*found[0], *found[1])

    @property
    def through_host(self) -> str | None:
        """Why its elements went through the memory of this machine, in words; None if they did not."""
        return self._core.through_host

    def to_numpy(self) -> Array:
        """A copy in the memory of this machine."""
        out = np.empty(self.shape, self._dtype)
        self._core.download(out)
        return out

    def __dlpack_device__(self) -> tuple[int, int]:
        """What DLPack calls its GPU."""
        return (_CUDA, self._core.device)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """It in a capsule, as DLPack's specification for Python says. All streams see its elements."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            if dl_device[0] != _CPU:
                raise BufferError(
                    f"the array lies on the GPU {self.device}, not on the device {tuple(dl_device)} of DLPack"
                )
            if copy is False:
                raise BufferError("memory of a GPU cannot be seen by the processor without a copy")
            return self.to_numpy().__dlpack__(max_version=max_version)
        versioned = max_version is not None and max_version[0] >= 1
        return self._core.dlpack(versioned, bool(copy))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """It for libraries that know no DLPack."""
        return {
            "shape": self.shape,
            "typestr": self._dtype.str,
            "data": (self._core.address, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<CudaArray shape {self.shape}, dtype {self._dtype}, GPU {self.device}>"


def read(dataset: Dataset, selection: Any, device: int) -> CudaArray:
    """``Dataset.cuda``."""
    data = dataset._readable
    dims = data.shape
    if dims is None:
        raise TypeError("an empty dataset has no elements that could lie on a GPU")
    args = selection if isinstance(selection, tuple) else (selection,)
    if any(arg is None for arg in args):
        raise TypeError("Indexing with None (or np.newaxis) is not supported")
    whole = args == () or (len(args) == 1 and args[0] is Ellipsis)
    chosen = selections.everything(dims) if whole else selections.select(dims, args)
    dtype, inner = _dtype(dataset)
    conversion = _conversion(data.datatype.description, np.dtype((dtype, inner)) if inner else dtype)
    shape = (*chosen.array_shape, *inner)
    core = _core.read_to_device(data, chosen.choice, conversion, shape, (dtype.kind, dtype.itemsize), device)
    return CudaArray(core, dtype)


def _dtype(dataset: Dataset) -> tuple[Dtype, tuple[int, ...]]:
    """The dtype of elements on a GPU, and how many there are of it in one of the dataset's."""
    dtype, inner = dataset.dtype, ()
    if dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
    if dtype.itemsize not in _KINDS.get(dtype.kind, ()):
        advice = ", or its members one by one" if dtype.names else ""
        raise UnsupportedError(
            f"{dataset.name}: elements of dtype {dataset.dtype} cannot lie on a GPU, which takes numbers of 1, 2, 4 "
            f"and 8 bytes and bool; read it with dataset[…]{advice}"
        )
    return np.dtype(dtype.newbyteorder("=")), inner


def _conversion(stored: Description, dtype: Dtype) -> _core.Conversion | None:
    """What makes the elements that are wanted of those that are stored; None if they are the same."""
    if stored[0] != "compound":
        return values.plan_as(stored, dtype).conversion
    # A complex number, as h5py has it.
    half = dtype.itemsize // 2
    number = values.float_description(half, values.order_of(dtype))
    (real, *_), (imaginary, *_) = stored[2]
    wanted = ("compound", dtype.itemsize, ((real, 0, number), (imaginary, half, number)))
    steps = _core.Conversion(_core.Datatype(stored), _core.Datatype(wanted))
    return None if steps.is_copy else steps
