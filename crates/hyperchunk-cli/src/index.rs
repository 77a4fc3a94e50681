//! `hyperchunk index`.

use crate::Outcome;
use crate::describe;
use crate::output::Output;
use crate::source::{SourceOptions, is_url};
use clap::Args;
use hyperchunk::index::{Index, SUFFIX, Tables, cached};
use hyperchunk::references::{self, Kind, LeftOut};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The HDF5 file; may be a URL.
    file: String,
    /// Write the index here.
    #[arg(short, long, value_name = "PATH", conflicts_with = "cache")]
    output: Option<PathBuf>,
    /// Write the index to the cache folder, where it is found by the file's path or URL.
    #[arg(long)]
    cache: bool,
    /// Also write references for readers of Zarr: kerchunk's JSON. No index is made then, unless -o or --cache asks for it.
    #[arg(long, value_name = "JSON")]
    kerchunk: Option<PathBuf>,
    /// As --kerchunk: for each array its metadata and a chunk manifest of VirtualiZarr's.
    #[arg(long, value_name = "JSON")]
    virtualizarr: Option<PathBuf>,
    /// What references call the file, if not by the name given here.
    #[arg(long, value_name = "URL")]
    name: Option<String>,
    /// Take the places of chunks from kerchunk's JSON, instead of from the file's own indexes of chunks.
    #[arg(long, value_name = "JSON")]
    from_kerchunk: Option<PathBuf>,
    /// Print what was made as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
Without --output and --cache, the index of a file of this machine is FILE.hcindex beside it, and that of a URL goes to the
cache folder.

Examples:
  hyperchunk index scene.h5
  hyperchunk index s3://bucket/granule.h5 --anonymous --region us-west-2
  hyperchunk index scene.h5 --kerchunk refs.json --name s3://bucket/scene.h5";

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let path = place(arguments)?;
    let file = arguments.source.open_unindexed(&arguments.file)?;
    let known = match &arguments.from_kerchunk {
        Some(path) => {
            let text =
                std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let name = arguments.name.as_deref().unwrap_or(&arguments.file);
            references::import(&text, name).map_err(|error| error.file(path.display()))?
        }
        None => Tables::new(),
    };
    let built = Index::build(&file, &known)?;
    for (path, error) in &built.errors {
        crate::complain(&format!("warning: {}: left out of the index: {error}", describe::name(path)));
    }
    let exports = [(&arguments.kerchunk, Kind::Kerchunk), (&arguments.virtualizarr, Kind::VirtualiZarr)];
    let mut exported = false;
    let mut left = BTreeSet::new();
    for (path, kind) in exports {
        let Some(path) = path else { continue };
        exported = true;
        left.extend(export(arguments, &built.bytes, path, kind)?);
    }
    for (path, why) in left {
        crate::complain(&format!("warning: {}: left out of the references: {why}", describe::name(&path)));
    }
    if exported && !arguments.cache && arguments.output.is_none() {
        return Ok(());
    }
    if let Some(folder) =
        path.parent().filter(|folder| arguments.output.is_none() && !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    }
    crate::output::write(&path, &built.bytes)?;
    let shown = hyperchunk_udf::escape::escape(&path.display().to_string(), 2000);
    if arguments.json {
        say!(
            "{}",
            serde_json::json!({
                "index": path.display().to_string(),
                "bytes": built.bytes.len(),
                "objects": built.objects,
                "datasets": built.datasets,
                "chunks": built.chunks,
                "structure_bytes": built.structure,
                "table_bytes": built.tables,
                "left_out": built.errors.len(),
            })
        );
        return Ok(());
    }
    say!(
        "{shown}: {} bytes for {} objects, {} of them datasets, and {} chunks",
        built.bytes.len(),
        built.objects,
        built.datasets,
        built.chunks
    );
    Ok(())
}

/// Writes references. The index that was made has all that they say.
fn export(
    arguments: &Arguments,
    index: &[u8],
    path: &Path,
    kind: Kind,
) -> Result<LeftOut, Box<dyn std::error::Error>> {
    let file = arguments.source.open_with_index(&arguments.file, index)?;
    let name = arguments.name.as_deref().unwrap_or(&arguments.file);
    let cannot = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    let mut out = std::io::BufWriter::new(Output::create(path).map_err(cannot)?);
    let left = references::export(&file, name, kind, &mut out)?;
    out.into_inner().map_err(|error| cannot(error.into_error()))?.finish().map_err(cannot)?;
    Ok(left)
}

/// Where the index goes.
fn place(arguments: &Arguments) -> Result<PathBuf, String> {
    if let Some(path) = &arguments.output {
        return Ok(path.clone());
    }
    if !arguments.cache && !is_url(&arguments.file) {
        return Ok(PathBuf::from(format!("{}{SUFFIX}", arguments.file)));
    }
    let name = if is_url(&arguments.file) {
        arguments.file.clone()
    } else {
        let path = std::path::absolute(Path::new(&arguments.file));
        path.map_err(|error| error.to_string())?.display().to_string()
    };
    cached(&name).ok_or_else(|| "there is no cache folder: HOME is not set".into())
}
