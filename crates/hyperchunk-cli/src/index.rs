//! `hyperchunk index`.

use crate::Outcome;
use crate::describe;
use crate::source::{SourceOptions, is_url};
use clap::Args;
use hyperchunk::index::{Index, SUFFIX, Tables, cached};
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
  hyperchunk index s3://bucket/granule.h5 --anonymous --region us-west-2";

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let path = place(arguments)?;
    let file = arguments.source.open_unindexed(&arguments.file)?;
    let built = Index::build(&file, &Tables::new())?;
    for (path, error) in &built.errors {
        crate::complain(&format!("warning: {}: left out of the index: {error}", describe::name(path)));
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
