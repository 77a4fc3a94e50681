//! `hyperchunk arrow export`.

use crate::Outcome;
use crate::progress::{self, Progress};
use crate::source::SourceOptions;
use clap::{Args, ValueEnum};
use hyperchunk::output;
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
    /// The file, or an object of it.
    #[arg(value_name = "FILE[:/OBJECT]")]
    source: String,
    /// What to make: .arrow, .feather or .ipc (an IPC file), .arrows (an IPC stream), .parquet, or a folder.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// What OUT is, where its name does not say so.
    #[arg(long, value_enum)]
    format: Option<Kind>,
    /// Replace OUT if it is there: a file, or a folder of an earlier export.
    #[arg(long)]
    overwrite: bool,
    /// How rows of datasets of several dimensions look: as tensors (pyarrow, NumPy), or as lists in lists (SQL).
    #[arg(long, value_enum, default_value = "tensor")]
    cells: CellsLook,
    /// How strings look: as text, or as the bytes that are stored.
    #[arg(long, value_enum, default_value = "text")]
    strings: StringsLook,
    /// How numbers of 2 bytes look: as they are, or as float32, for tools that have no others.
    #[arg(long, value_enum, default_value = "float16")]
    half: HalfLook,
    /// How enumerations look: as their integers, with the names in the metadata, or as dictionaries of names.
    #[arg(long, value_enum, default_value = "values")]
    enums: EnumsLook,
    /// How datasets of compounds look: as tables, or as one column of structs.
    #[arg(long, value_enum, default_value = "columns")]
    compounds: CompoundsLook,
    /// Leave out what cannot be exported, with a note, in place of ending with an error.
    #[arg(long)]
    keep_going: bool,
    /// Datasets of more bytes than this cannot be exported.
    #[arg(long, value_name = "BYTES")]
    most_bytes: Option<u64>,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: SourceOptions,
}

const HELP: &str = "\
Nothing is lost: types, extents, attributes, fill values and the layout are in the metadata, and `hyperchunk arrow import`
makes the same HDF5 file again. A folder has an IPC file for each dataset, in folders as the groups are, and hyperchunk.json
with groups, links and attributes.
A dataset of compounds is a table of its members; any other is a table of one column. A group whose datasets are of one
length is a table of these, if OUT is a file. Data go through memory in batches.
OUT has its name when it is whole.

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

    /// `None` for a folder.
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
    let target = arguments.reach.open_object(&arguments.source)?;
    let format = arguments.format();
    let mut export = Export::new(&target.object, arguments.options())?;
    if export.is_folder() && format.is_some() {
        let datasets: Vec<_> = export.datasets().map(|dataset| dataset.object().clone()).take(2).collect();
        export = match &datasets[..] {
            [only] => Export::new(only, arguments.options())?,
            [] => return Err("there is no dataset in it: a group becomes a folder".into()),
            _ => Export::from_columns(&target.object, arguments.options()).map_err(|error| {
                format!("{error}; name one dataset (FILE:/OBJECT), or let OUT be a folder")
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
    let exported = export.write(&arguments.out, format, &|bytes| progress.borrow_mut().add(bytes))?;
    drop(progress);
    let seconds = started.elapsed().as_secs_f64();
    if arguments.json {
        say!("{}", as_json(&arguments.out, &exported, seconds));
    } else {
        report(&arguments.out, &exported, seconds);
    }
    Ok(())
}

fn report(out: &Path, exported: &ExportSummary, seconds: f64) {
    for note in &exported.notes {
        crate::complain(&format!("note: {note}"));
    }
    for (path, why) in &exported.missing {
        crate::complain(&format!("note: {path} is left out: {why}"));
    }
    say!(
        "{}: {}, {} in {seconds:.1} s",
        escape(&out.to_string_lossy(), 2000),
        super::many(exported.datasets, "dataset"),
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
