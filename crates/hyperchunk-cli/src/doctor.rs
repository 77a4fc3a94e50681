//! `hyperchunk doctor`.

use crate::Outcome;
use hyperchunk_h5abi::Library;
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::host::{Programs, probe};
use hyperchunk_udf::keys;
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::signature::Fingerprint;
use std::path::Path;

pub(crate) fn run(library: Option<&Path>) -> Outcome {
    say!("hyperchunk {}", env!("CARGO_PKG_VERSION"));
    match Library::load(library) {
        Ok(library) => {
            let (a, b, c) = library.version();
            say!("libhdf5    {a}.{b}.{c} {}", library.path().display());
        }
        Err(error) => say!("libhdf5    none: {error}"),
    }
    let programs = Programs::find()?;
    let told = |what: Result<std::path::PathBuf, hyperchunk_udf::error::Error>| match what {
        Ok(path) => path.display().to_string(),
        Err(error) => format!("none: {error}"),
    };
    say!("plugins    {}", told(programs.plugin_folder()));
    say!("worker     {}", told(programs.worker()));
    say!("python     {}", told(programs.python()));
    match keys::own_public_key() {
        Ok(Some(key)) => say!("key        {}", Fingerprint::of(&key.key)),
        Ok(None) => say!("key        none; make one with: hyperchunk key new"),
        Err(error) => say!("key        not usable: {error}"),
    }
    let mut failures = 0;
    for profile in [Profile::untrusted(), Profile::own()] {
        for backend in Backend::ALL.into_iter().filter(|b| b.has_worker()) {
            let line = match probe(backend, &profile, &programs) {
                Ok((layers, abi)) => format!("runs, contained by {layers} (Landlock {abi})"),
                Err(error) => {
                    failures += usize::from(profile.allow(backend, None).is_ok());
                    format!("does not run: {error}")
                }
            };
            say!("{:<10} {:<7} {line}", profile.name, backend.short_name());
        }
    }
    say!(
        "{:<10} {:<7} computed in the reading process: no program, so nothing to contain",
        "any",
        "expression"
    );
    if failures > 0 { Err(format!("{failures} kinds of functions do not run here").into()) } else { Ok(()) }
}
