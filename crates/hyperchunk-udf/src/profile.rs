//! Trust profiles: rights and limits of a function, chosen by the key that signed it.
//!
//! Three are built in (`untrusted`, `default`, `self`); each folder `profiles/NAME` with a `profile.toml`, of
//! the user or of the administrator, defines another. Functions have only the rights that their profile
//! grants: there is no switch that turns the sandbox off.

mod file;
mod grants;
mod import;

use crate::backend::Backend;
use crate::error::{Error, Result, fail};
use crate::keys;
use crate::record::Needs;
use crate::signature::Fingerprint;
use crate::system::{self, Policy};
use crate::trust;
use hyperchunk_sandbox::Layers;
use std::path::PathBuf;

pub(crate) use file::FileLimits;
pub use grants::Grants;
pub use import::{ImportedFile, ImportedProfile, import, import_file};

/// Limits on one evaluation (one chunk of a blockwise function, the whole array otherwise).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum duration of one evaluation in seconds.
    pub wall_s: u64,
    /// Maximum processor time of one evaluation in seconds.
    pub cpu_s: u64,
    /// Maximum computing time in seconds for one read through `hyperchunk.open`, over all blocks and threads.
    pub read_s: u64,
    /// Memory limit in bytes, excluding inputs and outputs.
    pub memory: u64,
    /// Maximum bytes that one evaluation may read and write.
    pub data: u64,
    /// Maximum length of a chain of live datasets that read each other.
    pub chain_depth: usize,
    /// Maximum size in bytes of a file that a function may write, if it may write any.
    pub file: u64,
}

/// Requirements on the sandbox beyond its [mandatory layers](Layers::MANDATORY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Require {
    /// Required layers.
    pub layers: Layers,
    /// Minimum version of Landlock.
    pub landlock: u32,
}

/// Permitted locations of a function's inputs. The live dataset names them, and could otherwise name any file
/// to which its reader has access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum InputFiles {
    /// Only the file of the live dataset.
    File,
    /// Also files of the same folder, and below it.
    #[default]
    Beside,
    /// Any regular file that the reader may read, except in `/proc`, `/sys` and `/dev`.
    Any,
}

/// Trust profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name.
    pub name: String,
    /// Permitted languages.
    pub backends: Vec<Backend>,
    /// Set if LuaJIT may generate machine code.
    pub jit: bool,
    /// Set if Lua has clocks finer than a few milliseconds.
    pub fine_clocks: bool,
    /// Limits.
    pub limits: Limits,
    /// Permitted locations of inputs, for expressions, too.
    pub inputs: InputFiles,
    /// Rights in addition to the inputs and outputs.
    pub grants: Grants,
    /// Requirements on the sandbox.
    pub require: Require,
}

impl Needs {
    /// Returns the reason why the function does not get the clock, if it does not.
    pub fn no_clock(&self, profile: &Profile) -> Option<String> {
        let name = &profile.name;
        match (self.clock, profile.grants.clock) {
            (true, true) => None,
            (false, _) => Some(
                "the record does not say that this function reads the clock, so it has none; attach it again".into(),
            ),
            (true, false) if name == "untrusted" => Some(
                "profile untrusted, which applies to unknown signers, does not grant the clock; put the key into a profile that does (docs: Security)".into(),
            ),
            (true, false) => Some(format!(
                "profile {name} does not grant the clock; write syscalls = [\"clock\"] below [grant] in its profile.toml ({})",
                Profile::path(name).map_or_else(|_| "docs: Security".into(), |path| path.display().to_string())
            )),
        }
    }
}

const LIMITS: Limits = Limits {
    wall_s: 60,
    cpu_s: 60,
    read_s: 3600,
    memory: 4 << 30,
    data: 16 << 30,
    chain_depth: 8,
    file: 1 << 30,
};

