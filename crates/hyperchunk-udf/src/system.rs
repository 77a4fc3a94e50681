//! Machine-wide settings of the administrator, in `/etc/hyperchunk`.
//!
//! The folder has the same layout as a user's: `profiles/<name>/profile.toml`,
//! `profiles/<name>/keys/<fingerprint>.pub`, `revoked/<fingerprint>`, `audit.toml`. Its `policy.toml` bounds
//! every profile. Files are read only if root (or the reading user) alone can have written them.
//!
//! **Invariant:** an existing file that cannot be read is an error, and never treated as missing.

use crate::backend::Backend;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::keys;
use crate::profile::{FileLimits, Profile};
use crate::settings;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Default folder, unless `$HYPERCHUNK_SYSTEM_CONFIG` names another one.
pub const FOLDER: &str = "/etc/hyperchunk";
const VARIABLE: &str = "HYPERCHUNK_SYSTEM_CONFIG";

/// Returns the folder, whether it exists or not. In a set-uid program, whose environment belongs to another
/// user, it is [`FOLDER`].
pub fn folder() -> PathBuf {
    let named =
        std::env::var_os(VARIABLE).map(PathBuf::from).filter(|p| !keys::is_set_uid() && p.is_absolute());
    named.unwrap_or_else(|| FOLDER.into())
}

/// Reads a file in [`folder`]; `None` when there is none.
///
/// # Errors
/// `Key` when another user could have written it, or it exists and cannot be read.
pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    if let Some(text) = keys::read_own(path, 0o022)? {
        return Ok(Some(text));
    }
    match std::fs::symlink_metadata(path) {
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        _ => Err(Error::new(
            ErrorKind::Key,
            "belongs to the administrator and cannot be read; as the administrator, run: chmod -R a+rX /etc/hyperchunk",
        )
        .about(path.display().to_string())),
    }
}

/// Policy for all users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Set if users' own profiles and lists of trusted keys apply. Their distrusted and revoked keys always
    /// do.
    pub user_profiles: bool,
    /// Set if functions of unknown signers run.
    pub strangers: bool,
    /// Set if profiles can grant the GPU.
    pub gpu: bool,
    languages: Option<Vec<Backend>>,
    limits: FileLimits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    user_profiles: Option<bool>,
    strangers: Option<String>,
    gpu: Option<bool>,
    languages: Option<Vec<String>>,
    #[serde(default)]
    limits: FileLimits,
}

impl Policy {
    /// Loads the policy of this machine; without a file, it changes nothing.
    ///
    /// # Errors
    /// `Key` when the file is unsafe or malformed: no function runs then.
    pub fn load() -> Result<Self> {
        let path = folder().join("policy.toml");
        match read(&path)? {
            Some(text) => Policy::parse(&text).map_err(|e| e.about(path.display().to_string())),
            None => Ok(Policy {
                user_profiles: true,
                strangers: true,
                gpu: true,
                languages: None,
                limits: FileLimits::default(),
            }),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let file: File = match settings::parse(text) {
            Ok(file) => file,
            Err(error) => fail!(Key, "{error}"),
        };
        if file.version != 1 {
            fail!(Key, "version {} is not supported by this version of hyperchunk", file.version)
        }
        let strangers = match file.strangers.as_deref() {
            None | Some("run") => true,
            Some("refuse") => false,
            Some(other) => fail!(Key, "`strangers` is \"run\" or \"refuse\", not {other:?}"),
        };
        let languages =
            file.languages.map(|l| l.iter().map(|l| Backend::from_short_name(l)).collect()).transpose()?;
        let policy = Policy {
            user_profiles: file.user_profiles.unwrap_or(true),
            strangers,
            gpu: file.gpu.unwrap_or(true),
            languages,
            limits: file.limits,
        };
        policy.limits.set(&mut Profile::untrusted().limits, u64::min)?;
        Ok(policy)
    }

    /// Returns whether no profile may run this language.
    pub(crate) fn forbids(&self, backend: Backend) -> bool {
        self.languages.as_ref().is_some_and(|languages| !languages.contains(&backend))
    }

    /// Reduces `profile` to the policy's bounds.
    pub(crate) fn bound(&self, profile: &mut Profile) -> Result<()> {
        if let Some(languages) = &self.languages {
            profile.backends.retain(|b| languages.contains(b));
        }
        if !self.strangers && profile.name == "untrusted" {
            profile.backends.clear();
        }
        profile.grants.gpu &= self.gpu;
        self.limits.set(&mut profile.limits, u64::min)
    }

    /// Describes the policy; empty when it changes nothing.
    pub fn describe(&self) -> String {
        let mut words = Vec::new();
        if !self.user_profiles {
            words.push("users' own profiles are ignored".to_owned());
        }
        if !self.strangers {
            words.push("functions of unknown signers are refused".to_owned());
        }
        if !self.gpu {
            words.push("no profile is granted the GPU".to_owned());
        }
        if let Some(languages) = &self.languages {
            let names: Vec<_> = languages.iter().map(|b| b.short_name()).collect();
            words.push(format!("languages: {}", names.join(", ")));
        }
        if self.limits != FileLimits::default() {
            words.push("limits are bounded".to_owned());
        }
        words.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, of: Profile) -> Result<Profile> {
        let mut profile = of;
        Policy::parse(&format!("version = 1\n{text}"))?.bound(&mut profile)?;
        Ok(profile)
    }

    #[test]
    fn a_policy_only_takes_away() {
        let own = Profile::own();
        assert_eq!(check("", own.clone()).unwrap(), own);
        let less = check("[limits]\nwall_s = 20\nmemory = \"1GiB\"\nchain_depth = 2", own.clone()).unwrap();
        assert_eq!((less.limits.wall_s, less.limits.memory, less.limits.chain_depth), (20, 1 << 30, 2));
        assert_eq!(less.limits.cpu_s, own.limits.cpu_s);
        let more = check("[limits]\nwall_s = 2000\ndata = \"999GiB\"", own.clone()).unwrap();
        assert_eq!(more, own);
        assert_eq!(check("languages = [\"lua\"]", own.clone()).unwrap().backends, [Backend::Lua]);
        // A policy does not add languages to a profile.
        let none = check("languages = [\"c++\"]", Profile::untrusted()).unwrap();
        assert_eq!(none.backends, []);
        assert_eq!(check("strangers = \"refuse\"", Profile::untrusted()).unwrap().backends, []);
        assert_eq!(check("strangers = \"refuse\"", own.clone()).unwrap(), own);
        let policy = Policy::parse("version = 1\nlanguages = [\"lua\"]").unwrap();
        assert!(policy.forbids(Backend::Cpp) && !policy.forbids(Backend::Lua));
        let mut with_gpu = own.clone();
        with_gpu.grants.gpu = true;
        assert!(check("", with_gpu.clone()).unwrap().grants.gpu);
        assert!(!check("gpu = false", with_gpu).unwrap().grants.gpu);
        assert!(!check("gpu = true", own).unwrap().grants.gpu);
    }

    #[test]
    fn a_policy_that_is_wrong_lets_nothing_run() {
        for bad in
            ["stranger = \"refuse\"", "strangers = \"no\"", "languages = [\"perl\"]", "[limits]\nwall_s = 0"]
        {
            assert!(check(bad, Profile::own()).is_err(), "{bad}");
        }
        assert!(Policy::parse("").is_err());
        assert!(Policy::parse("version = 2").unwrap_err().message().contains("version 2"));
        assert!(check("[limits]\nmemory = \"1 kB\"", Profile::own()).is_err());
    }
}
