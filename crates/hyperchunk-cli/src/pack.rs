//! `hyperchunk pack`.

use crate::Outcome;
use crate::describe;
use crate::progress::{self, Progress};
use crate::source::{SourceOptions, is_url};
use clap::{Args, ValueEnum};
use hyperchunk::encode::LibVersion;
use hyperchunk::output;
use hyperchunk::pack::{Chunking, Filtering, Input, PackOptions, Packed, Packing, Verified};
use hyperchunk_udf::escape::escape;
use serde_json::json;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

#[derive(Args, Debug)]
#[command(after_help = HELP, override_usage = "hyperchunk pack [OPTIONS] <IN>... <OUT>")]
pub(crate) struct Arguments {
    /// The files to pack, which may be URLs; then the file to make, or the URL of an object.
    #[arg(value_name = "FILE", num_args = 2.., required = true)]
    files: Vec<String>,
    /// Replace OUT if it is there.
    #[arg(long)]
    overwrite: bool,
    /// Chunk all datasets anew (`auto`: in chunks of about a megabyte; `contiguous`: in one piece), or one: PATH=10x20.
    #[arg(long, value_name = "[PATH=]SHAPE", value_parser = chunks)]
    chunks: Vec<(Option<String>, Chunking)>,
    /// Compress all datasets anew: deflate (every HDF5 reads it), fast, small, or none.
    #[arg(long, value_name = "PRESET", value_parser = filtering, default_value = "keep")]
    filters: Filtering,
    /// Compress one dataset anew.
    #[arg(long, value_name = "PATH=PRESET", value_parser = filter)]
    filter: Vec<(String, Filtering)>,
    /// Where structure lies: behind the data, or for object stores in front of it, so that one request brings all of it.
    #[arg(long, value_enum, default_value = "plain")]
    layout: Layout,
    /// The oldest HDF5 that must be able to read OUT. `auto`: the oldest that can hold it.
    #[arg(long, value_enum, default_value = "auto")]
    libver: Version,
    /// The group of OUT that IN becomes; once for all of them, or once for each. Without it, a single IN becomes the root
    /// group, and each of several a group of its own name.
    #[arg(long, value_name = "GROUP")]
    into: Vec<String>,
    /// Store what lies in other files: external raw data, and what virtual datasets show.
    #[arg(long)]
    embed: bool,
    /// Read both files again when OUT is written, and compare links, types and the digests of all attributes and datasets.
    #[arg(long)]
    verify: bool,
    /// How many threads work; 0 for as many as there are processors.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// How many bytes of data are held at a time, about.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    memory: u64,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
Datasets whose chunks, filters and type stay as they are, are copied as they are stored: nothing is decoded. So are live
datasets, always: their programs are copied and never run.
OUT has its name when it is whole; what cannot be copied is an error that names it.

Examples:
  hyperchunk pack old.h5 new.h5 --verify
  hyperchunk pack old.h5 new.h5 --filters deflate --chunks auto
  hyperchunk pack old.h5 new.h5 --filter /images=fast --chunks /images=1x512x512
  hyperchunk pack s3://bucket/granule.h5 cloud.h5 --layout cloud --chunks auto
  hyperchunk pack granule.h5 s3://bucket/granule.h5 --layout cloud --verify
  hyperchunk pack monday.h5 tuesday.h5 week.h5";

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

/// A part of text that names a dataset, and the rest.
fn rule(text: &str) -> (Option<String>, &str) {
    match text.rsplit_once('=') {
        Some((path, rest)) => (Some(path.to_owned()), rest),
        None => (None, text),
    }
}

fn chunks(text: &str) -> Result<(Option<String>, Chunking), String> {
    let (path, shape) = rule(text);
    let chunking = match shape {
        "auto" => Chunking::Auto,
        "keep" => Chunking::Keep,
        "contiguous" => Chunking::Contiguous,
        shape => {
            let numbers = shape.split(['x', ',']).map(|number| number.trim().parse().ok().filter(|n| *n > 0));
            let numbers: Option<Vec<u64>> = numbers.collect();
            Chunking::Shape(numbers.ok_or("auto, keep, contiguous or a shape such as 10x20 is expected")?)
        }
    };
    if path.is_none() && matches!(chunking, Chunking::Shape(_)) {
        return Err("a shape is for one dataset: PATH=SHAPE".into());
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
                Err(format!("keep or one of {} is expected", known.join(", ")))
            }
        },
    }
}

