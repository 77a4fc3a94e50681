//! `hyperchunk key`.

use crate::Outcome;
use clap::Subcommand;
use hyperchunk_udf::keys;
use hyperchunk_udf::signature::Fingerprint;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Make your signing key. It stays in your home folder, readable by nobody else.
    New {
        /// A label for people who look at what you signed; nothing vouches for it.
        #[arg(long, default_value = "")]
        name: String,
        /// Another label.
        #[arg(long, default_value = "")]
        email: String,
    },
    /// Print your public key, for others to put into one of their profiles.
    Show,
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::New { name, email } => {
            let key = keys::create_own_key(name, email)?;
            say!("{}", key.fingerprint());
            say!("private key: {}", keys::own_key_path()?.display());
        }
        Command::Show => match keys::own_public_key()? {
            Some(key) => say!("{}fingerprint {}", key.to_text(), Fingerprint::of(&key.key)),
            None => return Err("there is no signing key yet: run `hyperchunk key new`".into()),
        },
    }
    Ok(())
}
