//! Findings about a file, with advice.

use super::{Assumptions, DatasetReport, Report};
use crate::survey::{SurveyReport, SurveyedDataset};
use hyperchunk_format::codec;
use hyperchunk_format::model::Layout;
use std::collections::HashSet;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weight {
    /// Information only.
    Note,
    /// Reading is slower than it could be.
    Slow,
    /// Reading is much slower than it could be, or fails.
    Serious,
}

/// A finding about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its severity.
    pub weight: Weight,
    /// Its kind, in one or two words that never change.
    pub kind: &'static str,
    /// Its description.
    pub what: String,
    /// The advice; may be empty.
    pub advice: String,
    /// The paths of the affected datasets; only the first few.
    pub paths: Vec<Vec<u8>>,
}

/// Maximum number of paths in a finding.
const MAX_PATHS: usize = 5;
/// Chunks with fewer stored bytes are small, if there are many.
const SMALL_CHUNK_BYTES: u64 = 64 << 10;
/// Chunks with more bytes are large.
const LARGE_CHUNK_BYTES: u64 = 32 << 20;
/// Target size of a chunk, in bytes.
const GOOD_CHUNK_BYTES: u64 = 2 << 20;
/// Size in bytes below which a dataset's chunks do not matter.
const SMALL_DATASET_BYTES: u64 = 8 << 20;
/// Compressors, by filter number.
const COMPRESSORS: [u16; 15] =
    [1, 4, 307, 32000, 32001, 32003, 32004, 32008, 32012, 32013, 32015, 32017, 32024, 32026, 32028];

pub(super) fn findings(report: &Report, found: &SurveyReport, assumed: &Assumptions) -> Vec<Finding> {
    let mut all = Vec::new();
    listing(report, found, &mut all);
    chunks(report, assumed, &mut all);
    elsewhere(found, &mut all);
    filters(report, found, &mut all);
    all.sort_by_key(|finding| std::cmp::Reverse(finding.weight));
    all
}

fn finding(weight: Weight, kind: &'static str, what: String, advice: &str) -> Finding {
    Finding { weight, kind, what, advice: advice.into(), paths: Vec::new() }
}