fn filter(text: &str) -> Result<(String, Filtering), String> {
    match rule(text) {
        (Some(path), preset) => Ok((path, filtering(preset)?)),
        _ => Err("PATH=PRESET is expected".into()),
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

    /// The groups that the files become.
    fn groups(&self, files: &[String]) -> Result<Vec<String>, String> {
        match &self.into[..] {
            [] if files.len() == 1 => Ok(vec![String::new()]),
            [] => {
                let mut groups: Vec<String> = files.iter().map(|file| stem(file)).collect();
                let count = groups.len();
                if let Some(empty) = groups.iter().position(String::is_empty) {
                    return Err(format!("--into must name the group for {}", files[empty]));
                }
                groups.sort();
                groups.dedup();
                if groups.len() < count {
                    return Err("files of the same name: --into must name a group for each".into());
                }
                Ok(files.iter().map(|file| stem(file)).collect())
            }
            [one] => Ok(vec![one.clone(); files.len()]),
            each if each.len() == files.len() => Ok(each.to_vec()),
            each => Err(format!("{} groups for {} files", each.len(), files.len())),
        }
    }
}

/// The name of a file without its folder and its kind.
fn stem(file: &str) -> String {
    let name = if is_url(file) { file.split(['?', '#']).next().unwrap_or_default() } else { file };
    let name = name.trim_end_matches('/').rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem });
    name.to_owned()
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Some((out, files)) = arguments.files.split_last() else { return Err("no files".into()) };
    if is_url(out) && files.contains(out) {
        return Err("OUT is one of the files that are packed".into());
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
    let packing = Packing::new(inputs, arguments.options())?;
    let total = packing.total();
    let progress = Mutex::new(Progress::new(total));
    let packed = if is_url(out) {
        packing.write_url(out, &arguments.source.open_options().remote, &shown(&progress))?
    } else {
        packing.write(local(out), &shown(&progress))?
    };
    drop(progress);
    let seconds = started.elapsed().as_secs_f64();
    let verified = if arguments.verify { Some(verify(arguments, &packing, out, total)?) } else { None };
    if arguments.json {
        say!("{}", as_json(arguments, out, read, &packed, verified.as_ref(), seconds));
        return Ok(());
    }
    report(out, read, &packed, verified.as_ref(), seconds);
    Ok(())
}

/// The path that a name stands for.
fn local(name: &str) -> &Path {
    Path::new(name.strip_prefix("file://").unwrap_or(name))
}

fn shown(progress: &Mutex<Progress>) -> impl Fn(u64) + Sync {
    |bytes| {
        if let Ok(mut progress) = progress.lock() {
            progress.add(bytes);
        }
    }
}

fn verify(
    arguments: &Arguments,
    packing: &Packing,
    out: &str,
    total: u64,
) -> Result<Verified, Box<dyn std::error::Error>> {
    let new = arguments.source.open_unindexed(out)?;
    let verified = packing.verify(&new, &shown(&Mutex::new(Progress::new(total))));
    verified.map_err(|error| format!("{error}; {out} is left for you to look at").into())
}

fn report(out: &str, read: u64, packed: &Packed, verified: Option<&Verified>, seconds: f64) {
    for note in &packed.notes {
        crate::complain(&format!("note: {note}"));
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
        say!("  readable by HDF5 {} and later", describe::oldest(packed.oldest));
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
    arguments: &Arguments,
    out: &str,
    read: u64,
    packed: &Packed,
    verified: Option<&Verified>,
    seconds: f64,
) -> serde_json::Value {
    let (_, files) = arguments.files.split_last().unwrap_or((&arguments.files[0], &[]));
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
        "readable_since": describe::oldest(packed.oldest),
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
