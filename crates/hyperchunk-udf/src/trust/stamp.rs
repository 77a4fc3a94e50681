//! Version stamp of the trust configuration, used to invalidate cached decisions.

use crate::{keys, os, system};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Interval between checks of the files.
const MAX_STAMP_AGE: Duration = Duration::from_millis(500);

static LAST: Mutex<Option<(Instant, u64)>> = Mutex::new(None);

/// Returns a number that changes after a key was revoked, listed or moved, or a profile or a policy was
/// changed, with a delay of at most half a second.
pub fn stamp() -> u64 {
    let Ok(mut last) = LAST.try_lock() else { return look() };
    if let Some((when, stamp)) = *last
        && when.elapsed() < MAX_STAMP_AGE
    {
        return stamp;
    }
    let stamp = look();
    *last = Some((Instant::now(), stamp));
    stamp
}

fn look() -> u64 {
    let mut hash = DefaultHasher::new();
    for folder in keys::config_dir().ok().into_iter().chain([system::folder()]) {
        for name in ["policy.toml", "revoked", "profiles"] {
            note(&folder.join(name), &mut hash);
        }
        let profiles = folder.join("profiles");
        for profile in keys::list_folder(&profiles).unwrap_or_default() {
            for name in ["", "profile.toml", "keys"] {
                note(&profiles.join(&profile).join(name), &mut hash);
            }
        }
    }
    hash.finish()
}

fn note(path: &Path, hash: &mut DefaultHasher) {
    let known = std::fs::metadata(path).ok();
    known.map(|found| os::version(&found)).hash(hash);
}
