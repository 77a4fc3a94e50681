"""Small programs, equivalent in each language."""

import json
from collections.abc import Sequence

LANGUAGES = ("py", "lua", "cpp")

#: name in descriptions: NumPy type, C++ type
TYPES = {
    "int8": ("i1", "int8_t"),
    "int16": ("i2", "int16_t"),
    "int32": ("i4", "int32_t"),
    "int64": ("i8", "int64_t"),
    "uint8": ("u1", "uint8_t"),
    "uint16": ("u2", "uint16_t"),
    "uint32": ("u4", "uint32_t"),
    "uint64": ("u8", "uint64_t"),
    "float": ("f4", "float"),
    "double": ("f8", "double"),
}

NDVI = "(b[i] - a[i]) / (b[i] + a[i])"


def quoted(text: str) -> str:
    """Returns a string constant of Lua and C++."""
    return json.dumps(text, ensure_ascii=False)


def elementwise(
    language: str,
    expression: str,
    output: str = "out",
    inputs: Sequence[str] = (),
    datatype: str = "float",
    input_types: Sequence[str] = (),
) -> str:
    """Returns a program that sets each element of ``output`` to an expression of ``a[i]``, ``b[i]``, … and ``i``.

    ``i`` counts from the language's first index.
    """
    pairs = list(zip("abcdefgh", inputs, strict=False))
    if language == "py":
        lines = [f"    {v} = lib.getData({n!r})" for v, n in [("out", output), *pairs]]
        loop = f"    for i in range(len(out)):\n        out[i] = {expression}"
        return "\n".join(["def dynamic_dataset():", *lines, loop, ""])
    if language == "lua":
        lines = [f"  local {v} = lib.getData({quoted(n)})" for v, n in [("out", output), *pairs]]
        count = f"  local n = 1\n  for _, d in ipairs(lib.getDims({quoted(output)})) do n = n * d end"
        loop = f"  for i = 1, n do out[i] = {expression} end"
        return "\n".join(["function dynamic_dataset()", *lines, count, loop, "end", ""])
    types = [datatype, *(input_types or [datatype] * len(pairs))]
    if language == "cu":
        parameters = [
            f"DATASET({quoted(n)}) {'' if v == 'out' else 'const '}{TYPES[t][1]} *{v}"
            for (v, n), t in zip([("out", output), *pairs], types, strict=True)
        ]
        index = "size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x;"
        body = f"{{\n  {index}\n  if (i < count) out[i] = {expression};\n}}\n"
        return f"__global__ void kernel({', '.join(parameters)}, size_t count)\n{body}"
    lines = [
        f"  auto {v} = lib.getData<{TYPES[t][1]}>({quoted(n)});"
        for (v, n), t in zip([("out", output), *pairs], types, strict=True)
    ]
    count = f"  size_t n = 1;\n  for (size_t d : lib.getDims({quoted(output)})) n *= d;"
    loop = f"  for (size_t i = 0; i < n; i++) out[i] = {expression};"
    return "\n".join(['extern "C" void dynamic_dataset() {', *lines, count, loop, "}", ""])


def ndvi(language: str, output: str = "NDVI", red: str = "Red", nir: str = "NIR") -> str:
    """Returns a program for the NDVI of two float bands."""
    return elementwise(language, NDVI, output, [red, nir])
