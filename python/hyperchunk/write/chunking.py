"""Default chunk shapes."""

from __future__ import annotations

import math

# Minimum and maximum size of a chunk in bytes, and approximate number of chunks.
_MIN_CHUNK_BYTES, _MAX_CHUNK_BYTES, _TARGET_CHUNKS = 16 << 10, 1 << 20, 64
# Assumed length of an empty dimension that can grow.
_ASSUMED_ROWS = 1024


def guess(shape: tuple[int, ...], maxshape: tuple[int | None, ...] | None, size: int) -> tuple[int, ...]:
    """Guesses chunks for elements of `size` bytes: halves all dimensions in turn until a chunk is small enough."""
    dims = [dim or _ASSUMED_ROWS for dim in shape]
    bounds = maxshape or shape
    wanted = min(_MAX_CHUNK_BYTES, max(_MIN_CHUNK_BYTES, math.prod(dims) * size // _TARGET_CHUNKS))
    axis = 0
    while math.prod(dims) * size > wanted and any(dim > 1 for dim in dims):
        dims[axis % len(dims)] = -(-dims[axis % len(dims)] // 2)
        axis += 1
    return tuple(dim if bound is None else max(1, min(dim, bound)) for dim, bound in zip(dims, bounds, strict=True))
