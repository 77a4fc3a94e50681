//! `hyperchunk pack`.

use crate::Outcome;
use crate::describe;
use crate::progress::{self, Progress};
use crate::source::{SourceOptions, is_url};
use clap::{Args, ValueEnum};
use hyperchunk::encode::LibVersion;
use hyperchunk::output;
use hyperchunk::pack::{
    Chunking, Filtering, Input, PackOptions, PackPlan, PackReport, VerifyReport, pack_in_place,
};
use hyperchunk_udf::escape::escape;
use serde_json::json;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

#[derive(Args, Debug)]
#[command(
    after_help = HELP,
    override_usage = "hyperchunk pack [OPTIONS] <IN>... <OUT>\n       hyperchunk pack --in-place [OPTIONS] <FILE>..."
)]
pub(crate) struct Arguments {
    /// The files to pack, then the file to make; each may be a URL. With --in-place, the files to pack.
    #[arg(value_name = "FILE", num_args = 1.., required = true)]
    files: Vec<String>,
    /// Replace each local FILE by its packed form, which is written beside it and compared with it first.
    #[arg(long, conflicts_with_all = ["overwrite", "into"])]
    in_place: bool,
    /// Replace an existing OUT.
    #[arg(long)]
    overwrite: bool,
    /// Rechunk all datasets (auto: chunks of about a megabyte; contiguous: no chunks), or one: PATH=10x20.
    #[arg(long, value_name = "[PATH=]SHAPE", value_parser = chunks)]
    chunks: Vec<(Option<String>, Chunking)>,
    /// Recompress all datasets: deflate (readable by every HDF5), fast, small, snappy, none, or keep.
    #[arg(long, value_name = "PRESET", value_parser = filtering, default_value = "keep")]
    filters: Filtering,
    /// Recompress one dataset.
    #[arg(long, value_name = "PATH=PRESET", value_parser = filter)]
    filter: Vec<(String, Filtering)>,
    /// Place the structure after the data (plain), or for object stores in front of them (cloud), where one
    /// request brings all of it.
    #[arg(long, value_enum, default_value = "plain")]
    layout: Layout,
    /// Oldest version of HDF5 that must be able to read OUT. auto: the oldest that can hold the contents.
    #[arg(long, value_enum, default_value = "auto")]
    libver: Version,
    /// Group of OUT that IN becomes: one for all files, or one for each. Without it, a single IN becomes the
    /// root group, and each of several a group of its own name.
    #[arg(long, value_name = "GROUP")]
    into: Vec<String>,
    /// Store the data of other files that IN refers to: external raw data, and sources of virtual datasets.
    #[arg(long)]
    embed: bool,
    /// Read both files again, and compare links, types and the digests of all attributes and datasets.
    #[arg(long)]
    verify: bool,
    /// Number of threads; 0: one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Approximate number of bytes of data held at a time.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    memory: u64,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
Datasets whose chunks, filters and type do not change are copied as stored, without decoding. Live datasets
always are: their programs are copied, and never run. They name their inputs by their paths: a note tells of each that
has other inputs in OUT, and --verify fails for it.
OUT appears when it is complete. An object that cannot be copied is an error that names it.
With --in-place, FILE stays as it is until its packed form is complete, compared with it and on the disk. It keeps
its permissions, owner and extended attributes where that is possible.

Examples:
  hyperchunk pack old.h5 new.h5 --verify
  hyperchunk pack old.h5 new.h5 --filters deflate --chunks auto
  hyperchunk pack old.h5 new.h5 --filter /images=fast --chunks /images=1x512x512
  hyperchunk pack s3://bucket/granule.h5 cloud.h5 --layout cloud --chunks auto
  hyperchunk pack granule.h5 s3://bucket/granule.h5 --layout cloud --verify
  hyperchunk pack monday.h5 tuesday.h5 week.h5
  hyperchunk pack --in-place run.h5";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layout {
    Plain,
    Cloud,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Version {
    Auto,
    V18,
    V110,
    V200,
}

/// Splits `PATH=REST`; without a path, returns the whole text.
fn split_rule(text: &str) -> (Option<String>, &str) {
    match text.rsplit_once('=') {
        Some((path, rest)) => (Some(path.to_owned()), rest),
        None => (None, text),
    }
}

fn chunks(text: &str) -> Result<(Option<String>, Chunking), String> {
    let (path, shape) = split_rule(text);
    let chunking = match shape {
        "auto" => Chunking::Auto,
        "keep" => Chunking::Keep,
        "contiguous" => Chunking::Contiguous,
        shape => {
            let numbers = shape.split(['x', ',']).map(|number| number.trim().parse().ok().filter(|n| *n > 0));
            let numbers: Option<Vec<u64>> = numbers.collect();
            Chunking::Shape(numbers.ok_or("expected auto, keep, contiguous or a shape such as 10x20")?)
        }
    };
    if path.is_none() && matches!(chunking, Chunking::Shape(_)) {
        return Err("expected PATH=SHAPE: a shape applies to one dataset".into());
    }
    Ok((path, chunking))
}

fn filtering(text: &str) -> Result<Filtering, String> {
    let presets = hyperchunk::codec::PRESETS;
    match text {
        "keep" => Ok(Filtering::Keep),
        "none" => Ok(Filtering::None),
        name => match presets.iter().find(|(known, _)| *known == name) {
            Some((known, _)) => Ok(Filtering::Preset(known)),
            None => {
                let known: Vec<&str> = presets.iter().map(|(known, _)| *known).collect();
                let advice = hyperchunk::codec::preset_with(name);
                let advice =
                    advice.map_or_else(String::new, |preset| format!("; {preset} has that compression"));
                Err(format!("expected keep or one of {}{advice}", known.join(", ")))
            }
        },
    }
}

fn filter(text: &str) -> Result<(String, Filtering), String> {
    match split_rule(text) {
        (Some(path), preset) => Ok((path, filtering(preset)?)),
        _ => Err("expected PATH=PRESET".into()),
    }
}

impl Arguments {
    fn options(&self) -> PackOptions {
        let mut options = PackOptions::default();
        options.oldest = match self.libver {
            Version::Auto => None,
            Version::V18 => Some(LibVersion::V18),
            Version::V110 => Some(LibVersion::V110),
            Version::V200 => Some(LibVersion::V200),
        };
        options.threads = self.threads;
        options.cloud = self.layout == Layout::Cloud;
        options.replace = self.overwrite;
        options.embed = self.embed;
        options.filters = self.filters;
        options.filter_rules.clone_from(&self.filter);
        options.memory = self.memory.max(1);
        for (path, chunking) in &self.chunks {
            match path {
                Some(path) => options.chunk_rules.push((path.clone(), chunking.clone())),
                None => options.chunks = chunking.clone(),
            }
        }
        options
    }

