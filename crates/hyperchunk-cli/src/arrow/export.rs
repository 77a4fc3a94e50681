//! `hyperchunk arrow export`.

use crate::Outcome;
use crate::progress::{self, Progress};
use crate::source::SourceOptions;
use clap::{Args, ValueEnum};
use hyperchunk::model::ObjectKind;
use hyperchunk::{Error, Object, output};
use hyperchunk_arrow::transfer::{Export, ExportOptions, ExportSummary, Format};
use hyperchunk_arrow::{Cells, Compounds, ConversionOptions, Enums, Half, Strings};
use hyperchunk_udf::escape::escape;
use serde_json::json;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The HDF5 file, or an object in it; may be a URL.
    #[arg(value_name = "FILE[:/OBJECT]")]
    source: String,
    /// Output: .arrow, .feather or .ipc (an IPC file), .arrows (an IPC stream), .parquet, or a folder.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Format of OUT, if its suffix does not determine it.
    #[arg(long, value_enum)]
    format: Option<Kind>,
    /// Replace an existing OUT: a file, or the folder of an earlier export.
    #[arg(long)]
    overwrite: bool,
    /// Rows of multidimensional datasets: tensors (pyarrow, NumPy), or nested lists (SQL).
    #[arg(long, value_enum, default_value = "tensor")]
    cells: CellsLook,
    /// Strings: text, or the stored bytes.
    #[arg(long, value_enum, default_value = "text")]
    strings: StringsLook,
    /// 2-byte floats: unchanged, or converted to float32, for tools without float16.
    #[arg(long, value_enum, default_value = "float16")]
    half: HalfLook,
    /// Enumerations: integers, with the names in the metadata, or dictionaries of names.
    #[arg(long, value_enum, default_value = "values")]
    enums: EnumsLook,
    /// Datasets of compounds: tables, or one column of structs.
    #[arg(long, value_enum, default_value = "columns")]
    compounds: CompoundsLook,
    /// Leave out objects that cannot be exported, with a note, instead of failing.
    #[arg(long)]
    keep_going: bool,
    /// Refuse datasets larger than this.
    #[arg(long, value_name = "BYTES")]
    most_bytes: Option<u64>,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source_options: SourceOptions,
}

