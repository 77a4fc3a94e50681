//! What is fuzzed: functions that take bytes and must come back, without a panic, in little time and memory.

mod codecs;
pub mod collection;
mod messages;
pub mod sidecar;
mod structures;
pub mod whole;

pub use codecs::input as codec_input;

/// A function that is fuzzed.
pub type Target = fn(&[u8]);

/// All targets by name. Those of structures take whole files, so that they share one corpus; that of
/// `sidecar` are files with their indexes, that of `collection` collections.
pub const TARGETS: &[(&str, Target)] = &[
    ("file", file),
    ("superblock", structures::superblock),
    ("object_header", structures::object_header),
    ("group", structures::group),
    ("attributes", structures::attributes),
    ("dataset", structures::dataset),
    ("btree_v1", structures::btree_v1),
    ("btree_v2", structures::btree_v2),
    ("fractal_heap", structures::fractal_heap),
    ("global_heap", structures::global_heap),
    ("local_heap", structures::local_heap),
    ("handles", structures::handles),
    ("datatype", messages::datatype),
    ("dataspace", messages::dataspace),
    ("layout", messages::layout),
    ("pipeline", messages::pipeline),
    ("fill_value", messages::fill_value),
    ("link", messages::link),
    ("attribute", messages::attribute),
    ("small", messages::small),
    ("selection", messages::selection),
    ("reference", messages::reference),
    ("codec", codecs::codec),
    ("sidecar", sidecar::sidecar),
    ("collection", collection::collection),
];

/// A whole file, with all datasets of up to 1 MiB.
fn file(data: &[u8]) {
    let _ = whole::read(data, whole::Bounds { dataset: 1 << 20, total: 16 << 20 });
}
