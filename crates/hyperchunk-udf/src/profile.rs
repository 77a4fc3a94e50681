//! Trust profiles: what a function may do, decided by the key that signed it.

use crate::backend::Backend;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::keys;
use crate::signature::Fingerprint;
use serde::Deserialize;

/// Limits on one evaluation (one chunk of a blockwise function, the whole array otherwise).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Seconds that one evaluation may take.
    pub wall_s: u64,
    /// Seconds of processor time that one evaluation may take.
    pub cpu_s: u64,
    /// Bytes of memory, beside inputs and outputs.
    pub memory: u64,
    /// Bytes that one evaluation may read and write.
    pub data: u64,
    /// How many live datasets may read each other in a row.
    pub chain_depth: usize,
}

/// A trust profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// The languages it lets run.
    pub backends: Vec<Backend>,
    /// Whether LuaJIT may make machine code.
    pub jit: bool,
    /// Its limits.
    pub limits: Limits,
}

const LIMITS: Limits = Limits { wall_s: 60, cpu_s: 60, memory: 4 << 30, data: 16 << 30, chain_depth: 8 };

impl Profile {
    /// The names of the profiles, from the least trusted to the most.
    pub const NAMES: [&'static str; 3] = ["untrusted", "default", "self"];

    /// For functions that nobody known has signed: Lua without its compiler and Python, 10 seconds, 1 GiB.
    pub fn untrusted() -> Self {
        Profile {
            name: "untrusted",
            backends: vec![Backend::Python, Backend::Lua],
            jit: false,
            limits: Limits { wall_s: 10, cpu_s: 10, memory: 1 << 30, data: 8 << 30, chain_depth: 8 },
        }
    }

    /// For functions signed by a key that the user put into `profiles/default/keys`.
    pub fn default_profile() -> Self {
        Profile { name: "default", backends: Backend::ALL.to_vec(), jit: true, limits: LIMITS }
    }

    /// For functions that the user signed: the same sandbox as `default`.
    pub fn own() -> Self {
        Profile { name: "self", ..Profile::default_profile() }
    }

    /// The profile for a function signed by `signer`, with the user's own limits from
    /// `profiles/<name>/profile.toml`.
    ///
    /// # Errors
    /// `Key` when a file that decides is unsafe or malformed: nothing runs then.
    pub fn of(signer: Option<Fingerprint>) -> Result<Self> {
        let mut profile = match signer {
            None => Profile::untrusted(),
            Some(fingerprint) => Profile::of_key(&fingerprint)?,
        };
        profile.apply_user_limits()?;
        Ok(profile)
    }

    fn of_key(fingerprint: &Fingerprint) -> Result<Self> {
        match keys::config_dir() {
            // Without a home of our own (a service, a set-uid program) nobody is known.
            Err(_) => return Ok(Profile::untrusted()),
            // A list of distrust that cannot be read may have this key.
            Ok(_) if keys::profile_lists("untrusted", fingerprint)? != Some(false) => {
                return Ok(Profile::untrusted());
            }
            Ok(_) => {}
        }
        if keys::profile_lists("default", fingerprint)? == Some(true) {
            return Ok(Profile::default_profile());
        }
        match keys::own_public_key()? {
            Some(own) if Fingerprint::of(&own.key) == *fingerprint => Ok(Profile::own()),
            _ => Ok(Profile::untrusted()),
        }
    }

    /// Whether `backend` may run here.
    ///
    /// # Errors
    /// `Refused`, saying how to trust the key.
    pub fn allow(&self, backend: Backend, signer: Option<Fingerprint>) -> Result<()> {
        // An expression can only compute, whoever wrote it.
        if !backend.has_worker() || self.backends.contains(&backend) {
            return Ok(());
        }
        let who = match signer {
            None => "it is not signed".to_owned(),
            Some(f) => format!("it is signed by {f}, which no profile but `untrusted` knows"),
        };
        fail!(
            Refused,
            "refused to run: {who}, and profile {} does not run {} (native code). If you trust its author, put the author's public key into the profile `default` (docs: Security)",
            self.name,
            backend.short_name()
        )
    }

    fn apply_user_limits(&mut self) -> Result<()> {
        let Ok(dir) = keys::config_dir() else { return Ok(()) };
        let path = dir.join("profiles").join(self.name).join("profile.toml");
        let Some(text) = keys::read_own(&path, 0o022)? else { return Ok(()) };
        self.apply_toml(&text).map_err(|e| e.about(path.display().to_string()))
    }

    fn apply_toml(&mut self, text: &str) -> Result<()> {
        let file: File = toml::from_str(text)
            .map_err(|e| Error::new(ErrorKind::Key, e.to_string().trim_end().to_owned()))?;
        if file.version != 1 {
            fail!(Key, "version {} is not one that this version of hyperchunk reads", file.version)
        }
        let limits = file.limits;
        let set = |to: &mut u64, from: Option<u64>| *to = from.unwrap_or(*to);
        set(&mut self.limits.wall_s, limits.wall_s);
        set(&mut self.limits.cpu_s, limits.cpu_s);
        set(&mut self.limits.memory, size(limits.memory)?);
        set(&mut self.limits.data, size(limits.data)?);
        if let Some(depth) = limits.chain_depth {
            self.limits.chain_depth = depth.min(64);
        }
        if self.limits.wall_s == 0 || self.limits.cpu_s == 0 {
            fail!(Key, "a limit of 0 seconds lets nothing run")
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    limits: FileLimits,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct FileLimits {
    wall_s: Option<u64>,
    cpu_s: Option<u64>,
    memory: Option<String>,
    data: Option<String>,
    chain_depth: Option<usize>,
}

fn size(text: Option<String>) -> Result<Option<u64>> {
    let Some(text) = text else { return Ok(None) };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text.get(digits.len()..).unwrap_or("").trim() {
        "" | "B" => 1u64,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        other => fail!(Key, "unknown unit {other:?}; write B, KiB, MiB or GiB"),
    };
    match digits.trim().parse::<u64>().ok().and_then(|n| n.checked_mul(unit)) {
        Some(bytes) => Ok(Some(bytes)),
        None => fail!(Key, "{text:?} is not a size such as \"512MiB\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(toml: &str) -> Result<Limits> {
        let mut profile = Profile::untrusted();
        profile.apply_toml(toml).map(|()| profile.limits)
    }

    #[test]
    fn user_limits() {
        let limits = check("version = 1\n[limits]\nwall_s = 2\nmemory = \"512MiB\"\n").unwrap();
        assert_eq!((limits.wall_s, limits.memory, limits.cpu_s), (2, 512 << 20, 10));
        for bad in [
            "",
            "version = 2",
            "version = 1\nsandbox = false",
            "version = 1\n[limits]\nwall_s = 0",
            "version = 1\n[limits]\nmemory = \"1TB\"",
            "version = 1\n[limits]\nmemory = \"99999999999GiB\"",
            "version = 1\n[limits]\nwall_s = -1",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn untrusted_runs_no_native_code() {
        assert!(
            Profile::untrusted().allow(Backend::Cpp, None).unwrap_err().to_string().contains("not signed")
        );
        assert!(Profile::own().allow(Backend::Cpp, None).is_ok());
        assert!(Profile::untrusted().allow(Backend::Expression, None).is_ok());
    }
}
