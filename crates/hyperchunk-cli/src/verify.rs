//! `hyperchunk udf verify` and `hyperchunk udf explain`: description and rights of live datasets, without
//! running them.

use crate::udf::{max_shape, shape};
use crate::{Outcome, Status};
use hyperchunk_live::edit;
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::cpp::TARGET;
use hyperchunk_udf::error::Error;
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::profile::Profile;
use std::path::Path;

/// Exit status if all live datasets are valid, but some would not run here.
const DOES_NOT_RUN_STATUS: i32 = 3;

pub(crate) fn verify(target: &str) -> Outcome {
    let (file, entries) = match edit::split_target(target) {
        Ok((file, dataset)) => (file, vec![edit::find(Path::new(file), dataset)?]),
        Err(_) => (target, edit::list(Path::new(target))?),
    };
    let file = Path::new(file);
    let (mut invalid, mut refused) = (0, 0);
    for entry in &entries {
        let path = escape(&entry.path, 200);
        let checked = edit::check(file, entry);
        let chunks = match checked.chunks {
            Ok(chunks) => chunks,
            Err(error) => {
                invalid += 1;
                say!("{path}\tINVALID: {error}");
                continue;
            }
        };
        let limits = if entry.legacy.is_some() { ", without its grants" } else { "" };
        let runs = match checked.runs {
            Ok((profile, _)) => format!("profile {}{limits}: runs here", profile.name),
            Err(error) => {
                refused += 1;
                format!("does not run here: {error}")
            }
        };
        let who = match (&entry.legacy, entry.signer()) {
            (Some(legacy), _) => crate::legacy::origin(legacy),
            (None, Some(fingerprint)) => format!("signed by {fingerprint}"),
            (None, None) => "not signed".to_owned(),
        };
        let chunks = crate::progress::count(chunks, "chunk", "chunks");
        say!("{path}\t{who}\t{chunks}\t{runs}");
    }
    if entries.iter().any(|entry| entry.legacy.as_ref().is_some_and(|l| l.fingerprint().is_some())) {
        say!("note: {}", crate::legacy::SIGNATURE_LIMIT);
    }
    let all = entries.len();
    if invalid > 0 {
        return Err(format!("{invalid} of {all} live datasets are invalid").into());
    }
    if refused > 0 {
        return Err(
            Status(DOES_NOT_RUN_STATUS, format!("{refused} of {all} live datasets do not run here")).into()
        );
    }
    Ok(())
}

/// Describes a live dataset and its rights in words.
///
/// # Errors
/// `NotFound` if the file has no live dataset of this name, `Invalid` if its record is not valid.
pub fn explanation(file: &Path, dataset: &str) -> Result<String, Error> {
    let mut out = String::new();
    let entry = edit::find(file, dataset)?;
    match &entry.legacy {
        Some(legacy) => crate::legacy::explain(&mut out, file, &entry, legacy),
        None => explain(&mut out, file, &entry)?,
    }
    Ok(out)
}

fn explain(out: &mut String, file: &Path, entry: &edit::Entry) -> Result<(), Error> {
    let (record, signer) = entry.record.as_ref().map_err(Clone::clone)?;
    let name = |s: &hyperchunk_udf::record::Slot| {
        format!("{} ({} {})", escape(&s.name, 80), escape(&s.datatype.name(), 200), shape(&s.dims))
    };
    let inputs: Vec<_> = record.inputs.iter().map(name).collect();
    put!(out, "{}:{}", escape(&file.display().to_string(), 300), escape(&entry.path, 300));
    put!(
        out,
        "  is computed by {}, which {}, each time it is read.",
        match record.backend {
            Backend::Expression => "an expression".to_owned(),
            Backend::Wasm => "a WebAssembly module".to_owned(),
            Backend::Cuda => "kernels on a GPU (CUDA)".to_owned(),
            other => format!("a function in {}", other.short_name()),
        },
        if record.blockwise { "runs once for each chunk that is read" } else { "runs once" }
    );
    if !record.halo.is_empty() {
        put!(out, "  It sees the blocks of its inputs with a halo of {}.", shape(&record.halo));
    }
    if !record.maximum.is_empty() {
        put!(
            out,
            "  It may grow to {}: anyone who can write to the file can give it more of its inputs.",
            max_shape(&record.maximum)
        );
    }
    if let Some(seed) = record.needs.seed {
        put!(out, "  Its random numbers come from the seed {seed}, so they are the same for every reader.");
    }
    if record.needs.clock {
        put!(out, "  It reads the clock, if its profile grants that.");
    }
    match (&record.signature, signer) {
        (Some(s), Some(f)) => {
            let labels = format!("{} {}", escape(&s.name, 80), escape(&s.email, 80));
            let labels = labels.trim();
            let calls =
                if labels.is_empty() { String::new() } else { format!(", who calls themselves {labels}") };
            put!(out, "  Signed by {f}{calls}. It has not changed since.");
        }
        _ => put!(out, "  It is not signed: anyone could have written it."),
    }
    let Ok(profile) = Profile::for_signer(*signer) else {
        let error = entry.profile.as_ref().err().map(ToString::to_string).unwrap_or_default();
        put!(out, "  It does not run here: {error}");
        return Ok(());
    };
    let why = match profile.name.as_str() {
        "self" => "it is your own key".to_owned(),
        "untrusted" => "it is not signed by a key that you trust".to_owned(),
        other => format!("you put that key into {other}"),
    };
    put!(out, "  Here it has the rights of profile {}, since {why}:", profile.name);
    match inputs.as_slice() {
        [] => put!(out, "    - it sees no data of the file, and the path of the file as text;"),
        list => put!(out, "    - it sees {}, and the path of the file as text;", list.join(", ")),
    }
    put!(
        out,
        "    - it has {} s, {} s of processor time, {} MiB of memory, {} MiB for inputs and outputs;",
        profile.limits.wall_s,
        profile.limits.cpu_s,
        profile.limits.memory >> 20,
        profile.limits.data >> 20
    );
    let grants = profile.grants.describe();
    if grants.is_empty() {
        put!(out, "    - it can open no file, use no network, and start or see no other process.");
    } else {
        put!(out, "    - it may {grants};");
        let network =
            if profile.grants.connect.is_empty() { "use no network" } else { "connect to nothing else" };
        put!(out, "    - it can open no other file, {network}, and start or see no other process.");
    }
    if record.backend == Backend::Wasm && !grants.is_empty() {
        put!(out, "    - but as WebAssembly, it has no calls to use these grants.");
    }
    if record.backend == Backend::Cuda {
        if let Some(compiled) = &record.compiled {
            put!(out, "  Its kernels are compiled for GPUs of {} and newer.", escape(&compiled.target, 40));
        }
        if !grants.is_empty() {
            put!(out, "  Except for the GPU, kernels cannot use these grants.");
        }
    }
    if record.backend == Backend::Cpp {
        match &record.compiled {
            Some(c) if c.target == TARGET => put!(out, "  Its compiled form is for this kind of machine."),
            _ => put!(
                out,
                "  It is compiled here, in a sandbox, before it runs: it was not built for this kind of \
                 machine."
            ),
        }
    }
    let no_clock = record.needs.no_clock(&profile).filter(|_| record.needs.clock);
    match edit::runs_here(file, entry) {
        Ok((_, layers)) => {
            put!(out, "  It runs here, contained by {layers}.");
            if let Some(why) = no_clock {
                put!(out, "  But it fails when it asks for the clock: {why}.");
            }
        }
        Err(error) => put!(out, "  It does not run here: {error}"),
    }
    Ok(())
}