impl Profile {
    /// Names of the built-in profiles, from the least trusted to the most.
    pub const NAMES: [&'static str; 3] = ["untrusted", "default", "self"];

    /// Returns the profile for unknown signers: Python, WebAssembly, and Lua without its compiler and fine
    /// clocks; 10 seconds, 1 GiB of memory, 8 GiB of inputs and outputs.
    pub fn untrusted() -> Self {
        Profile {
            backends: vec![Backend::Python, Backend::Lua, Backend::Wasm],
            jit: false,
            fine_clocks: false,
            limits: Limits { wall_s: 10, cpu_s: 10, read_s: 30, memory: 1 << 30, data: 8 << 30, ..LIMITS },
            ..Profile::like_default("untrusted")
        }
    }

    /// Returns the profile for signers whose key the user put into `profiles/default/keys`.
    pub fn default_profile() -> Self {
        Profile::like_default("default")
    }

    /// Returns the profile for functions that the user signed: the same sandbox as `default`.
    pub fn own() -> Self {
        Profile::like_default("self")
    }

    fn like_default(name: &str) -> Self {
        Profile {
            name: name.into(),
            backends: Backend::ALL.to_vec(),
            jit: true,
            fine_clocks: true,
            limits: LIMITS,
            inputs: InputFiles::default(),
            grants: Grants::default(),
            require: Require::default(),
        }
    }

    /// Returns the profile for a function signed by `signer`, with the user's changes in
    /// `profiles/<name>/profile.toml`.
    ///
    /// # Errors
    /// `Refused` when the key was revoked; `Key` when a relevant file is unsafe or malformed, or when two
    /// profiles list the key: no function runs then.
    pub fn for_signer(signer: Option<Fingerprint>) -> Result<Self> {
        let name = match signer {
            None => "untrusted".to_owned(),
            Some(fingerprint) => trust::profile_name(&fingerprint)?,
        };
        Profile::named(&name)
    }

    /// Returns the profile called `name`: the built-in one, changed by the administrator's file, then by the
    /// user's, and bounded by the administrator's policy.
    ///
    /// # Errors
    /// `NotFound` if there is no such profile; `Key` when a file is unsafe or malformed.
    pub fn named(name: &str) -> Result<Self> {
        let mut profile = match name {
            "untrusted" => Profile::untrusted(),
            _ => Profile::like_default(name),
        };
        let own = Profile::path(name);
        let stock = Profile::NAMES.contains(&name);
        let policy = Policy::load()?;
        let shared = system::folder().join("profiles").join(name).join("profile.toml");
        let mut known = stock;
        if is_name(name)
            && let Some(text) = system::read(&shared)?
        {
            profile.apply(&text).map_err(|e| e.about(shared.display().to_string()))?;
            known = true;
        }
        match &own {
            Ok(path) if policy.user_profiles => {
                if let Some(text) = keys::read_own(path, 0o022)? {
                    profile.apply(&text).map_err(|e| e.about(path.display().to_string()))?;
                    known = true;
                }
            }
            // Without a home folder, the built-in and the administrator's apply.
            _ => {}
        }
        if !known {
            let path = own?;
            let (own, shared) = (path.display(), shared.display());
            fail!(NotFound, "there is no profile {name}: neither {own} nor {shared} exists")
        }
        policy.bound(&mut profile)?;
        Ok(profile)
    }

    /// Returns the path of the file of the profile called `name`, which need not exist.
    ///
    /// # Errors
    /// `Syntax` for an invalid name; the errors of [`keys::config_dir`].
    pub fn path(name: &str) -> Result<PathBuf> {
        if !is_name(name) {
            fail!(
                Syntax,
                "{:?} is not a valid name of a profile: expected at most 40 letters, digits, - and _",
                crate::escape::escape(name, 60)
            )
        }
        Ok(keys::config_dir()?.join("profiles").join(name).join("profile.toml"))
    }

    /// Creates the profile called `name` with the text of its file.
    ///
    /// # Errors
    /// `Exists` when there is one; `Key` when the text is not a valid profile.
    pub fn create(name: &str, toml: &str) -> Result<PathBuf> {
        let path = Profile::path(name)?;
        Profile::like_default(name).apply(toml)?;
        keys::create(&path, toml)?;
        Ok(path)
    }

    /// Lists the profiles: the built-in ones, then those of the administrator and the user, sorted.
    ///
    /// # Errors
    /// `Io` when the folder of profiles cannot be listed.
    pub fn names() -> Result<Vec<String>> {
        let mut found = keys::list_folder(&system::folder().join("profiles"))?;
        if Policy::load()?.user_profiles
            && let Ok(config) = keys::config_dir()
        {
            found.extend(keys::list_folder(&config.join("profiles"))?);
        }
        found.retain(|n| is_name(n) && !Profile::NAMES.contains(&n.as_str()));
        found.sort();
        found.dedup();
        Ok(Profile::NAMES.map(String::from).into_iter().chain(found).collect())
    }

    /// Checks that `backend` may run here.
    ///
    /// # Errors
    /// `Refused`, saying how to trust the key.
    pub fn allow(&self, backend: Backend, signer: Option<Fingerprint>) -> Result<()> {
        // An expression can only compute, regardless of its author.
        if !backend.has_worker() || self.backends.contains(&backend) {
            return self.allow_gpu(backend);
        }
        let (name, language) = (&self.name, backend.short_name());
        // The administrator's policy cannot be changed in the user's file.
        if Policy::load()?.forbids(backend) {
            let policy = system::folder().join("policy.toml");
            fail!(
                Refused,
                "refused to run: this machine's administrator lets no profile run {language} ({}: languages)",
                policy.display()
            )
        }
        if name != "untrusted" {
            let file = Profile::path(name).map_or_else(|_| "its file".into(), |p| p.display().to_string());
            fail!(
                Refused,
                "refused to run: profile {name} does not run {language}; {file} lists the languages that it runs"
            )
        }
        if self.backends.is_empty() {
            let policy = system::folder().join("policy.toml");
            fail!(
                Refused,
                "refused to run: profile {name} runs nothing ({who}), as this machine's administrator decided: {}",
                policy.display(),
                who = signer.map_or("unsigned".into(), |f| format!("signed by {f}, which is unknown here")),
            )
        }
        let (who, how) = match signer {
            None => ("it is not signed".to_owned(), "have them sign it, and then trust their key".to_owned()),
            Some(f) => (
                format!("it is signed by {f}, which no profile but `untrusted` knows"),
                format!("trust their key: hyperchunk trust add {f} --profile default"),
            ),
        };
        fail!(
            Refused,
            "refused to run: {who}, and profile {name} does not run {language} (native code). If you trust its author, {how} (docs: Security)"
        )
    }
}

impl Profile {
    /// Checks the grant of the GPU: a kernel has access to the GPU's memory and driver, which our sandbox
    /// does not confine.
    fn allow_gpu(&self, backend: Backend) -> Result<()> {
        if backend != Backend::Cuda || self.grants.gpu {
            return Ok(());
        }
        let name = &self.name;
        if !Policy::load()?.gpu {
            let policy = system::folder().join("policy.toml");
            fail!(
                Refused,
                "refused to run: this machine's administrator grants no profile the GPU ({}: gpu = false)",
                policy.display()
            )
        }
        let file = Profile::path(name).map_or_else(|_| "profile.toml".into(), |p| p.display().to_string());
        fail!(
            Refused,
            "refused to run: profile {name} does not grant the GPU; write gpu = true below [grant] in {file} (docs: Security), or compute the same in C++, Lua, Python or an expression"
        )
    }
}

/// Returns whether `name` is valid for a profile and its folder.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
    (1..=40).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('-')
}

/// Returns an error about a profile's file.
fn wrong(text: impl Into<String>) -> Error {
    Error::new(crate::error::ErrorKind::Key, text)
}

#[cfg(test)]
mod tests;
