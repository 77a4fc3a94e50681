"""Datasets in the memory of a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hyperchunk import _core, selections, values
from hyperchunk.dtypes import Description
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.typing import Array, Dtype, Index

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset

# Device types of DLPack.
_CPU, _CUDA = 1, 2
_KINDS = {"i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16), "b": (1,)}


class Device(NamedTuple):
    """A GPU."""

    #: Name, as NVIDIA gives it.
    name: str
    #: Compute capability: ``(9, 0)`` is sm_90.
    capability: tuple[int, int]
    #: Memory in bytes.
    memory: int
    #: UUID, unique across machines.
    uuid: bytes


def devices() -> list[Device]:
    """Lists the GPUs that this process may use; the index is the device number.

    Raises:
        CudaError: NVIDIA's driver is missing, or finds no GPU.

    Example:
        >>> [device.name for device in hyperchunk.cuda.devices()]  # doctest: +SKIP
        ['NVIDIA H100 80GB HBM3']
    """
    return [Device(*found) for found in _core.cuda_devices()]


def driver() -> tuple[Path, tuple[int, int]]:
    """Returns the path of NVIDIA's driver, and the newest CUDA version that it supports.

    Raises:
        CudaError: The driver is missing.

    Example:
        >>> hyperchunk.cuda.driver()  # doctest: +SKIP
        (PosixPath('/usr/lib/x86_64-linux-gnu/libcuda.so.1'), (12, 8))
    """
    return _core.cuda_driver()


class Report(NamedTuple):
    """Report of a transfer to the GPU. Reading overlaps with the rest, so the times do not add up."""

    #: Bytes read, in their stored form.
    stored: int
    #: Bytes copied to the GPU through page-locked memory.
    uploaded: int
    #: Bytes that cuFile read directly into GPU memory.
    direct: int
    #: Chunks that the GPU decompressed or unshuffled.
    on_gpu: int
    #: Chunks that the processor decoded.
    on_cpu: int
    #: Chunks among `on_cpu` that the GPU had failed to decode.
    again: int
    #: Blocks of a live dataset that its kernels computed and left in GPU memory.
    computed: int
    #: Seconds of reading, and of decoding by the processor.
    reading: float
    #: Seconds on the GPU: copies, decompression, and arranging elements.
    copying: float
    #: Seconds on the GPU: decompression.
    decompressing: float
    #: Seconds on the GPU: unshuffling, checksums and arranging elements.
    arranging: float


class CudaArray:
    """An array in the memory of a GPU. PyTorch, CuPy, JAX and Numba use it without a copy:
    ``torch.from_dlpack(array)``, ``cupy.asarray(array)``, ``jax.dlpack.from_dlpack(array)``,
    ``numba.cuda.as_cuda_array(array)``.

    Elements are stored in row-major order and in this machine's byte order. The array is complete: no stream needs to
    be synchronized. Its memory is freed with the last array that uses it.

    Example:
        >>> array = file["images"].cuda(numpy.s_[:100])  # doctest: +SKIP
        >>> torch.from_dlpack(array).mean()  # doctest: +SKIP
    """

    __slots__ = ("_core", "_dtype")

    def __init__(self, core: _core.DeviceArray, dtype: Dtype) -> None:
        self._core = core
        self._dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of the array."""
        return self._core.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._core.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._core.nbytes // self._dtype.itemsize

    @property
    def dtype(self) -> Dtype:
        """NumPy dtype of the elements."""
        return self._dtype

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._core.nbytes

    @property
    def device(self) -> int:
        """Device number of the GPU."""
        return self._core.device

    @property
    def report(self) -> Report | None:
        """Report of the transfer; None if the elements were decoded or computed in host memory and then copied: see
        :attr:`host_fallback_reason`.
        """
        found = self._core.report
        return None if found is None else Report(*found[0], *found[1])

    @property
    def host_fallback_reason(self) -> str | None:
        """Reason why the elements passed through host memory, as text; None if they did not."""
        return self._core.host_fallback_reason

    def to_numpy(self) -> Array:
        """Copies the array to host memory."""
        out = np.empty(self.shape, self._dtype)
        self._core.download(out)
        return out

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns the DLPack device."""
        return (_CUDA, self._core.device)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Exports a capsule by DLPack's Python specification. The elements are visible to all streams."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            if dl_device[0] != _CPU:
                raise BufferError(
                    f"cannot export the array to DLPack device {tuple(dl_device)}: it is on GPU {self.device}"
                )
            if copy is False:
                raise BufferError("cannot export GPU memory to the CPU without a copy")
            return self.to_numpy().__dlpack__(max_version=max_version)
        versioned = max_version is not None and max_version[0] >= 1
        return self._core.dlpack(versioned, bool(copy))

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """Interface for libraries without DLPack."""
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


def read(dataset: Dataset, selection: Index, device: int) -> CudaArray:
    """Implements :meth:`Dataset.cuda`.

    Example:
        >>> hyperchunk.cuda.read(file["images"], numpy.s_[:100], 0)  # doctest: +SKIP
    """
    data = dataset._readable
    dims = data.shape
    if dims is None:
        raise TypeError("an empty dataset has no elements to read")
    args = selection if isinstance(selection, tuple) else (selection,)
    if any(arg is None for arg in args):
        raise TypeError("Indexing with None (or np.newaxis) is not supported")
    whole = args == () or (len(args) == 1 and args[0] is Ellipsis)
    chosen = selections.everything(dims) if whole else selections.select_in_order(dims, args)
    dtype, inner = _dtype(dataset)
    conversion = _conversion(data.datatype.description, np.dtype((dtype, inner)) if inner else dtype)
    shape = (*chosen.array_shape, *inner)
    core = _core.read_to_device(data, chosen.native, conversion, shape, (dtype.kind, dtype.itemsize), device)
    return CudaArray(core, dtype)


def _dtype(dataset: Dataset) -> tuple[Dtype, tuple[int, ...]]:
    """Returns the dtype of elements on a GPU, and their extent within one element of the dataset."""
    dtype, inner = dataset.dtype, ()
    if dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
    if dtype.itemsize not in _KINDS.get(dtype.kind, ()):
        advice = ", or its members one by one" if dtype.names else ""
        raise UnsupportedError(
            f"cannot read {dataset.name} to a GPU: expected numbers of 1, 2, 4 or 8 bytes, complex numbers or bool, "
            f"got dtype {dataset.dtype}; read it with dataset[…]{advice}"
        )
    return np.dtype(dtype.newbyteorder("=")), inner


def _conversion(stored: Description, dtype: Dtype) -> _core.Conversion | None:
    """Returns the conversion from stored to wanted elements; None if they are the same."""
    if stored[0] != "compound":
        return values.plan_as(stored, dtype).conversion
    # A complex number in h5py's compound representation.
    half = dtype.itemsize // 2
    number = values.float_description(half, values.byte_order(dtype))
    (real, *_), (imaginary, *_) = stored[2]
    wanted = ("compound", dtype.itemsize, ((real, 0, number), (imaginary, half, number)))
    steps = _core.Conversion(_core.Datatype(stored), _core.Datatype(wanted))
    return None if steps.is_copy else steps
