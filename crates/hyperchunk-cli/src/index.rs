//! `hyperchunk index`.

use crate::Outcome;
use crate::describe;
use crate::json::Text;
use crate::progress::count;
use crate::source::{SourceOptions, is_url};
use clap::Args;
use hyperchunk::index::{Index, NewIndex, SUFFIX, Tables, cached};
use hyperchunk::output::{self, Kind, Output};
use hyperchunk::references::{self, LeftOut};
use hyperchunk::{Error, ErrorKind, File};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The HDF5 file; may be a URL.
    file: String,
    #[command(flatten)]
    what: Indexing,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
Without --output and --cache, the index of a local file is FILE.hcindex beside it, and the index of a URL goes
to the cache folder.

Examples:
  hyperchunk index scene.h5
  hyperchunk index s3://bucket/granule.h5 --anonymous --region us-west-2
  hyperchunk index scene.h5 --kerchunk refs.json --name s3://bucket/scene.h5";

/// Outputs to make of a file, and their locations.
#[derive(Args, Debug, Default, Clone)]
pub struct Indexing {
    /// Write the index to this file.
    #[arg(short, long, value_name = "PATH", conflicts_with = "cache")]
    pub output: Option<PathBuf>,
    /// Write the index to the cache folder, where readers find it by the file's path or URL.
    #[arg(long)]
    pub cache: bool,
    /// Write references for Zarr readers, as kerchunk's JSON. No index is made then, unless -o or --cache
    /// requests it.
    #[arg(long, value_name = "JSON")]
    pub kerchunk: Option<PathBuf>,
    /// Write, for each array, its Zarr metadata and a VirtualiZarr chunk manifest. No index is made then,
    /// unless -o or --cache requests it.
    #[arg(long, value_name = "JSON")]
    pub virtualizarr: Option<PathBuf>,
    /// Replace existing outputs, and a file at the index's usual place that is not an index.
    #[arg(long)]
    pub overwrite: bool,
    /// Name of the file in references, if not the name given here.
    #[arg(long, value_name = "URL")]
    pub name: Option<String>,
    /// Take the locations of chunks from kerchunk's JSON, instead of from the file's own chunk indexes.
    #[arg(long, value_name = "JSON")]
    pub from_kerchunk: Option<PathBuf>,
}

/// Result of indexing a file.
#[derive(Debug)]
pub struct IndexReport {
    /// Path of the index, if one was written.
    pub path: Option<PathBuf>,
    /// The index, and errors of objects that it leaves out.
    pub built: NewIndex,
    /// Objects that references cannot describe: path and reason.
    pub left: BTreeSet<(Vec<u8>, String)>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let file = arguments.source.open_unindexed(&arguments.file)?;
    let made = arguments.what.make(&file, &arguments.file)?;
    for (path, error) in &made.built.errors {
        crate::print_message(&format!("warning: {}: left out of the index: {error}", describe::name(path)));
    }
    for (path, why) in &made.left {
        crate::print_message(&format!(
            "warning: {}: left out of the references: {why}",
            describe::name(path)
        ));
    }
    let Some(path) = &made.path else { return Ok(()) };
    if arguments.json {
        say!("{}", made.to_json());
        return Ok(());
    }
    let built = &made.built;
    say!(
        "{}: {} bytes for {}, {} of them datasets, and {}",
        hyperchunk_udf::escape::escape(&path.display().to_string(), 2000),
        built.bytes.len(),
        count(built.objects as u64, "object", "objects"),
        built.datasets,
        count(built.chunks, "chunk", "chunks")
    );
    Ok(())
}

