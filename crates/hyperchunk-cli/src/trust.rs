//! `hyperchunk trust`.

use crate::Outcome;
use clap::Subcommand;
use hyperchunk_h5abi::{Library, edit};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::keys::{self, PublicKey};
use hyperchunk_udf::legacy;
use hyperchunk_udf::profile::{self, Profile};
use hyperchunk_udf::signature::Fingerprint;
use hyperchunk_udf::trust::{self, Listed, Place};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const ADD_HELP: &str = "\
Examples:
  hyperchunk trust add ada.pub --profile default
  hyperchunk trust add SHA256:owWxCoBJlEQKDgwLS-310SGRuFw9I8QC3ZBLkH9CFV8 --profile lab --name Ada
  hyperchunk trust add scene.h5:/NDVI --profile default      whoever signed it";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Put somebody's key into a profile: what they signed then runs with that profile's rights.
    #[command(after_help = ADD_HELP)]
    Add {
        /// A public key file (ours, or HDF5-UDF's), a fingerprint, or FILE:/DATASET for the key that signed it.
        key: String,
        /// The profile: untrusted, default, or one of yours.
        #[arg(long)]
        profile: String,
        /// A label for yourself, instead of the one in the key.
        #[arg(long)]
        name: Option<String>,
        /// Trust a key again that you revoked.
        #[arg(long)]
        even_if_revoked: bool,
    },
    /// List the keys that you put into profiles, and those that you revoked.
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Put a listed key into another profile.
    Move {
        /// The key's fingerprint.
        fingerprint: String,
        /// The profile.
        profile: String,
    },
    /// Take all trust from a key: what it signed is refused from now on, even as a stranger's.
    Revoke {
        /// The key's fingerprint.
        fingerprint: String,
    },
    /// Take a key out of every profile. It is then a stranger's.
    Rm {
        /// The key's fingerprint.
        fingerprint: String,
    },
    /// Make a profile of HDF5-UDF's rules (JSON). What cannot be carried over is told.
    ImportProfile {
        /// The rules, such as ~/.config/hdf5-udf/default/default.json.
        file: PathBuf,
        /// The new profile's name; without it, the file's.
        #[arg(long)]
        name: Option<String>,
        /// Print the profile, write nothing.
        #[arg(long)]
        dry_run: bool,
    },
}

pub(crate) fn run(command: Command, library: Option<&Path>) -> Outcome {
    match command {
        Command::Add { key, profile, name, even_if_revoked } => {
            let mut listed = find(&key, &profile, library)?;
            if let Some(name) = name {
                listed.name = name;
            }
            trust::add(&listed, even_if_revoked)?;
            say!("{} is in profile {profile}", label(&listed));
            say!("{}", about(&Profile::named(&profile)?));
        }
        Command::Ls { json } => ls(json)?,
        Command::Move { fingerprint, profile } => {
            let fingerprint = Fingerprint::parse(&fingerprint)?;
            let Some(mut listed) = trust::find(&fingerprint)? else {
                return Err(format!("{fingerprint} is in no profile: hyperchunk trust add").into());
            };
            listed.place = Place::Profile(profile.clone());
            listed.shared = false;
            trust::add(&listed, false)?;
            say!("{} is in profile {profile}", label(&listed));
        }
        Command::Revoke { fingerprint } => {
            let fingerprint = Fingerprint::parse(&fingerprint)?;
            let known = trust::find(&fingerprint)?;
            let name = known.as_ref().map_or("", |l| &l.name);
            trust::revoke(&fingerprint, name, &keys::now())?;
            say!("{fingerprint} is revoked: nothing that it signed runs here");
            if keys::own_public_key()?.is_some_and(|own| Fingerprint::of(&own.key) == fingerprint) {
                say!(
                    "it is your own key: move keys/self.key and keys/self.pub away, make a new one (hyperchunk key new), and sign anew what you wrote (hyperchunk udf rebuild --take-over)"
                );
            }
        }
        Command::Rm { fingerprint } => {
            let fingerprint = Fingerprint::parse(&fingerprint)?;
            if !trust::remove(&fingerprint)? {
                return Err(match trust::find(&fingerprint)? {
                    Some(_) => format!("{fingerprint} is in a profile for everybody, which its administrator keeps; to distrust it: hyperchunk trust move {fingerprint} untrusted"),
                    None => format!("{fingerprint} is in no profile"),
                }
                .into());
            }
            say!("{fingerprint} is in no profile of yours any more");
        }
        Command::ImportProfile { file, name, dry_run } => import(&file, name, dry_run)?,
    }
    Ok(())
}

