//! `hyperchunk key`.

use crate::Outcome;
use clap::Subcommand;
use hyperchunk::output;
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::keys;
use hyperchunk_udf::signature::Fingerprint;
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Make your signing key, in your home folder, readable only by you.
    New {
        /// Your name, a label for people who inspect your functions. It is not verified.
        #[arg(long, default_value = "")]
        name: String,
        /// Your e-mail address, another label.
        #[arg(long, default_value = "")]
        email: String,
    },
    /// Print your public key, for others to put into one of their profiles.
    Show,
    /// Write your public key to a file, for others: hyperchunk trust add FILE --profile PROFILE.
    Export {
        /// File to write; it must not exist.
        file: PathBuf,
    },
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::New { name, email } => {
            let key = keys::create_own_key(name, email)?;
            say!("{}", key.fingerprint());
            say!("private key: {}", keys::own_key_path()?.display());
        }
        Command::Show => say!("{}", public_text()?.trim_end()),
        Command::Export { file } => {
            let text = public_text()?;
            output::check_new(file)?;
            output::write(file, text.as_bytes(), false)?;
            say!("wrote your public key to {}", escape(&file.display().to_string(), 300));
        }
    }
    Ok(())
}

/// Returns the user's public key and its fingerprint as text.
fn public_text() -> Result<String, Box<dyn std::error::Error>> {
    match keys::own_public_key()? {
        Some(key) => Ok(format!("{}fingerprint {}\n", key.to_text(), Fingerprint::from_public_key(&key.key))),
        None => Err("there is no signing key yet: run `hyperchunk key new`".into()),
    }
}