impl Indexing {
    /// Makes an index of `file`, which was opened without one under the name `given`, and references to its
    /// chunks.
    ///
    /// # Errors
    /// Errors of reading the file; `Invalid` for references that belong to another file; `Io` from writing.
    pub fn make(&self, file: &File, given: &str) -> Result<IndexReport, Error> {
        let place = self.place(given)?;
        self.check(&place, given)?;
        let name = self.name.as_deref().unwrap_or(given);
        let known = match &self.from_kerchunk {
            Some(path) => {
                let text = std::fs::read(path).map_err(|error| io_error("read", path, &error))?;
                references::import(&text, name).map_err(|error| error.file(path.display()))?
            }
            None => Tables::new(),
        };
        let built = Index::build(file, &known)?;
        let exports = [
            (&self.kerchunk, references::Kind::Kerchunk),
            (&self.virtualizarr, references::Kind::VirtualiZarr),
        ];
        let mut made = IndexReport { path: None, built, left: BTreeSet::new() };
        let mut exported = false;
        for (path, kind) in exports {
            let Some(path) = path else { continue };
            exported = true;
            made.left.extend(export(file, name, &made.built.bytes, (path, self.overwrite), kind)?);
        }
        if exported && !self.cache && self.output.is_none() {
            return Ok(made);
        }
        let folder = place.parent().filter(|_| self.output.is_none());
        if let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) {
            output::make_folders(folder)?;
            if self.cache {
                hyperchunk::companion::tighten(folder, Path::new(""));
            }
        }
        let bytes = &made.built.bytes;
        let cannot = |error: std::io::Error| io_error("write", &place, &error);
        let mut output = Output::create(&place, self.overwrite || self.output.is_none())?;
        output.write_all(bytes).map_err(cannot)?;
        output.tighten(Path::new(if self.cache {
            ""
        } else {
            given.strip_prefix("file://").unwrap_or(given)
        }));
        output.finish()?;
        made.path = Some(place);
        Ok(made)
    }

    /// Refuses outputs that exist, or that are an input or another output. An index at its usual place is
    /// replaced.
    fn check(&self, place: &Path, given: &str) -> Result<(), Error> {
        let given = Path::new(given.strip_prefix("file://").unwrap_or(given));
        let inputs: Vec<&Path> = [Some(given), self.from_kerchunk.as_deref()].into_iter().flatten().collect();
        let named: Vec<&Path> = [&self.output, &self.kerchunk, &self.virtualizarr]
            .into_iter()
            .filter_map(Option::as_deref)
            .collect();
        named.iter().try_for_each(|path| output::check(path, self.overwrite, &inputs))?;
        output::check(place, true, &inputs)?;
        let makes_one = self.kerchunk.is_none() && self.virtualizarr.is_none() || self.cache;
        if makes_one && self.output.is_none() && !self.overwrite {
            hyperchunk::index::check_replaced(place)?;
        }
        let references = [self.kerchunk.as_ref(), self.virtualizarr.as_ref()];
        references.into_iter().flatten().try_for_each(|path| output::accept(path, &[Kind::References]))?;
        self.output.as_ref().map_or(Ok(()), |path| output::accept(path, &[Kind::Index]))?;
        for (number, path) in named.iter().enumerate() {
            if named.iter().skip(number + 1).any(|other| other == path) {
                let message = format!("cannot write {}: two outputs have this name", path.display());
                return Err(Error::invalid(message));
            }
        }
        Ok(())
    }

    /// Returns the path of the index.
    fn place(&self, given: &str) -> Result<PathBuf, Error> {
        if let Some(path) = &self.output {
            return Ok(path.clone());
        }
        let given = given.strip_prefix("file://").unwrap_or(given);
        if !self.cache && !is_url(given) {
            return Ok(PathBuf::from(format!("{given}{SUFFIX}")));
        }
        let name = if is_url(given) {
            given.to_owned()
        } else {
            let path = std::path::absolute(Path::new(given));
            path.map_err(|error| io_error("find", Path::new(given), &error))?.display().to_string()
        };
        let none = || Error::new(ErrorKind::Io, "cannot find the cache folder: HOME is not set");
        cached(&name).ok_or_else(none)
    }
}

impl IndexReport {
    /// Returns the result as JSON.
    pub fn to_json(&self) -> String {
        let IndexReport { path, built, left } = self;
        let told = |(path, why): (&[u8], &dyn std::fmt::Display)| {
            format!("{{\"path\": {}, \"why\": {}}}", Text(path), serde_json::json!(why.to_string()))
        };
        let errors: Vec<String> = built.errors.iter().map(|(path, error)| told((path, error))).collect();
        let left: Vec<String> = left.iter().map(|(path, why)| told((path, why))).collect();
        let path = path.as_ref().map(|path| path.display().to_string());
        format!(
            "{{\"index\": {}, \"bytes\": {}, \"objects\": {}, \"datasets\": {}, \"chunks\": {}, \
             \"structure_bytes\": {}, \"table_bytes\": {}, \"left_out\": {}, \"errors\": [{}], \"not_in_references\": [{}]}}",
            serde_json::json!(path),
            built.bytes.len(),
            built.objects,
            built.datasets,
            built.chunks,
            built.structure,
            built.tables,
            built.errors.len(),
            errors.join(", "),
            left.join(", ")
        )
    }
}

/// Writes references. They are made from the new index, without reading the file again.
fn export(
    file: &File,
    name: &str,
    index: &[u8],
    (path, overwrite): (&Path, bool),
    kind: references::Kind,
) -> Result<LeftOut, Error> {
    let limits = &file.options().limits;
    let file = file.with_index(Index::open(index.to_vec(), "the new index", limits)?)?;
    let cannot = |error: std::io::Error| io_error("write", path, &error);
    let mut out = std::io::BufWriter::new(Output::create(path, overwrite)?);
    let left = references::export(&file, name, kind, &mut out)?;
    out.into_inner().map_err(|error| cannot(error.into_error()))?.finish()?;
    Ok(left)
}

fn io_error(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {what} {}: {error}", path.display()))
}