/// The key that the user names.
fn find(key: &str, profile: &str, library: Option<&Path>) -> Result<Listed, Box<dyn std::error::Error>> {
    if Path::new(key).is_file() {
        let text = std::fs::read_to_string(key).map_err(|e| format!("{}: {e}", escape(key, 300)))?;
        let public = match legacy::public_key(&text) {
            Some(public) => public,
            None => PublicKey::from_text(&text).map_err(|e| e.about(key))?,
        };
        return Ok(Listed::new(&public, profile));
    }
    if let Ok((file, dataset)) = edit::split_target(key) {
        let entry = edit::find(Library::load(library)?, Path::new(file), dataset)?;
        let Some(key) = entry.key()? else {
            return Err(format!("{}: nobody signed it", escape(key, 300)).into());
        };
        return Ok(Listed::new(&key, profile));
    }
    let Ok(fingerprint) = Fingerprint::parse(key) else {
        let message = "is neither a key file, nor a fingerprint, nor FILE:/DATASET";
        return Err(format!("{:?} {message}", escape(key, 300)).into());
    };
    let known = trust::find(&fingerprint)?;
    let place = Place::Profile(profile.to_owned());
    Ok(known.map(|l| Listed { place: place.clone(), shared: false, ..l }).unwrap_or(Listed {
        fingerprint,
        key: None,
        name: String::new(),
        email: String::new(),
        place,
        shared: false,
    }))
}

fn label(listed: &Listed) -> String {
    let labels = format!("{} {}", escape(&listed.name, 80), escape(&listed.email, 80));
    format!("{} {}", listed.fingerprint, labels.trim()).trim_end().to_owned()
}

/// A profile in words.
pub(crate) fn about(profile: &Profile) -> String {
    let languages: Vec<_> = profile.backends.iter().map(|b| b.short_name()).collect();
    let (limits, grants) = (&profile.limits, profile.grants.describe());
    format!(
        "profile {}: {}; at most {} s, {} MiB of memory, {} MiB of inputs and outputs an evaluation; {}",
        profile.name,
        if languages.is_empty() {
            "runs nothing".to_owned()
        } else {
            format!("runs {}", languages.join(", "))
        },
        limits.wall_s,
        limits.memory >> 20,
        limits.data >> 20,
        if grants.is_empty() {
            "no files, no network".to_owned()
        } else {
            format!("may {grants}; no network")
        },
    )
}

fn ls(as_json: bool) -> Outcome {
    let own = keys::own_public_key()?;
    let listed = trust::list()?;
    let mut rows = Vec::new();
    if let Some(own) = &own {
        rows.push(Listed::new(own, "self"));
    }
    let mut bad = Vec::new();
    for one in listed {
        match one {
            Ok(one) => rows.push(one),
            Err(error) => bad.push(error.to_string()),
        }
    }
    if as_json {
        let rows: Vec<_> = rows.iter().map(row_json).collect();
        say!("{}", Value::Array(rows));
    } else {
        for row in &rows {
            let place = match &row.place {
                Place::Profile(profile) => profile.clone(),
                Place::Revoked(since) => format!("revoked {}", escape(since, 40)).trim_end().to_owned(),
            };
            let place = if row.shared { format!("{place} (for everybody)") } else { place };
            say!("{}\t{place}\t{}\t{}", row.fingerprint, escape(&row.name, 80), escape(&row.email, 80));
        }
    }
    match bad.first() {
        None => Ok(()),
        Some(first) if bad.len() == 1 => Err(first.clone().into()),
        Some(first) => Err(format!("{first} (and {} more)", bad.len() - 1).into()),
    }
}

fn row_json(row: &Listed) -> Value {
    let (profile, revoked) = match &row.place {
        Place::Profile(profile) => (Some(profile), None),
        Place::Revoked(since) => (None, Some(since)),
    };
    json!({
        "fingerprint": row.fingerprint.to_string(),
        "profile": profile,
        "revoked": revoked,
        "shared": row.shared,
        "name": row.name,
        "email": row.email,
    })
}

fn import(file: &Path, name: Option<String>, dry_run: bool) -> Outcome {
    let shown = escape(&file.display().to_string(), 300);
    let meta = std::fs::metadata(file).map_err(|e| format!("{shown}: {e}"))?;
    if meta.len() > 1 << 20 {
        return Err(format!("{shown}: has more than 1 MiB").into());
    }
    let text = std::fs::read_to_string(file).map_err(|e| format!("{shown}: {e}"))?;
    let imported = profile::import(&text).map_err(|e| e.about(file.display().to_string()))?;
    for warning in &imported.warnings {
        crate::complain(&format!("warning: {warning}"));
    }
    if dry_run {
        crate::print_text(&imported.toml);
        return Ok(());
    }
    let stem = file.file_stem().map(|s| s.to_string_lossy().into_owned());
    let name = name.or(stem).unwrap_or_default();
    if Profile::NAMES.contains(&name.as_str()) {
        return Err(
            format!("{name} is a profile that comes with the program: give the new one a --name").into()
        );
    }
    let path = Profile::create(&name, &imported.toml)?;
    say!("made {}", path.display());
    say!("{}", about(&Profile::named(&name)?));
    Ok(())
}
