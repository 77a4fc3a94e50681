//! `hyperchunk trust`.

use crate::Outcome;
use clap::Subcommand;
use hyperchunk_live::edit;
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::keys;
use hyperchunk_udf::profile::{self, Profile};
use hyperchunk_udf::signature::Fingerprint;
use hyperchunk_udf::trust::{self, KeyList, KnownKey};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const ADD_HELP: &str = "\
Examples:
  hyperchunk trust add ada.pub --profile default
  hyperchunk trust add SHA256:owWxCoBJlEQKDgwLS-310SGRuFw9I8QC3ZBLkH9CFV8 --profile lab --name Ada
  hyperchunk trust add scene.h5:/NDVI --profile default      the signer of /NDVI";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Put a key into a profile: functions that it signed then have that profile's rights.
    #[command(after_help = ADD_HELP)]
    Add {
        /// A public key file (HDF5-UDF's, too), a fingerprint, or FILE:/DATASET for the key that signed it.
        // One fingerprint in 64 begins with `-`, if it is given without `SHA256:`.
        #[arg(allow_hyphen_values = true)]
        key: String,
        /// Profile: untrusted, default, or one of yours.
        #[arg(long)]
        profile: String,
        /// Label for yourself, instead of the one in the key.
        #[arg(long)]
        name: Option<String>,
        /// Trust a key again that you revoked.
        #[arg(long)]
        even_if_revoked: bool,
    },
    /// List the keys that you put into profiles or revoked.
    Ls {
        /// Print the keys as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Put a listed key into another profile.
    Move {
        /// Fingerprint of the key.
        #[arg(allow_hyphen_values = true)]
        fingerprint: String,
        /// Name of the profile.
        profile: String,
    },
    /// Refuse everything that a key signed, from now on; not even `untrusted` runs it.
    Revoke {
        /// Fingerprint of the key.
        #[arg(allow_hyphen_values = true)]
        fingerprint: String,
    },
    /// Take a key out of its profile. The key is then treated as unknown.
    Rm {
        /// Fingerprint of the key.
        #[arg(allow_hyphen_values = true)]
        fingerprint: String,
    },
    /// Make a profile of HDF5-UDF's rules (JSON), and list the rules that were left out.
    ImportProfile {
        /// File with the rules, such as ~/.config/hdf5-udf/default/default.json.
        file: PathBuf,
        /// Name of the new profile; without it, the file's.
        #[arg(long)]
        name: Option<String>,
        /// Print the profile, write nothing.
        #[arg(long)]
        dry_run: bool,
    },
}

pub(crate) fn run(command: Command) -> Outcome {
    match command {
        Command::Add { key, profile, name, even_if_revoked } => {
            let mut listed = edit::named_key(&key, &profile)?;
            if let Some(name) = name {
                listed.name = name;
            }
            let own = keys::own_public_key()?.map(|own| Fingerprint::from_public_key(&own.key));
            trust::add(&listed, even_if_revoked)?;
            say!("{} is in profile {profile}", label(&listed));
            if own == Some(listed.fingerprint) {
                say!(
                    "it is your own key, and no longer has the rights of profile self; to undo this: \
                     hyperchunk trust rm {}",
                    listed.fingerprint
                );
            }
            say!("{}", describe(&Profile::named(&profile)?));
        }
        Command::Ls { json } => ls(json)?,
        Command::Move { fingerprint, profile } => {
            let fingerprint = Fingerprint::parse(&fingerprint)?;
            let listed = trust::move_to(&fingerprint, &profile)?;
            say!("{} is in profile {profile}", label(&listed));
        }
        Command::Revoke { fingerprint } => {
            let fingerprint = Fingerprint::parse(&fingerprint)?;
            let known = trust::find(&fingerprint)?;
            let name = known.as_ref().map_or("", |l| &l.name);
            trust::revoke(&fingerprint, name, &keys::now())?;
            say!("{fingerprint} is revoked: nothing that it signed runs here");
            if keys::own_public_key()?
                .is_some_and(|own| Fingerprint::from_public_key(&own.key) == fingerprint)
            {
                say!(
                    "it is your own key: move keys/self.key and keys/self.pub away, make a new one \
                     (hyperchunk key new), and sign your functions again (hyperchunk udf rebuild --take-over)"
                );
            }
        }
        Command::Rm { fingerprint } => {
            let fingerprint = Fingerprint::parse(&fingerprint)?;
            trust::forget(&fingerprint)?;
            say!("{fingerprint} is no longer in any of your profiles");
        }
        Command::ImportProfile { file, name, dry_run } => import(&file, name, dry_run)?,
    }
    Ok(())
}

fn label(listed: &KnownKey) -> String {
    let labels = format!("{} {}", escape(&listed.name, 80), escape(&listed.email, 80));
    format!("{} {}", listed.fingerprint, labels.trim()).trim_end().to_owned()
}

/// Describes a profile.
pub(crate) fn describe(profile: &Profile) -> String {
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
            let network = if profile.grants.connect.is_empty() { "no" } else { "no other" };
            format!("may {grants}; {network} network")
        },
    )
}

fn ls(as_json: bool) -> Outcome {
    let (rows, bad) = trust::known()?;
    if as_json {
        let rows: Vec<_> = rows.iter().map(row_json).collect();
        say!("{}", Value::Array(rows));
    } else {
        for row in &rows {
            let place = match &row.place {
                KeyList::Profile(profile) => profile.clone(),
                KeyList::Revoked(since) => format!("revoked {}", escape(since, 40)).trim_end().to_owned(),
            };
            let place = if row.shared { format!("{place} (for everybody)") } else { place };
            say!("{}\t{place}\t{}\t{}", row.fingerprint, escape(&row.name, 80), escape(&row.email, 80));
        }
    }
    bad.map_or(Ok(()), |bad| Err(bad.into()))
}

fn row_json(row: &KnownKey) -> Value {
    json!({
        "fingerprint": row.fingerprint.to_string(),
        "profile": row.profile(),
        "revoked": row.revoked(),
        "shared": row.shared,
        "name": row.name,
        "email": row.email,
    })
}

fn import(file: &Path, name: Option<String>, dry_run: bool) -> Outcome {
    let imported = profile::import_file(file, name.as_deref(), dry_run)?;
    for warning in &imported.warnings {
        crate::print_message(&format!("warning: {warning}"));
    }
    if dry_run {
        crate::print_text(&imported.toml);
        return Ok(());
    }
    let Some((name, path)) = imported.made else { return Ok(()) };
    say!("made {}", path.display());
    say!("{}", describe(&Profile::named(&name)?));
    Ok(())
}
