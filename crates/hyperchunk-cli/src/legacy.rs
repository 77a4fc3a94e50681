//! What the commands say of datasets that HDF5-UDF wrote.

use crate::Outcome;
use crate::udf::shape;
use crate::verify::Verdict;
use hyperchunk_h5abi::{Library, edit};
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::error::Error;
use hyperchunk_udf::escape::{escape, escape_lines};
use hyperchunk_udf::host::{Programs, probe};
use hyperchunk_udf::legacy::{Legacy, Signer};
use hyperchunk_udf::profile::Profile;
use serde_json::{Value, json};
use std::path::Path;

/// What a signature of HDF5-UDF is worth.
pub(crate) const COVERS: &str = "a signature of HDF5-UDF covers the compiled form alone: names of inputs and a stored source may have been changed by anybody";

pub(crate) fn ls(entry: &edit::Entry, legacy: &Legacy) {
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

pub(crate) fn row(legacy: &Legacy) -> Value {
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

pub(crate) fn show(entry: &edit::Entry, legacy: &Legacy) {
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

pub(crate) fn verify(
    library: &'static Library,
    file: &Path,
    entry: &edit::Entry,
    legacy: &Legacy,
) -> Verdict {
    let path = escape(&entry.path, 200);
    if legacy.signer == Signer::Broken {
        say!("{path}\tINVALID: written by HDF5-UDF, and its signature does not hold");
        return Verdict::Invalid;
    }
    let who = match &legacy.signer {
        Signer::Known(_) => format!("its compiled form signed by {}", signer(legacy)),
        _ => "not signed".to_owned(),
    };
    let (runs, verdict) = match runs_here(library, file, entry, legacy) {
        Ok((profile, _)) => {
            (format!("profile {}, without its grants: runs here", profile.name), Verdict::Runs)
        }
        Err(error) => (format!("does not run here: {error}"), Verdict::Refused),
    };
    say!("{path}\twritten by HDF5-UDF, {who}\t1 chunk\t{runs}");
    verdict
}

pub(crate) fn explain(library: &'static Library, file: &Path, entry: &edit::Entry, legacy: &Legacy) {
    say!("{}:{}", escape(&file.display().to_string(), 300), escape(&entry.path, 300));
    say!(
        "  was written by HDF5-UDF: a compiled function ({}), which computes all of it each time that somebody reads it.",
        escape(&legacy.backend, 20)
    );
    match &legacy.signer {
        Signer::Known(_) => say!("  Signed by {}; {COVERS}.", signer(legacy)),
        Signer::Broken => say!("  Its signature does not hold: the compiled form was changed."),
        Signer::Nobody => say!("  Nobody signed it: anybody could have written it."),
    }
    say!(
        "  Compiled forms can do what native code can, so they run only for signers in profiles that run C++."
    );
    match runs_here(library, file, entry, legacy) {
        Ok((profile, layers)) => {
            let list: Vec<_> = legacy.inputs.iter().map(|name| escape(name, 80)).collect();
            let seen = if list.is_empty() { "no data of the file".to_owned() } else { list.join(", ") };
            say!("  Here it has the limits of profile {}, and none of its grants:", profile.name);
            say!("    - it sees {seen}, and the path of the file as text;");
            say!(
                "    - it has {} s, {} s of processor time, {} MiB of memory, {} MiB for inputs and outputs;",
                profile.limits.wall_s,
                profile.limits.cpu_s,
                profile.limits.memory >> 20,
                profile.limits.data >> 20
            );
            say!("    - it can open no file, use no network, and start or see no other process.");
            say!("  It runs here, contained by {layers}.");
        }
        Err(error) => say!("  It does not run here: {error}"),
    }
}

pub(crate) fn convert(library: &'static Library, target: &str, dry_run: bool) -> Outcome {
    let (file, names) = match edit::split_target(target) {
        Ok((file, dataset)) => (file, vec![dataset.to_owned()]),
        Err(_) => {
            let entries = edit::list(library, Path::new(target))?;
            (target, entries.into_iter().filter(|e| e.legacy.is_some()).map(|e| e.path).collect())
        }
    };
    let (file, options) = (Path::new(file), edit::Options { dry_run, ..edit::Options::default() });
    let (mut done, mut failed) = (Vec::new(), 0);
    for name in &names {
        // One source may have had several outputs.
        if done.contains(name) {
            continue;
        }
        match edit::convert(library, file, name, &options) {
            Ok(attached) => {
                for one in attached {
                    say!("{}", crate::udf::describe_attached(&one, dry_run));
                    done.push(format!("/{}", one.record.output.name.trim_start_matches('/')));
                }
            }
            Err(error) if names.len() == 1 => return Err(error.into()),
            Err(error) => {
                failed += 1;
                crate::complain(&error.to_string());
            }
        }
    }
    if failed > 0 {
        return Err(format!("{failed} of {} datasets of HDF5-UDF were not converted", names.len()).into());
    }
    Ok(())
}

/// The profile and the sandbox that it would run in, or why it would not run.
fn runs_here(
    library: &'static Library,
    file: &Path,
    entry: &edit::Entry,
    legacy: &Legacy,
) -> Result<(Profile, String), Error> {
    let profile = entry.profile.clone()?;
    let record = edit::check_legacy(library, file, &entry.path, legacy)?;
    // A compiled form of C++ needs no compiler, as trying C++ would: Lua's sandbox is as good a sign.
    let tried = if record.backend == Backend::Cpp { Backend::Lua } else { record.backend };
    let (layers, landlock) = probe(tried, &profile, &Programs::find()?)?;
    Ok((profile, format!("{layers} (Landlock {landlock})")))
}

fn signer(legacy: &Legacy) -> String {
    match &legacy.signer {
        Signer::Nobody => "nobody".to_owned(),
        Signer::Broken => "a key whose signature does not hold".to_owned(),
        Signer::Known(key) => {
            let fingerprint = legacy.fingerprint().map(|f| f.to_string()).unwrap_or_default();
            format!("{fingerprint} {} {}", escape(&key.name, 80), escape(&key.email, 80))
                .trim_end()
                .to_owned()
        }
    }
}
