//! Output of commands about datasets that HDF5-UDF wrote.

use crate::Outcome;
use crate::udf::shape;
use hyperchunk_live::edit;
use hyperchunk_udf::escape::{escape, escape_lines};
use hyperchunk_udf::legacy::{LegacyDataset, Signer};
use serde_json::{Value, json};
use std::path::Path;

/// Limit of HDF5-UDF's signatures.
pub(crate) const SIGNATURE_LIMIT: &str = "a signature of HDF5-UDF covers only the compiled form: anyone may \
     have changed the names of inputs and the stored source";

pub(crate) fn ls(entry: &edit::Entry, legacy: &LegacyDataset) {
    say!(
        "{}\tHDF5-UDF {}, {}\t{} {}\t{}\t{}",
        escape(&entry.path, 200),
        legacy.api_version,
        escape(&legacy.backend, 20),
        escape(&legacy.datatype, 40),
        shape(&legacy.dims),
        signer(legacy),
        match &entry.profile {
            Ok(profile) => format!("profile {}", profile.name),
            Err(error) => format!("does not run here: {error}"),
        },
    );
}

pub(crate) fn row(legacy: &LegacyDataset) -> Value {
    json!({
        "format": format!("HDF5-UDF {}", legacy.api_version),
        "backend": legacy.language().map_or_else(|_| legacy.backend.clone(), |b| b.short_name().to_owned()),
        "datatype": legacy.datatype,
        "dims": legacy.dims,
        "chunk": legacy.dims,
        "blockwise": false,
        "inputs": legacy.inputs,
        "signer": legacy.fingerprint().map(|f| f.to_string()),
    })
}

pub(crate) fn show(entry: &edit::Entry, legacy: &LegacyDataset) {
    let list = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.iter().map(|name| escape(name, 80)).collect::<Vec<_>>().join(", "),
    };
    say!("dataset   {}", escape(&entry.path, 300));
    say!("written   by HDF5-UDF (header version {})", legacy.api_version);
    say!(
        "computes  {} ({} {})",
        escape(&legacy.output, 200),
        escape(&legacy.datatype, 40),
        shape(&legacy.dims)
    );
    say!("language  {}, compiled: {} bytes", escape(&legacy.backend, 20), legacy.code.len());
    say!("inputs    {}", list(&legacy.inputs));
    if !legacy.scratch.is_empty() {
        say!("also      {}", list(&legacy.scratch));
    }
    say!("signed by {}", signer(legacy));
    match &entry.profile {
        Ok(profile) => say!("profile   {}", profile.name),
        Err(error) => say!("profile   does not run here: {error}"),
    }
    match &legacy.source {
        None => say!("\nIts source is not stored."),
        Some(source) => {
            let own = legacy.own_source().unwrap_or(source);
            say!("\n{}", escape_lines(own, usize::MAX));
        }
    }
}

/// Returns the origin and signer of a dataset in one line.
pub(crate) fn origin(legacy: &LegacyDataset) -> String {
    match &legacy.signer {
        Signer::Known(_) => format!("written by HDF5-UDF, its compiled form signed by {}", signer(legacy)),
        _ => "written by HDF5-UDF, not signed".to_owned(),
    }
}

pub(crate) fn explain(out: &mut String, file: &Path, entry: &edit::Entry, legacy: &LegacyDataset) {
    put!(out, "{}:{}", escape(&file.display().to_string(), 300), escape(&entry.path, 300));
    put!(
        out,
        "  was written by HDF5-UDF: a compiled function ({}), which computes all of it each time it is read.",
        escape(&legacy.backend, 20)
    );
    match &legacy.signer {
        Signer::Known(_) => put!(out, "  Signed by {}; {SIGNATURE_LIMIT}.", signer(legacy)),
        Signer::Broken => put!(out, "  Its signature is not valid: the compiled form was changed."),
        Signer::Nobody => put!(out, "  It is not signed: anyone could have written it."),
    }
    put!(
        out,
        "  Compiled forms can do what native code can, so they run only for signers in profiles that run C++."
    );
    match edit::runs_here(file, entry) {
        Ok((profile, layers)) => {
            let list: Vec<_> = legacy.inputs.iter().map(|name| escape(name, 80)).collect();
            let seen = if list.is_empty() { "no data of the file".to_owned() } else { list.join(", ") };
            put!(out, "  Here it has the limits of profile {}, and none of its grants:", profile.name);
            put!(out, "    - it sees {seen}, and the path of the file as text;");
            put!(
                out,
                "    - it has {} s, {} s of processor time, {} MiB of memory, {} MiB for inputs and outputs;",
                profile.limits.wall_s,
                profile.limits.cpu_s,
                profile.limits.memory >> 20,
                profile.limits.data >> 20
            );
            put!(out, "    - it can open no file, use no network, and start or see no other process.");
            put!(out, "  It runs here, contained by {layers}.");
        }
        Err(error) => put!(out, "  It does not run here: {error}"),
    }
}

pub(crate) fn convert(target: &str, dry_run: bool) -> Outcome {
    let (file, names) = match edit::split_target(target) {
        Ok((file, dataset)) => (file, vec![dataset.to_owned()]),
        Err(_) => {
            let entries = edit::list(Path::new(target))?;
            (target, entries.into_iter().filter(|e| e.legacy.is_some()).map(|e| e.path).collect())
        }
    };
    let (file, options) = (Path::new(file), edit::Options { dry_run, ..edit::Options::default() });
    if names.is_empty() {
        say!("no dataset of this file was written by HDF5-UDF");
    }
    let (mut done, mut failed) = (Vec::new(), 0);
    for name in &names {
        // Already converted, as another output of the same source.
        if done.contains(name) {
            continue;
        }
        match edit::convert(file, name, &options) {
            Ok(attached) => {
                for one in attached {
                    say!("{}", crate::udf::describe_attached(&one, dry_run));
                    done.push(format!("/{}", one.record.output.name.trim_start_matches('/')));
                }
            }
            Err(error) if names.len() == 1 => return Err(error.into()),
            Err(error) => {
                failed += 1;
                crate::print_message(&error.to_string());
            }
        }
    }
    if failed > 0 {
        return Err(format!("{failed} of {} datasets of HDF5-UDF were not converted", names.len()).into());
    }
    Ok(())
}

fn signer(legacy: &LegacyDataset) -> String {
    match &legacy.signer {
        Signer::Nobody => "nobody".to_owned(),
        Signer::Broken => "a key whose signature is not valid".to_owned(),
        Signer::Known(key) => {
            let fingerprint = legacy.fingerprint().map(|f| f.to_string()).unwrap_or_default();
            format!("{fingerprint} {} {}", escape(&key.name, 80), escape(&key.email, 80))
                .trim_end()
                .to_owned()
        }
    }
}