/// Returns a finding about these datasets, if there are any.
fn about<'r>(
    weight: Weight,
    kind: &'static str,
    datasets: &[&'r DatasetReport],
    what: impl Fn(usize, &'r DatasetReport) -> String,
    advice: impl Fn(&'r DatasetReport) -> String,
) -> Option<Finding> {
    let first = datasets.first()?;
    Some(Finding {
        weight,
        kind,
        what: what(datasets.len(), first),
        advice: advice(first),
        paths: datasets.iter().take(MAX_PATHS).map(|dataset| dataset.path.clone()).collect(),
    })
}

fn listing(report: &Report, found: &SurveyReport, all: &mut Vec<Finding>) {
    let list = &report.list;
    let weight = match (list.rounds, list.requests) {
        (..=2, ..=4) => None,
        (..=16, ..=256) => Some(Weight::Slow),
        _ => Some(Weight::Serious),
    };
    if let Some(weight) = weight {
        let what = format!(
            "the structure ({} bytes) is scattered over the file: listing it takes {} round trips and {} requests",
            report.structure, list.rounds, list.requests
        );
        let advice = match report.page {
            Some(_) => {
                "rewrite the file with all structure at its start: `hyperchunk pack IN OUT --layout cloud`; or keep the file \
                 and give readers a copy of its structure: `hyperchunk index IN`"
            }
            None => {
                "rewrite the file with all structure at its start: `hyperchunk pack IN OUT --layout cloud`, or write it so \
                 (`hyperchunk.create(…, layout=\"cloud\")`; h5py: fs_strategy=\"page\", fs_page_size=4194304); or keep the \
                 file and give readers a copy of its structure: `hyperchunk index IN`"
            }
        };
        all.push(finding(weight, "scattered structure", what, advice));
    }
    if let Some(page) = report.page {
        let what = format!("structure and data are stored in pages of {page} bytes");
        all.push(finding(Weight::Note, "paged", what, ""));
        if page < 1 << 20 && report.structure > page {
            let what = format!(
                "pages of {page} bytes are small: the structure of {} bytes needs many",
                report.structure
            );
            all.push(finding(
                Weight::Slow,
                "small pages",
                what,
                "rewrite the file with all structure in the first page: `hyperchunk pack IN OUT --layout cloud`",
            ));
        }
    }
    // The location of heap collections does not matter if a listing fetches their bytes anyway.
    let in_front = report.page.is_some_and(|page| page >= report.structure);
    if found.collections.len() > 32 && weight.is_some() && !in_front {
        let what = format!(
            "variable-length strings of attributes are stored in {} collections of the global heap",
            found.collections.len()
        );
        let advice = "move them to the other structure: `hyperchunk pack IN OUT --layout cloud`; or use fixed-length strings \
                      for attributes";
        all.push(finding(Weight::Slow, "heap attributes", what, advice));
    }
}

fn chunks(report: &Report, assumed: &Assumptions, all: &mut Vec<Finding>) {
    let mean = |dataset: &DatasetReport| match &dataset.chunks {
        Some((_, count)) if *count > 0 => dataset.stored / count,
        _ => 0,
    };
    let count = |dataset: &DatasetReport| dataset.chunks.as_ref().map_or(0, |(_, count)| *count);
    let pick = |test: &dyn Fn(&DatasetReport) -> bool| -> Vec<&DatasetReport> {
        report.each.iter().filter(|dataset| test(dataset)).collect()
    };
    let small = pick(&|dataset| count(dataset) >= 64 && mean(dataset) < SMALL_CHUNK_BYTES);
    let tiny = small.iter().any(|dataset| mean(dataset) < SMALL_CHUNK_BYTES / 16 && count(dataset) > 10_000);
    all.extend(about(
        if tiny { Weight::Serious } else { Weight::Slow },
        "small chunks",
        &small,
        |number, first| {
            format!(
                "{} many small chunks; the first, {} of {} bytes",
                plural(number, "dataset has", "datasets have"),
                count(first),
                mean(first)
            )
        },
        |first| {
            let shape: Vec<String> = larger(first, mean(first)).iter().map(u64::to_string).collect();
            let path = String::from_utf8_lossy(&first.path);
            format!(
                "larger chunks, of 1 to 8 MB; for the first: `hyperchunk pack IN OUT --chunks '{path}={}'`",
                shape.join("x")
            )
        },
    ));
    let large = pick(&|dataset| mean(dataset) > LARGE_CHUNK_BYTES);
    all.extend(about(
        Weight::Slow,
        "large chunks",
        &large,
        |number, first| {
            let datasets = plural(number, "dataset has", "datasets have");
            format!("{datasets} chunks that are large; the first, of {} bytes", mean(first))
        },
        |_| {
            "smaller chunks, of 1 to 8 MB, since a slice decodes all of each chunk that it touches: `hyperchunk pack IN OUT \
             --chunks auto`"
                .into()
        },
    ));
    let wasteful = pick(&|dataset| {
        let sliced = dataset.slice_bytes.max(assumed.options.first_read).saturating_mul(20);
        dataset.chunks.is_some() && dataset.slice.bytes > sliced && dataset.slice.bytes > 16 << 20
    });
    all.extend(about(
        Weight::Slow,
        "costly slices",
        &wasteful,
        |number, first| {
            format!(
                "reading 1 % of {} along the first axis fetches much more than that; for the first, {} bytes instead of {}",
                plural(number, "dataset", "datasets"),
                first.slice.bytes,
                first.slice_bytes
            )
        },
        |first| {
            let shape: Vec<String> = shorter(first).iter().map(u64::to_string).collect();
            let path = String::from_utf8_lossy(&first.path);
            format!(
                "chunks that are shorter along the sliced axis; for the first: `hyperchunk pack IN OUT --chunks \
                 '{path}={}'`",
                shape.join("x")
            )
        },
    ));
    let deep = pick(&|dataset| {
        // The start of the file and the data take two round trips; only the others are due to the index.
        dataset.index_rounds >= 2 && dataset.version_1 && dataset.whole.rounds > 2
    });
    all.extend(about(
        Weight::Slow,
        "old chunk index",
        &deep,
        |number, first| {
            format!(
                "{} chunks through a version 1 B-tree; for the first it takes {} round trips",
                plural(number, "dataset finds its", "datasets find their"),
                first.index_rounds
            )
        },
        |_| {
            "the chunk indexes of HDF5 1.10 are flatter: `hyperchunk pack IN OUT --layout cloud --libver v110`; larger \
             chunks (`--chunks`) make the index smaller; or keep the file: with the sidecar of `hyperchunk index IN`, \
             readers need no chunk index"
                .into()
        },
    ));
    let rows = pick(&|dataset| {
        dataset.chunks.is_none() && dataset.bytes > SMALL_DATASET_BYTES && dataset.stored > 0
    });
    all.extend(about(
        Weight::Note,
        "contiguous",
        &rows,
        |number, _| {
            let datasets = plural(number, "dataset is", "datasets are");
            format!("{datasets} contiguous: slices of rows are read without any other bytes")
        },
        |_| String::new(),
    ));
    let unfiltered = pick(&|dataset| dataset.unfiltered && dataset.stored > 64 << 20);
    all.extend(about(
        Weight::Note,
        "not compressed",
        &unfiltered,
        |number, _| format!("{} not compressed", plural(number, "large dataset is", "large datasets are")),
        |_| {
            "shuffle and deflate often halve the bytes to transfer: `hyperchunk pack IN OUT --filters deflate`".into()
        },
    ));
    let many = pick(&|dataset| dataset.bytes < 4 << 10).len();
    if many > 1000 {
        let what = format!("{many} datasets have less than 4 KiB: each needs an object header");
        all.push(finding(
            Weight::Slow,
            "many small datasets",
            what,
            "join them, or store them as attributes",
        ));
    }
}

/// Formats a number with its noun and verb.
fn plural(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Suggests a chunk shape for slices along the first axis: shorter there, longer along the others.
fn shorter(dataset: &DatasetReport) -> Vec<u64> {
    let Some((chunk, _)) = &dataset.chunks else { return Vec::new() };
    let mut chunk = chunk.clone();
    let rows = dataset.dims.first().copied().unwrap_or(1).div_ceil(100).max(1);
    let Some(first) = chunk.first_mut() else { return chunk };
    let mut times = first.div_ceil(rows);
    *first = (*first).min(rows);
    for (at, extent) in chunk.iter_mut().zip(&dataset.dims).skip(1).rev() {
        let room = extent.div_ceil((*at).max(1)).max(1);
        let grown = times.clamp(1, room);
        *at = at.saturating_mul(grown).min((*extent).max(*at));
        times /= grown;
    }
    chunk
}

/// Suggests a chunk shape of about [`GOOD_CHUNK_BYTES`].
fn larger(dataset: &DatasetReport, mean: u64) -> Vec<u64> {
    let Some((chunk, _)) = &dataset.chunks else { return Vec::new() };
    let mut chunk = chunk.clone();
    let mut times = GOOD_CHUNK_BYTES / mean.max(1);
    for (at, extent) in chunk.iter_mut().zip(&dataset.dims).rev() {
        let room = extent.div_ceil((*at).max(1)).max(1);
        let grown = times.clamp(1, room);
        *at = at.saturating_mul(grown).min((*extent).max(*at));
        times /= grown;
    }
    chunk
}

/// Finds data that are stored in other files or datasets.
fn elsewhere(found: &SurveyReport, all: &mut Vec<Finding>) {
    let paths = |test: &dyn Fn(&SurveyedDataset) -> bool| -> Vec<Vec<u8>> {
        let datasets = found.datasets.iter().filter(|dataset| test(dataset));
        datasets.map(|dataset| found.path(dataset.object)).collect()
    };
    let marked = |files: &[_]| crate::storage::Marker::from_external_files(files).is_some();
    let external = paths(&|dataset| !dataset.header.external.is_empty() && !marked(&dataset.header.external));
    let sharded = paths(&|dataset| marked(&dataset.header.external));
    let virtuals = paths(&|dataset| matches!(dataset.header.layout, Layout::Virtual { .. }));
    let live = paths(&is_live);
    let vlen = paths(&|dataset| dataset.header.datatype.has_vlen());
    for (weight, kind, what, advice, paths) in [
        (
            Weight::Serious,
            "external data",
            ("dataset has its data in other files", "datasets have their data in other files"),
            "copy the data into the file: `hyperchunk pack IN OUT --embed`",
            external,
        ),
        (
            Weight::Note,
            "sharded store",
            (
                "dataset is in a sharded store: its costs are not counted here",
                "datasets are in a sharded store: their costs are not counted here",
            ),
            "convert the store to one file: `hyperchunk store pack IN OUT`",
            sharded,
        ),
        (
            Weight::Note,
            "live",
            (
                "live dataset is computed where it is read: the cost of its inputs is not counted here",
                "live datasets are computed where they are read: the cost of their inputs is not counted here",
            ),
            "",
            live,
        ),
        (
            Weight::Note,
            "virtual",
            (
                "dataset is virtual: its sources are opened one by one",
                "datasets are virtual: their sources are opened one by one",
            ),
            "their costs are not counted here: check the files of the sources, or copy their data into one file: `hyperchunk \
             pack IN OUT --embed`",
            virtuals,
        ),
        (
            Weight::Slow,
            "sequences of any length",
            (
                "dataset has variable-length strings or sequences, which are scattered over the global heap",
                "datasets have variable-length strings or sequences, which are scattered over the global heap",
            ),
            "use fixed-length strings; the cost of reading the heap is not counted here",
            vlen,
        ),
    ] {
        if !paths.is_empty() {
            let what = plural(paths.len(), what.0, what.1);
            let paths = paths.into_iter().take(MAX_PATHS).collect();
            all.push(Finding { paths, ..finding(weight, kind, what, advice) });
        }
    }
}

/// Returns whether a dataset is live: one of its filters is the one of live datasets.
fn is_live(dataset: &SurveyedDataset) -> bool {
    dataset.header.pipeline.iter().any(|filter| filter.id == crate::live::FILTER)
}

fn filters(report: &Report, found: &SurveyReport, all: &mut Vec<Finding>) {
    let mut unknown = Vec::new();
    let mut useless = Vec::new();
    for dataset in &found.datasets {
        let pipeline = &dataset.header.pipeline;
        let known = |id: u16| codec::lookup(id, |codec| codec.is_some());
        if is_live(dataset) {
            continue;
        }
        if pipeline.iter().any(|filter| !known(filter.id)) {
            unknown.push(found.path(dataset.object));
        }
    }
    let compressed: HashSet<usize> = found
        .datasets
        .iter()
        .filter(|dataset| dataset.header.pipeline.iter().any(|filter| COMPRESSORS.contains(&filter.id)))
        .map(|dataset| dataset.object)
        .collect();
    for about in &report.each {
        if compressed.contains(&about.object)
            && about.bytes > SMALL_DATASET_BYTES / 8
            && about.stored >= about.bytes / 20 * 19
        {
            useless.push(about);
        }
    }
    if !unknown.is_empty() {
        let datasets = plural(unknown.len(), "dataset has filters", "datasets have filters");
        let what = format!("{datasets} that this build cannot decode");
        let advice = "register a decoder (`hyperchunk.register_filter`), or make a copy without the filter where its plugin \
                      for libhdf5 is installed: `h5repack -f NONE IN OUT`";
        let paths = unknown.into_iter().take(MAX_PATHS).collect();
        all.push(Finding { paths, ..finding(Weight::Serious, "unknown filter", what, advice) });
    }
    all.extend(about(
        Weight::Slow,
        "useless compression",
        &useless,
        |number, first| {
            format!(
                "{} compressed without effect; the first, from {} bytes to {}",
                plural(number, "dataset is", "datasets are"),
                first.bytes,
                first.stored
            )
        },
        |first| {
            let path = String::from_utf8_lossy(&first.path);
            format!(
                "no filter, since decoding takes time and saves nothing: `hyperchunk pack IN OUT --filter '{path}=none'`; or \
                 shuffle before the compressor, or store fewer digits"
            )
        },
    ));
}
