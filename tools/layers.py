"""Layers of the top-level modules inside the larger crates, checked by `tools/tidy.py`.

A line of a table is a layer, the lowest first. A module may use only modules of lower layers. Modules joined by `=`
use each other; the comment says why. Items of `lib.rs` itself belong to no layer, and tests may use
anything. A name without a module is ignored.

Add a new module to the table. If it uses a module above it, move the shared item down: into a module of its own if it
belongs to none of the lower ones. A use that must stay is an exception, with its reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from module_graph import Arrow, Crate

LAYERS = {
    "hyperchunk-format": (
        "printable",
        "error",
        "checksum limits thread_state view",
        "model",
        "cursor",
        "image",
        "codec convert overlay select",
        "parse",
        "encode",
    ),
    "hyperchunk": (
        "id npy os recent room similar_names torn",
        "io",
        "survey",
        # The folder of a companion is created like an output, whose permissions follow the rules for companions.
        "companion=output",
        "index",
        # The steps of a read are methods of handles, and take handles.
        "dataset=external=file=group=heap=live=object=read=storage=walk",
        "slabs",
        "digest",
        "write",
        "check contents prefetch values",
        "references",
        "pack",
        "collection salvage",
        "internal",
    ),
    "hyperchunk-store": (
        # Records and pages contain statistics, which are encoded from the same parts.
        "format=statistics shared_memory_pool",
        "location",
        "arrow_files",
        "read",
        "commit",
        "writer",
        "query",
        "observe",
        "admin",
        "restructure",
        "storage",
    ),
    "hyperchunk-arrow": (
        "types",
        "values",
        "predicate",
        "view",
        "dual transfer",
        "flight",
    ),
    "hyperchunk-udf": (
        "cache escape os settings",
        "error",
        "backend endpoint interrupt memory shape",
        "datatype",
        "attribute stub",
        "wasm",
        "cpp",
        "cuda",
        "record",
        "scan signature sources",
        "keys",
        # The system's policy bounds profiles, and trust names them by key.
        "profile=system=trust",
        "audit expression legacy",
        "observe protocol spec",
        "chunking socket stored",
        "network",
        "host worker",
    ),
    "hyperchunk-live": (
        "sources",
        # An input may be an attribute, or a number in an expression.
        "attributes=expression=inputs",
        "stored",
        "plan",
        "vlen_strings copies",
        "evaluate",
        "chunked device edit observe",
    ),
    "hyperchunk-h5abi": (
        "pointer relay static_symbols symbols",
        # A library stores the ids of its errors, and errors are read through the library.
        "errors=library",
        "chunk_buffer handles notice",
        "datatypes guard stored_types text_types virtual_sources",
        "live",
        "filter",
        "snappy vol",
    ),
}

#: Permitted uses of higher modules, with the reason.
EXCEPTIONS = {
    "hyperchunk": {
        "external -> write": "before a file is read, an edit that was interrupted is completed",
        "file -> write": "before a file is read, an edit that was interrupted is completed",
        "index -> file": "an index is built from an open file, and looked up by the options for opening",
        "output -> write": "an output must not replace a file that is edited here, or has a journal",
    },
    "hyperchunk-store": {
        "arrow_files -> commit": "the fragments of an epoch are found through the segments that a commit links",
        "location -> storage": "a bucket opens files with the engine, which must know stores by then",
        "restructure -> storage": "it opens files with the engine, which must know stores by then",
    },
    "hyperchunk-udf": {
        "profile -> host": "folders of caches are never granted, and the host contains their settings",
    },
    "hyperchunk-live": {
        "expression -> plan": "an expression is prepared and computed with the plan",
    },
}


def findings(
    layers: Sequence[str], exceptions: Mapping[str, str], modules: Iterable[str], arrows: Iterable[Arrow]
) -> list[str]:
    """Returns uses that the layers do not permit, modules without a layer, and unused exceptions."""
    modules = set(modules)
    rows = {
        module: (height, group)
        for height, layer in enumerate(layers)
        for group in layer.split()
        for module in group.split("=")
    }
    found = [f"the module {name} has no layer; add it to LAYERS of tools/layers.py" for name in modules - set(rows)]
    used = set()
    for arrow in sorted(set(arrows)):
        above, below = rows.get(arrow.user), rows.get(arrow.used)
        if above is None or below is None or below[0] < above[0] or below[1] == above[1]:
            continue
        name = f"{arrow.user} -> {arrow.used}"
        used.add(name)
        if name not in exceptions:
            found.append(
                f"{arrow.path}:{arrow.line}: {name}: `{arrow.used}` is not in a layer below `{arrow.user}`; "
                "move the shared item to a lower module (tools/layers.py)"
            )
    for name in sorted(exceptions.keys() - used):
        if modules.issuperset(name.split(" -> ")):
            found.append(f"{name}: nothing needs this exception; remove it from tools/layers.py")
    return found


def module_layers(root: Path) -> list[str]:
    """Returns the findings in all crates that have layers, below a checkout's root."""
    found = []
    for name, layers in LAYERS.items():
        crate = Crate(root / "crates" / name / "src")
        lines = findings(layers, EXCEPTIONS.get(name, {}), crate.modules, crate.arrows())
        found += [f"{name}: {line.replace(f'{root}/', '')}" for line in lines]
    return found