const HELP: &str = "\
Nothing is lost: the metadata hold types, extents, attributes, fill values and the layout, and `hyperchunk
arrow import` makes the same HDF5 file again. An exported folder has an IPC file for each dataset, in folders
like the groups, and hyperchunk.json with groups, links and attributes.
A dataset of compounds becomes a table of its members; any other becomes a table of one column. If OUT is a
file, a group whose datasets have the same length becomes a table with a column for each. Data pass through
memory in batches.
OUT appears when it is complete.

Examples:
  hyperchunk arrow export run.h5 run/
  hyperchunk arrow export run.h5:/events events.parquet
  hyperchunk arrow export run.h5:/Timestep_0 particles.arrow
  hyperchunk arrow export run.h5:/images images.arrow --cells list
  hyperchunk arrow export s3://bucket/run.h5:/events events.arrow";

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Arrow,
    Stream,
    Parquet,
    Folder,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum CellsLook {
    Tensor,
    List,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum StringsLook {
    Text,
    Stored,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum HalfLook {
    Float16,
    Float32,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum EnumsLook {
    Values,
    Dictionary,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum CompoundsLook {
    Columns,
    Struct,
}

impl Arguments {
    fn options(&self) -> ExportOptions {
        let mut conversion = ConversionOptions::default();
        conversion.cells = match self.cells {
            CellsLook::Tensor => Cells::Tensor,
            CellsLook::List => Cells::List,
        };
        conversion.strings = match self.strings {
            StringsLook::Text => Strings::Text,
            StringsLook::Stored => Strings::Stored,
        };
        conversion.half = match self.half {
            HalfLook::Float16 => Half::Float16,
            HalfLook::Float32 => Half::Float32,
        };
        conversion.enums = match self.enums {
            EnumsLook::Values => Enums::Values,
            EnumsLook::Dictionary => Enums::Dictionary,
        };
        conversion.compounds = match self.compounds {
            CompoundsLook::Columns => Compounds::Columns,
            CompoundsLook::Struct => Compounds::Struct,
        };
        let mut options = ExportOptions::default();
        options.conversion = conversion;
        options.replace = self.overwrite;
        options.keep_going = self.keep_going;
        options.most_bytes = self.most_bytes;
        options
    }

    /// Returns the format of OUT; `None` for a folder.
    fn format(&self) -> Option<Format> {
        match self.format {
            Some(Kind::Arrow) => Some(Format::File),
            Some(Kind::Stream) => Some(Format::Stream),
            Some(Kind::Parquet) => Some(Format::Parquet),
            Some(Kind::Folder) => None,
            None => Format::of(&self.out),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let started = Instant::now();
    let target = arguments.source_options.open_object(&arguments.source)?;
    let format = arguments.format();
    let mut export = Export::new(&target.object, arguments.options())?;
    let mut omitted = None;
    if export.is_folder() && format.is_some() {
        omitted = omitted_groups(&target.object)?;
        let datasets: Vec<_> = export.datasets().map(|dataset| dataset.object().clone()).take(2).collect();
        let is_table = target.object.attribute("h5.table")?.is_some();
        export = match &datasets[..] {
            [only] if !is_table => Export::new(only, arguments.options())?,
            [] => {
                return Err("cannot export to a file: the group has no datasets; use a folder".into());
            }
            _ => Export::from_columns(&target.object, arguments.options()).map_err(|error| {
                format!("{error}; name one dataset (FILE:/OBJECT), or export to a folder")
            })?,
        };
    }
    let format = match format {
        Some(format) => format,
        None if export.is_folder() => {
            if arguments.format.is_none() {
                output::accept_folder(&arguments.out, &[output::Kind::Table])?;
            }
            Format::File
        }
        None => Format::asked_for(&arguments.out)?,
    };
    let progress = RefCell::new(Progress::new(export.total()));
    let mut exported = export.write(&arguments.out, format, &|bytes| progress.borrow_mut().add(bytes))?;
    exported.notes.extend(omitted);
    drop(progress);
    let seconds = started.elapsed().as_secs_f64();
    if arguments.json {
        say!("{}", as_json(&arguments.out, &exported, seconds));
    } else {
        report(&arguments.out, &exported, seconds);
    }
    Ok(())
}

/// Returns a note about the groups in a group of which only the datasets are exported; `None` if it has none.
fn omitted_groups(object: &Object) -> Result<Option<String>, Error> {
    let group = object.group()?;
    let mut names = Vec::new();
    for link in group.links()? {
        match group.get(link.name.as_bytes()) {
            Ok(member) if member.kind() == ObjectKind::Group => names.push(link.name.to_string()),
            Err(error) if error.is_of_reading() => return Err(error),
            // A dangling link has no datasets.
            _ => {}
        }
    }
    let (shown, more) =
        (names.iter().take(3).cloned().collect::<Vec<_>>().join(", "), names.len().saturating_sub(3));
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Ok((!names.is_empty()).then(|| {
        format!(
            "the groups {shown}{more} are left out; export to a folder for all, or name one (FILE:/GROUP)"
        )
    }))
}

fn report(out: &Path, exported: &ExportSummary, seconds: f64) {
    for note in &exported.notes {
        crate::print_message(&format!("note: {note}"));
    }
    for (path, why) in &exported.missing {
        crate::print_message(&format!("note: {path} is left out: {why}"));
    }
    say!(
        "{}: {}, {} in {seconds:.1} s",
        escape(&out.to_string_lossy(), 2000),
        super::plural(exported.datasets, "dataset"),
        progress::bytes(exported.bytes),
    );
}

fn as_json(out: &Path, exported: &ExportSummary, seconds: f64) -> serde_json::Value {
    let missing = exported.missing.iter().map(|(path, why)| json!({ "path": path, "why": why }));
    json!({
        "out": out.to_string_lossy(),
        "groups": exported.groups,
        "datasets": exported.datasets,
        "datatypes": exported.datatypes,
        "rows": exported.rows,
        "bytes": exported.bytes,
        "notes": exported.notes,
        "missing": missing.collect::<Vec<_>>(),
        "seconds": seconds,
    })
}
