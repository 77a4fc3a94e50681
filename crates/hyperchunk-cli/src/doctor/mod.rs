//! `hyperchunk doctor`.

#[cfg(target_os = "linux")]
mod gpu;

use crate::Outcome;
use hyperchunk_sandbox::Layers;
use hyperchunk_udf::audit;
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::host::results::Results;
use hyperchunk_udf::host::{DiskCache, code};
use hyperchunk_udf::host::{ProbeResult, Programs, probe};
use hyperchunk_udf::keys;
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::signature::Fingerprint;
use hyperchunk_udf::system;
use hyperchunk_udf::trust::{self, KeyList, KnownKey};
use std::collections::BTreeMap;

pub(crate) fn run() -> Outcome {
    say!("hyperchunk {}", env!("CARGO_PKG_VERSION"));
    let programs = Programs::find()?;
    let found = |what: Result<std::path::PathBuf, hyperchunk_udf::error::Error>| match what {
        Ok(path) => path.display().to_string(),
        Err(error) => format!("none: {error}"),
    };
    say!("plugins    {}", found(programs.plugin_folder()));
    say!("connector  {}", found(programs.connector_folder()));
    say!("worker     {}", found(programs.worker()));
    say!("wasm       {}", found(programs.wasm_worker()));
    say!("zig        {}", found(programs.zig()));
    say!("python     {}", found(programs.python()));
    #[cfg(target_os = "linux")]
    gpu::print(&programs);
    match keys::own_public_key() {
        Ok(Some(key)) => say!("key        {}", Fingerprint::from_public_key(&key.key)),
        Ok(None) => say!("key        none; make one with: hyperchunk key new"),
        Err(error) => say!("key        not usable: {error}"),
    }
    let mut failures = print_policy() + print_keys();
    print_audit_log();
    print_caches();
    for name in Profile::names()? {
        // Without a file of its own, `default` is the same as `self`.
        if name == "default" && !Profile::path(&name).is_ok_and(|p| p.exists()) {
            continue;
        }
        let profile = match Profile::named(&name) {
            Ok(profile) => profile,
            Err(error) => {
                failures += 1;
                say!("{name:<10} not usable: {error}");
                continue;
            }
        };
        let grants = profile.grants.describe();
        if !grants.is_empty() {
            say!("{name:<10} may {grants}");
        }
        for backend in Backend::ALL.into_iter().filter(|b| b.has_worker()) {
            let line = match probe(backend, &profile, &programs, true) {
                Ok(ProbeResult { layers: Layers::NONE, .. }) => {
                    "runs, without a sandbox: this build is for measurements".to_owned()
                }
                Ok(ProbeResult { layers, landlock_abi, start }) => {
                    let time = start.map(|t| format!("; a worker starts in {:.1} ms", 1e3 * t.as_secs_f64()));
                    format!(
                        "runs, contained by {layers} (Landlock {landlock_abi}){}",
                        time.unwrap_or_default()
                    )
                }
                Err(error) => {
                    failures += usize::from(profile.allow(backend, None).is_ok());
                    format!("does not run: {error}")
                }
            };
            say!("{name:<10} {:<7} {line}", backend.short_name());
        }
    }
    say!(
        "{:<10} {:<7} computed in the reading process: no program, so nothing to contain",
        "any",
        "expression"
    );
    if failures > 0 { Err(format!("{failures} checks failed").into()) } else { Ok(()) }
}

/// Prints the policy of this machine's administrator; returns the number of failures.
fn print_policy() -> usize {
    let folder = system::folder();
    if !folder.exists() {
        return 0;
    }
    match system::Policy::load() {
        Ok(policy) => {
            let words = policy.describe();
            let words = if words.is_empty() { "no policy" } else { &words };
            say!("system     {}: {words}", folder.display());
            0
        }
        Err(error) => {
            say!("system     {}: not usable, so nothing runs: {error}", folder.display());
            1
        }
    }
}

/// Prints the number of listed keys; returns the number of unusable ones.
fn print_keys() -> usize {
    let listed = match trust::list() {
        Ok(listed) => listed,
        Err(error) => {
            say!("trust      not usable: {error}");
            return 1;
        }
    };
    let mut places = BTreeMap::<String, usize>::new();
    let mut bad = 0;
    for one in listed {
        match one {
            Ok(KnownKey { place: KeyList::Profile(profile), .. }) => {
                *places.entry(format!("in {profile}")).or_default() += 1;
            }
            Ok(_) => *places.entry("revoked".into()).or_default() += 1,
            Err(error) => {
                bad += 1;
                say!("trust      a key is not usable: {error}");
            }
        }
    }
    let words: Vec<_> = places.iter().map(|(place, n)| format!("{n} {place}")).collect();
    say!("trust      keys: {}", if words.is_empty() { "only yours".to_owned() } else { words.join(", ") });
    bad
}

fn print_caches() {
    match Results::setting() {
        Ok(setting) => print_cache("results", setting.as_ref().map(Results::kept)),
        Err(error) => say!("results    not kept: {error}"),
    }
    print_cache("code", code::kept().as_ref());
}

fn print_cache(what: &str, kept: Option<&DiskCache>) {
    match kept.map(|kept| (kept, kept.contents())) {
        None => say!("{what:<10} not kept"),
        Some((kept, Ok((count, bytes)))) => {
            say!(
                "{what:<10} {}: {count}, {bytes} bytes, of {} at most",
                kept.folder.display(),
                kept.max_bytes
            );
        }
        Some((_, Err(error))) => say!("{what:<10} not kept: {error}"),
    }
}

fn print_audit_log() {
    match audit::setting() {
        Ok(None) => say!("audit log  off"),
        Ok(Some(setting)) => {
            let size = std::fs::metadata(&setting.file).map_or(0, |m| m.len());
            say!("audit log  {} ({size} bytes, of {} at most)", setting.file.display(), setting.max_bytes);
        }
        Err(error) => say!("audit log  off: {error}"),
    }
}
