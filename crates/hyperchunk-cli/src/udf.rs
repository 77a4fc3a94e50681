//! `hyperchunk udf`.

use crate::Outcome;
use clap::Subcommand;
use hyperchunk_live::edit;
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::chunking::{self, growth};
use hyperchunk_udf::escape::{escape, escape_lines};
use hyperchunk_udf::expression;
use hyperchunk_udf::host::results::Results;
use hyperchunk_udf::host::{DiskCache, code};
use hyperchunk_udf::record::UNLIMITED;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Subcommand, Debug)]
#[expect(clippy::large_enum_variant, reason = "only one is made, when the arguments are parsed")]
pub(crate) enum Command {
    /// Store a program or an expression in a file, as one or more datasets.
    ///
    /// Datasets of the file that the program names with lib.getData are its inputs; other names are its
    /// outputs. Describe an output as NAME:RESOLUTION:TYPE, for example NDVI:4000x4000:float, or a compound
    /// as NAME:{MEMBER:TYPE,…}:RESOLUTION. Without a description, it takes the shape and type of the inputs,
    /// if they are all the same. All datasets that an expression names are inputs; it has one output, whose
    /// type follows NumPy's rules.
    #[command(after_help = ATTACH_HELP)]
    Attach {
        /// The HDF5 file.
        file: PathBuf,
        /// The program: .py (Python), .lua (Lua), .cpp (C++), .c (C, as WebAssembly), .wasm (a WebAssembly
        /// module), .cu (CUDA) or .expr (an expression). Not with --expression.
        #[arg(required_unless_present = "expression")]
        source: Option<PathBuf>,
        /// Outputs of the program.
        #[arg(value_name = "NAME[:RESOLUTION:TYPE]")]
        outputs: Vec<String>,
        /// Compute this expression element by element, such as "(NIR - Red) / (NIR + Red)". Expressions can
        /// only compute, so no profile refuses them.
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        expression: Option<String>,
        /// Compile a C++ source to WebAssembly: one binary for all machines, which runs even if its signer is
        /// not trusted. Needs Zig (pip install ziglang).
        #[arg(long, value_name = "wasm", value_parser = ["wasm"])]
        backend: Option<String>,
        /// Dataset that a .wasm module reads, if the module does not list it itself; may be given several
        /// times.
        #[arg(long = "input", value_name = "NAME")]
        inputs: Vec<String>,
        /// Run the function once for each chunk, on the same block of its inputs: auto, or a shape such as
        /// 16x4000. Without it, a program gets whole arrays, and an expression is computed in blocks of its
        /// own choice.
        #[arg(long, value_name = "auto|SHAPE")]
        chunks: Option<String>,
        /// Extend the input blocks of a function with --chunks by this number of elements at each side, up to
        /// the edge of the dataset. One number for each dimension, such as 1,1, or one for all. lib.getOffset
        /// returns the position of a block.
        #[arg(long, value_name = "N,N…", value_delimiter = ',')]
        halo: Vec<u64>,
        /// Let the dataset grow, by `hyperchunk udf extend`: as far as its inputs can (inputs), or to a shape
        /// such as *x4000, where * has no bound. Only for datasets that are computed in blocks.
        #[arg(long, value_name = "inputs|SHAPE")]
        maxshape: Option<String>,
        /// Seed of random numbers (lib.seed, and the language's own), so that they are the same each time.
        /// Without it, one is chosen if the source calls lib.seed. `hyperchunk udf show` prints it.
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// Attribute of the outputs, such as units=K. Numbers are stored as numbers; put them in double
        /// quotes to store text. May be given several times.
        #[arg(long = "attr", value_name = "NAME=VALUE")]
        attributes: Vec<String>,
        /// Replace existing objects with an output's name.
        #[arg(long)]
        overwrite: bool,
        /// Do not sign. Readers then run the function in the profile `untrusted`, which refuses C++.
        #[arg(long)]
        unsigned: bool,
        /// Check everything, write nothing.
        #[arg(long)]
        dry_run: bool,
        /// Print the records as JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the live datasets of a file.
    Ls {
        /// The HDF5 file.
        file: PathBuf,
        /// Print the list as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a live dataset's description, signer and source.
    Show {
        /// FILE:/DATASET
        target: String,
        /// Print only the source.
        #[arg(long, conflicts_with = "json")]
        source: bool,
        /// Print the record as stored.
        #[arg(long)]
        json: bool,
    },
    /// Check records, signatures and chunks, and whether live datasets would run here.
    ///
    /// Runs nothing of them. The exit status is 1 if something is invalid, 3 if something valid would not run
    /// here.
    Verify {
        /// FILE or FILE:/DATASET
        target: String,
    },
    /// Describe in words what a live dataset computes, who signed it, and its rights here.
    Explain {
        /// FILE:/DATASET
        target: String,
    },
    /// Compile and sign a live dataset again, from its stored source, for this machine and with your key.
    Rebuild {
        /// FILE or FILE:/DATASET
        target: String,
        /// Include functions that are unsigned or signed by another key. You vouch for them from then on:
        /// inspect their source first.
        #[arg(long)]
        take_over: bool,
    },
    /// Make a live dataset of one that HDF5-UDF wrote, from its stored source.
    ///
    /// It is signed with your key: inspect the source first (hyperchunk udf show --source).
    Convert {
        /// FILE or FILE:/DATASET
        target: String,
        /// Check everything, write nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Give growable live datasets (attached with --maxshape) the current shape of their inputs.
    ///
    /// Needs no key, because the record allows the growth. Existing chunks do not change.
    Extend {
        /// FILE or FILE:/DATASET
        target: String,
        /// Shape, such as 6000x4000, instead of the shape of the inputs. Only for FILE:/DATASET.
        #[arg(long, value_name = "SHAPE")]
        to: Option<String>,
    },
    /// List or clear the caches on this machine: compiled WebAssembly modules, and results, if that cache is
    /// enabled.
    Cache {
        /// Remove the cached entries.
        #[arg(value_parser = ["clear"])]
        action: Option<String>,
    },
    /// Remove a live dataset. Its inputs stay.
    Rm {
        /// FILE:/DATASET
        target: String,
    },
}

const ATTACH_HELP: &str = "\
Examples:
  hyperchunk udf attach scene.h5 ndvi.lua
  hyperchunk udf attach scene.h5 ndvi.py NDVI:4000x4000:float --chunks auto
  hyperchunk udf attach scene.h5 NDVI --expression '(NIR - Red) / (NIR + Red)'

  hyperchunk udf attach table.h5 rows.py 'Rows:{id:uint32,place:string(20),height:double}:1000'

Types: int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float double bool, string (32 bytes),
string(SIZE), INTEGER{NAME=VALUE,…} for enumerations, {MEMBER:TYPE,…}, and TYPE[DIMENSIONS] for arrays";

pub(crate) fn run(command: Command) -> Outcome {
    match command {
        Command::Attach {
            file,
            source,
            mut outputs,
            expression,
            backend,
            inputs,
            chunks,
            halo,
            maxshape,
            seed,
            attributes,
            overwrite,
            unsigned,
            dry_run,
            json,
        } => {
            let backend = backend.map(|_| Backend::Wasm);
            let chunking = chunking::from_option(chunks.as_deref())?;
            let options = edit::Options {
                overwrite,
                unsigned,
                backend,
                inputs,
                chunking,
                halo,
                growth: growth(maxshape.as_deref())?,
                seed,
                attributes: attributes.iter().map(|a| edit::parse_attribute(a)).collect::<Result<_, _>>()?,
                dry_run,
            };
            let program = match (&expression, &source) {
                (Some(text), first) => {
                    // With --expression there is no source: the first argument is an output.
                    if let Some(first) = first {
                        outputs.insert(0, first.to_str().ok_or("an output's name must be UTF-8")?.to_owned());
                    }
                    edit::Program::Expression(text)
                }
                (None, Some(path)) => edit::Program::File(path),
                (None, None) => return Err("expected a program, or --expression".into()),
            };
            let attached = edit::attach(&file, program, &outputs, &options)?;
            if json {
                let records: Vec<_> = attached.iter().map(|a| parse(&a.json)).collect();
                say!("{}", Value::Array(records));
                return Ok(());
            }
            for one in &attached {
                say!("{}", describe_attached(one, dry_run));
            }
            if let Some(one) = attached.iter().find(|a| expression::may_wrap_below_zero(&a.record)) {
                crate::print_message(&format!(
                    "note: {} subtracts unsigned integers, which wrap around below 0; if a result can be negative, \
                     convert an input first, as in float32({})",
                    escape(&one.record.output.name, 200),
                    one.record.inputs.first().map(|input| escape(&input.name, 80)).unwrap_or_default()
                ));
            }
            let has_integers = |one: &&edit::AttachedDataset| {
                let record = &one.record;
                record.backend != Backend::Expression && record.output.datatype.is_integer()
            };
            if let Some(one) = attached.iter().find(has_integers).filter(|_| outputs.is_empty()) {
                crate::print_message(&format!(
                    "note: {name} has the type of its inputs, {}, which has no fractions; for others describe it, as in \
                     {name}:{}:float",
                    one.record.output.datatype.name(),
                    hyperchunk_udf::spec::resolution(&one.record.output.dims),
                    name = escape(&one.record.output.name, 200),
                ));
            }
            if outputs.is_empty() && attached.len() > 1 {
                crate::print_message(&format!(
                    "note: {} outputs, because none of these names is in the file; outputs can be described \
                     (NAME:RESOLUTION:TYPE)",
                    attached.len()
                ));
            }
            let native = [Backend::Cpp, Backend::Cuda];
            if let Some(one) = attached.iter().find(|a| unsigned && native.contains(&a.record.backend)) {
                eprintln!(
                    "hyperchunk: warning: unsigned {} runs nowhere: the profile `untrusted` refuses native code",
                    if one.record.backend == Backend::Cpp { "C++" } else { "CUDA" }
                );
            }
        }
        Command::Ls { file, json } => ls(&edit::list(&file)?, json),
        Command::Show { target, source, json } => {
            let (file, dataset) = edit::split_target(&target)?;
            let entry = edit::find(Path::new(file), dataset)?;
            if json {
                say!("{}", entry.json);
            } else if source {
                let text = match &entry.legacy {
                    Some(legacy) => legacy.own_source()?.to_owned(),
                    None => entry.record?.0.source,
                };
                crate::print_text(&escape_lines(&text, usize::MAX));
            } else {
                show(&entry)?;
            }
        }
        Command::Verify { target } => crate::verify::verify(&target)?,
        Command::Explain { target } => {
            let (file, dataset) = edit::split_target(&target)?;
            crate::print_text(&crate::verify::explanation(Path::new(file), dataset)?);
        }
        Command::Rebuild { target, take_over } => rebuild(&target, take_over)?,
        Command::Convert { target, dry_run } => crate::legacy::convert(&target, dry_run)?,
        Command::Extend { target, to } => extend(&target, to.as_deref())?,
        Command::Cache { action } => caches(action.is_some())?,
        Command::Rm { target } => {
            let (file, dataset) = edit::split_target(&target)?;
            edit::remove(Path::new(file), dataset)?;
            say!("removed {}", escape(&target, 300));
        }
    }
    Ok(())
}

pub(crate) fn describe_attached(one: &edit::AttachedDataset, dry_run: bool) -> String {
    let record = &one.record;
    let list = |slots: &[hyperchunk_udf::record::Slot]| {
        slots.iter().map(|s| escape(&s.name, 80)).collect::<Vec<_>>().join(", ")
    };
    format!(
        "{}{}: {} {} {}, inputs: {}, {}, {}",
        if dry_run { "would attach " } else { "attached " },
        escape(&record.output.name, 200),
        record.backend.short_name(),
        escape(&record.output.datatype.name(), 200),
        shape(&record.output.dims),
        if record.inputs.is_empty() { "none".to_owned() } else { list(&record.inputs) },
        if record.blockwise {
            format!("{} {} of {}", one.chunks, chunk_noun(one.chunks), shape(&record.chunk))
        } else {
            "one chunk".to_owned()
        },
        match &record.signature {
            Some(s) =>
                format!("signed {}", hyperchunk_udf::signature::Fingerprint::from_public_key(&s.public_key)),
            None => "not signed".to_owned(),
        },
    )
}

/// Returns the singular or plural of *chunk*.
fn chunk_noun(number: u64) -> &'static str {
    if number == 1 { "chunk" } else { "chunks" }
}

/// Returns a maximum shape, with `*` for unlimited dimensions.
pub(crate) fn max_shape(dims: &[u64]) -> String {
    let dim = |&d: &u64| if d == UNLIMITED { "*".to_owned() } else { d.to_string() };
    dims.iter().map(dim).collect::<Vec<_>>().join("x")
}

pub(crate) fn shape(dims: &[u64]) -> String {
    dims.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

fn ls(entries: &[edit::Entry], as_json: bool) {
    if as_json {
        let rows: Vec<_> = entries.iter().map(row_json).collect();
        say!("{}", Value::Array(rows));
        return;
    }
    for entry in entries {
        let path = escape(&entry.path, 200);
        match &entry.record {
            Ok((record, signer)) => {
                let profile = match &entry.profile {
                    Ok(p) => format!("profile {}", p.name),
                    Err(e) => format!("does not run here: {e}"),
                };
                say!(
                    "{path}\t{}\t{} {}\t{}\t{profile}",
                    record.backend.short_name(),
                    escape(&record.output.datatype.name(), 200),
                    shape(&record.output.dims),
                    signer.map_or_else(|| "unsigned".to_owned(), |f| f.to_string()),
                );
            }
            Err(error) => match &entry.legacy {
                Some(legacy) => crate::legacy::ls(entry, legacy),
                None => say!("{path}\tinvalid: {error}"),
            },
        }
    }
}

fn row_json(entry: &edit::Entry) -> Value {
    let mut row = json!({
        "path": entry.path,
        "stub_bytes": entry.stub_bytes,
        "record_bytes": entry.record_bytes,
        "profile": entry.profile.as_ref().map_or(Value::Null, |p| json!(p.name)),
    });
    let more = match &entry.record {
        Ok((record, signer)) => json!({
            "backend": record.backend.short_name(),
            "datatype": record.output.datatype.name(),
            "dims": record.output.dims,
            "chunk": record.chunk,
            "blockwise": record.blockwise,
            "halo": record.halo,
            "maxdims": record.maximum.iter().map(|&d| if d == UNLIMITED { None } else { Some(d) }).collect::<Vec<_>>(),
            "seed": record.needs.seed,
            "clock": record.needs.clock,
            "inputs": record.inputs.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
            "signer": signer.map(|f| f.to_string()),
        }),
        Err(error) => match &entry.legacy {
            Some(legacy) => crate::legacy::row(legacy),
            None => json!({ "error": error.to_string() }),
        },
    };
    if let (Value::Object(row), Value::Object(more)) = (&mut row, more) {
        row.extend(more);
    }
    row
}

fn show(entry: &edit::Entry) -> Outcome {
    if let Some(legacy) = &entry.legacy {
        crate::legacy::show(entry, legacy);
        return Ok(());
    }
    let (record, signer) = entry.record.as_ref().map_err(Clone::clone)?;
    let inputs: Vec<_> = record
        .inputs
        .iter()
        .map(|s| format!("{} ({} {})", escape(&s.name, 80), escape(&s.datatype.name(), 200), shape(&s.dims)))
        .collect();
    let who = match (&record.signature, signer) {
        (Some(s), Some(f)) => format!("{f} {} {}", escape(&s.name, 80), escape(&s.email, 80)),
        _ => "nobody".to_owned(),
    };
    say!("dataset   {}", escape(&entry.path, 300));
    say!(
        "computes  {} ({} {})",
        escape(&record.output.name, 200),
        escape(&record.output.datatype.name(), 200),
        shape(&record.output.dims)
    );
    say!("language  {}", record.backend.short_name());
    say!("inputs    {}", if inputs.is_empty() { "none".to_owned() } else { inputs.join(", ") });
    say!(
        "chunks    {}{}{}",
        shape(&record.chunk),
        if record.blockwise { ", one evaluation each" } else { ", one evaluation" },
        if record.halo.is_empty() {
            String::new()
        } else {
            format!(", with a halo of {}", shape(&record.halo))
        }
    );
    if !record.maximum.is_empty() {
        say!("grows to  {}", max_shape(&record.maximum));
    }
    if let Some(seed) = record.needs.seed {
        say!("seed      {seed}");
    }
    if record.needs.clock {
        say!("reads     the clock, where the profile grants it");
    }
    say!("stored    {} bytes of stubs, {} bytes of record", entry.stub_bytes, entry.record_bytes);
    say!("attached  {}", escape(&record.created, 40));
    say!("signed by {}", who.trim_end());
    match &entry.profile {
        Ok(profile) => say!("profile   {}", profile.name),
        Err(error) => say!("profile   does not run here: {error}"),
    }
    say!("\n{}", escape_lines(&record.source, usize::MAX));
    Ok(())
}

fn caches(clear: bool) -> Outcome {
    match Results::setting()? {
        Some(results) => print_cache("results", results.kept(), clear)?,
        None => say!("results are not cached; cache.toml or HYPERCHUNK_RESULT_CACHE=1 enables it"),
    }
    match code::kept() {
        Some(kept) => print_cache("compiled modules", &kept, clear)?,
        None => say!("compiled WebAssembly modules are not cached"),
    }
    Ok(())
}

fn print_cache(what: &str, kept: &DiskCache, clear: bool) -> Outcome {
    let folder = escape(&kept.folder.display().to_string(), 300);
    if clear {
        say!("removed {} {what} from {folder}", kept.clear()?);
    } else {
        let (count, bytes) = kept.contents()?;
        say!("{count} {what}, {bytes} bytes of {} at most, in {folder}", kept.max_bytes);
    }
    Ok(())
}

fn extend(target: &str, to: Option<&str>) -> Outcome {
    let to = to.map(chunking::extent).transpose()?;
    let (file, names) = match (edit::split_target(target), &to) {
        (Ok((file, dataset)), _) => (file, vec![dataset.to_owned()]),
        (Err(error), Some(_)) => return Err(error.into()),
        (Err(_), None) => {
            let grows =
                |e: &edit::Entry| e.record.as_ref().is_ok_and(|(record, _)| !record.maximum.is_empty());
            let entries = edit::list(Path::new(target))?;
            (target, entries.into_iter().filter(grows).map(|e| e.path).collect())
        }
    };
    if names.is_empty() {
        say!("no live dataset of this file can grow (attach it with --maxshape)");
    }
    for name in names {
        let one = edit::extend(Path::new(file), &name, to.as_deref())?;
        let word = chunk_noun(one.new_chunks);
        say!("{}: {}, {} new {word}", escape(&name, 200), shape(&one.dims), one.new_chunks);
    }
    Ok(())
}

fn rebuild(target: &str, take_over: bool) -> Outcome {
    let (file, names) = match edit::split_target(target) {
        Ok((file, dataset)) => (file, vec![dataset.to_owned()]),
        Err(_) => {
            let entries = edit::list(Path::new(target))?;
            (target, entries.into_iter().map(|e| e.path).collect())
        }
    };
    for name in names {
        let one = edit::rebuild(Path::new(file), &name, take_over)?;
        let record = &one.record;
        say!(
            "rebuilt {}: {}, {}",
            escape(&name, 200),
            match &record.compiled {
                Some(compiled) =>
                    format!("{} for {}", record.backend.short_name(), escape(&compiled.target, 40)),
                None => record.backend.short_name().to_owned(),
            },
            match &record.signature {
                Some(s) => format!(
                    "signed {}",
                    hyperchunk_udf::signature::Fingerprint::from_public_key(&s.public_key)
                ),
                None => "not signed".to_owned(),
            },
        );
    }
    Ok(())
}
