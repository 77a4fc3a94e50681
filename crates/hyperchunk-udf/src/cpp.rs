//! Preludes of C++ sources, and the options of their compilation.

pub mod wasm;

use crate::datatype::{Datatype, declarations};

/// Text before every source: the global `lib`.
pub const PRELUDE: &str = include_str!("cpp/prelude.hpp");
/// Text after every source: the entry point.
pub const EPILOGUE: &str = include_str!("cpp/epilogue.hpp");
/// Name of the source in the compiler's folder.
pub const SOURCE: &str = "udf.cpp";
/// Name of the result in the folder.
pub const OBJECT: &str = "udf.so";

/// Arguments of the compiler. None selects the local machine's instructions, since the object is stored in a
/// file that others read.
pub const ARGUMENTS: &[&str] = &[
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-fvisibility=hidden",
    "-fno-plt",
    "-ffunction-sections",
    "-fno-ident",
    "-Wno-unused-function",
    "-Wno-attributes",
    "-fmax-errors=5",
    "-fno-diagnostics-show-caret",
    "-fdiagnostics-color=never",
    "-Wl,--hash-style=gnu",
    "-Wl,-z,noseparate-code",
    "-Wl,--build-id=none",
    "-Wl,--gc-sections",
    "-Wl,-z,defs",
    "-s",
];

/// Options for prefetching two kilobytes ahead in loops, since a processor's own prefetcher stops at the end
/// of each page: NDVI takes a twelfth less time, and a mean of neighbours, a sum or rows of 40 elements an
/// eighth to a fourth less. Accesses with an unknown stride, such as a column, are not prefetched: that took
/// 1.5 times as long. GCC's own choice of loops is for other processors. Other compilers ignore these
/// options; a GCC that does not know one of them reports it, see [`rejects_prefetch_options`].
#[cfg(target_arch = "x86_64")]
pub const PREFETCH_OPTIONS: &[&str] = &[
    "-fprefetch-loop-arrays",
    "--param=min-insn-to-prefetch-ratio=6",
    "--param=prefetch-dynamic-strides=0",
    "--param=prefetch-latency=1300",
    "--param=simultaneous-prefetches=200",
];
/// No options on other architectures, where they were not measured.
#[cfg(not(target_arch = "x86_64"))]
pub const PREFETCH_OPTIONS: &[&str] = &[];
/// Argument of the worker that omits [`PREFETCH_OPTIONS`].
pub const WITHOUT_PREFETCH: &str = "plainly";

/// Returns whether the message says that the compiler, not the source, has a problem with one of
/// [`PREFETCH_OPTIONS`].
pub fn rejects_prefetch_options(said: &str) -> bool {
    let of_option = |text: &str| text.contains("--param") || text.contains("-fprefetch-loop-arrays");
    !PREFETCH_OPTIONS.is_empty() && said.split("; ").any(|one| of_option(one) && !one.contains(SOURCE))
}

/// Platform for which this build compiles sources.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub const TARGET: &str = concat_target();
/// Platform for which this build compiles sources.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub const TARGET: &str = "unsupported";

#[cfg(all(target_os = "linux", target_env = "gnu"))]
const fn concat_target() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "x86_64-linux-gnu"
    } else if cfg!(target_arch = "aarch64") {
        "aarch64-linux-gnu"
    } else {
        "unsupported"
    }
}

/// Line before the text that omits the function's second version, which uses registers of twice the width.
pub const NARROW_DEFINITION: &str = "#define HYPERCHUNK_NARROW 1\n";

/// Returns whether a source may have the second version. Two things exclude it: vector types wider than the
/// baseline's registers, which the second version passes to functions in another way than those expect that
/// are not inlined; and options by which the compiler may reorder sums, since the order depends on the width.
pub fn may_be_wide(source: &str) -> bool {
    const WORDS: [&str; 6] = ["vector_size", "ext_vector_type", "__m256", "__m512", "optimize", "Ofast"];
    !WORDS.iter().any(|word| source.contains(word))
}

/// Returns whether the compiler has warned that the passing of a vector type depends on the registers' width.
pub fn has_wide_vectors(said: &str) -> bool {
    said.contains("changes the ABI") || said.contains("ABI for passing")
}

/// Returns the complete text to compile for `source`, which uses the datasets `slots`.
pub fn assemble<'a>(source: &str, slots: impl IntoIterator<Item = (&'a str, &'a Datatype)>) -> String {
    let slots: Vec<_> = slots.into_iter().collect();
    let structures = with_sizes(&slots, declarations(slots.iter().copied()));
    format!("{PRELUDE}\n{structures}\n#line 1 \"udf.cpp\"\n{source}\n#line 1 \"hyperchunk\"\n{EPILOGUE}")
}

/// Returns declarations with assertions that the compiler's layout matches the elements in memory.
pub(crate) fn with_sizes(slots: &[(&str, &Datatype)], (mut text, types): (String, Vec<String>)) -> String {
    for ((_, datatype), name) in slots.iter().zip(types).filter(|((_, d), _)| d.flat_number().is_none()) {
        text.push_str(&format!("static_assert(sizeof({name}) == {}, \"layout\");\n", datatype.size()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_the_compiler_does_not_know_is_told_from_what_a_source_says() {
        for (said, rejects) in [
            ("it does not compile: cc1plus: error: invalid '--param' name 'prefetch-latency'", true),
            (
                "it does not compile: g++: error: unrecognized command-line option '-fprefetch-loop-arrays'",
                true,
            ),
            ("it does not compile: udf.cpp:1:2: error: #error --param", false),
            ("it does not compile: udf.cpp:1:2: error: 'x' was not declared in this scope", false),
        ] {
            assert_eq!(rejects_prefetch_options(said), rejects, "{said}");
        }
    }
}