    /// Returns the group of OUT for each file.
    fn groups(&self, files: &[String]) -> Result<Vec<String>, String> {
        match &self.into[..] {
            [] if files.len() == 1 => Ok(vec![String::new()]),
            [] => {
                let mut groups: Vec<String> = files.iter().map(|file| stem(file)).collect();
                let count = groups.len();
                if let Some(empty) = groups.iter().position(String::is_empty) {
                    return Err(format!("cannot name a group after {}; use --into", files[empty]));
                }
                groups.sort();
                groups.dedup();
                if groups.len() < count {
                    return Err(
                        "cannot name groups after files of the same name; use --into for each file".into()
                    );
                }
                Ok(files.iter().map(|file| stem(file)).collect())
            }
            [one] => Ok(vec![one.clone(); files.len()]),
            each if each.len() == files.len() => Ok(each.to_vec()),
            each => Err(format!(
                "expected --into once, or once for each of {} files, got {}",
                files.len(),
                each.len()
            )),
        }
    }
}

/// Returns a file's name without folder and suffix.
fn stem(file: &str) -> String {
    let name = if is_url(file) { file.split(['?', '#']).next().unwrap_or_default() } else { file };
    let name = name.trim_end_matches('/').rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem });
    name.to_owned()
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if arguments.in_place {
        return in_place(arguments);
    }
    let Some((out, files)) = arguments.files.split_last().filter(|(_, files)| !files.is_empty()) else {
        return Err("expected files to pack, and OUT; --in-place packs a file in place".into());
    };
    if is_url(out) && files.contains(out) {
        return Err("cannot write OUT: it is one of the packed files".into());
    }
    if !is_url(out) {
        let inputs: Vec<&Path> = files.iter().map(|file| local(file)).collect();
        output::accept(local(out), &[output::Kind::Hdf5])?;
        output::check(local(out), arguments.overwrite, &inputs)?;
    }
    let started = Instant::now();
    let groups = arguments.groups(files)?;
    let mut inputs = Vec::with_capacity(files.len());
    for (file, into) in files.iter().zip(groups) {
        inputs.push(Input { file: arguments.source.open(file)?, into });
    }
    let read: u64 = inputs.iter().map(|input| input.file.size()).sum();
    let packing = PackPlan::new(inputs, arguments.options())?;
    let total = packing.total();
    let progress = Mutex::new(Progress::new(total));
    let packed = if is_url(out) {
        packing.write_url(out, &arguments.source.open_options().remote, &report_to(&progress))?
    } else {
        packing.write(local(out), &report_to(&progress))?
    };
    drop(progress);
    let seconds = started.elapsed().as_secs_f64();
    let verified = if arguments.verify { Some(verify(arguments, &packing, out, total)?) } else { None };
    if arguments.json {
        say!("{}", as_json((out, files), read, &packed, verified.as_ref(), seconds));
        return Ok(());
    }
    report(out, read, &packed, verified.as_ref(), seconds);
    Ok(())
}

