"""Bandwidth of the bus between a machine and its GPU, measured with the driver alone: page-locked memory, a stream,
events.
"""

from __future__ import annotations

import ctypes
import statistics
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

PORTABLE = 1
NON_BLOCKING = 1


class Driver:
    """NVIDIA's driver, or the library at a path, and the context of one GPU."""

    def __init__(self, path: str | None, device: int = 0) -> None:
        self._library = ctypes.CDLL(path or "libcuda.so.1")
        self._call("cuInit", c_uint(0))
        number, self._context = c_int(), c_void_p()
        self._call("cuDeviceGet", byref(number), c_int(device))
        self._call("cuDevicePrimaryCtxRetain", byref(self._context), number)

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise SystemExit(f"{name} failed with CUDA's error {code}")

    def bandwidth(self, size: int, rounds: int) -> float:
        """Returns the bandwidth in bytes per second from page-locked memory to the GPU: median of several copies
        after a warm-up.
        """
        call = self._call
        call("cuCtxSetCurrent", self._context)
        host, there, stream = c_void_p(), c_uint64(), c_void_p()
        start, end, spent = c_void_p(), c_void_p(), c_float()
        call("cuMemHostAlloc", byref(host), c_size_t(size), c_uint(PORTABLE))
        call("cuMemAlloc_v2", byref(there), c_size_t(size))
        call("cuStreamCreate", byref(stream), c_uint(NON_BLOCKING))
        for event in (start, end):
            call("cuEventCreate", byref(event), c_uint(0))
        ctypes.memset(host, 1, size)
        times = []
        for _ in range(rounds + 1):
            call("cuEventRecord", start, stream)
            call("cuMemcpyHtoDAsync_v2", there, host, c_size_t(size), stream)
            call("cuEventRecord", end, stream)
            call("cuEventSynchronize", end)
            call("cuEventElapsedTime", byref(spent), start, end)
            times.append(spent.value / 1e3)
        for event in (start, end):
            call("cuEventDestroy_v2", event)
        call("cuStreamDestroy_v2", stream)
        call("cuMemFree_v2", there)
        call("cuMemFreeHost", host)
        spent_seconds = statistics.median(times[1:])
        return size / spent_seconds if spent_seconds > 0 else float("inf")