/// Packs files in place.
fn in_place(arguments: &Arguments) -> Outcome {
    if let Some(url) = arguments.files.iter().find(|file| is_url(file)) {
        let url = escape(url, 2000);
        return Err(
            format!("cannot pack {url} in place: expected a local file; pack it to another URL").into()
        );
    }
    for file in &arguments.files {
        let started = Instant::now();
        let path = local(file);
        let read = path.metadata().map_or(0, |metadata| metadata.len());
        let progress = Mutex::new(Progress::new(read));
        let packed =
            pack_in_place(path, &arguments.source.open_options(), arguments.options(), &report_to(&progress));
        drop(progress);
        let (packed, verified) = packed?;
        let seconds = started.elapsed().as_secs_f64();
        if arguments.json {
            let of = (file.as_str(), std::slice::from_ref(file));
            say!("{}", as_json(of, read, &packed, Some(&verified), seconds));
        } else {
            report(file, read, &packed, Some(&verified), seconds);
        }
    }
    Ok(())
}

/// Returns the path of a local file's name, which may be a `file://` URL.
fn local(name: &str) -> &Path {
    Path::new(name.strip_prefix("file://").unwrap_or(name))
}

fn report_to(progress: &Mutex<Progress>) -> impl Fn(u64) + Sync {
    |bytes| {
        if let Ok(mut progress) = progress.lock() {
            progress.add(bytes);
        }
    }
}

fn verify(
    arguments: &Arguments,
    packing: &PackPlan,
    out: &str,
    total: u64,
) -> Result<VerifyReport, Box<dyn std::error::Error>> {
    let new = arguments.source.open_unindexed(out)?;
    let verified = packing.verify(&new, &report_to(&Mutex::new(Progress::new(total))));
    verified.map_err(|error| format!("{error}; {out} is kept for inspection").into())
}

fn report(out: &str, read: u64, packed: &PackReport, verified: Option<&VerifyReport>, seconds: f64) {
    for note in &packed.notes {
        crate::print_message(&format!("note: {note}"));
    }
    let many = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    say!(
        "{}: {} from {}, {}, {} and {} in {seconds:.1} s",
        escape(out, 2000),
        progress::bytes(packed.size),
        progress::bytes(read),
        many(packed.datasets as u64, "dataset"),
        many(packed.groups as u64, "group"),
        many(packed.attributes, "attribute")
    );
    if packed.oldest > LibVersion::V18 {
        say!("  readable by HDF5 {} and later", describe::release(packed.oldest));
    }
    if let Some(page) = packed.page {
        say!("  structure in the first {}", progress::bytes(page));
    }
    if let Some(verified) = verified {
        say!(
            "  verified: {}, {} and {} are the same",
            many(verified.datasets, "dataset"),
            many(verified.attributes, "attribute"),
            many(verified.links, "link")
        );
    }
}

fn as_json(
    (out, files): (&str, &[String]),
    read: u64,
    packed: &PackReport,
    verified: Option<&VerifyReport>,
    seconds: f64,
) -> serde_json::Value {
    json!({
        "file": out,
        "from": files,
        "bytes_from": read,
        "bytes": packed.size,
        "groups": packed.groups,
        "datasets": packed.datasets,
        "datatypes": packed.datatypes,
        "attributes": packed.attributes,
        "chunks_copied": packed.chunks_copied,
        "pieces_rewritten": packed.chunks_rewritten,
        "readable_since": describe::release(packed.oldest),
        "page": packed.page,
        "notes": packed.notes,
        "verified": verified.map(|verified| json!({
            "datasets": verified.datasets,
            "attributes": verified.attributes,
            "links": verified.links,
        })),
        "seconds": seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        assert_eq!(chunks("auto"), Ok((None, Chunking::Auto)));
        assert_eq!(chunks("/a=b=10x5"), Ok((Some("/a=b".into()), Chunking::Shape(vec![10, 5]))));
        assert_eq!(chunks("/a=contiguous"), Ok((Some("/a".into()), Chunking::Contiguous)));
        for wrong in ["10x5", "/a=", "/a=0", "/a=10y5", "some"] {
            assert!(chunks(wrong).is_err(), "{wrong}");
        }
        assert_eq!(filter("/a=none"), Ok(("/a".into(), Filtering::None)));
        assert_eq!(filter("/a=fast"), Ok(("/a".into(), Filtering::Preset("fast"))));
        assert!(filter("fast").is_err() && filter("/a=gzip").is_err());
    }

    #[test]
    fn names_of_groups() {
        let names = ["/a/b.c.h5", "s3://bucket/x/y.nc?z=1.2", ".h5", "plain"].map(stem);
        assert_eq!(names, ["b.c", "y", ".h5", "plain"]);
    }
}
