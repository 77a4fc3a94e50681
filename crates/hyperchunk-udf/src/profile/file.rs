//! Parser for `profile.toml`.

use super::{Grants, InputFiles, Limits, Profile, wrong};
use crate::backend::Backend;
use crate::endpoint::Endpoint;
use crate::error::{Result, fail};
use hyperchunk_sandbox::Layers;
use serde::Deserialize;

/// Maximum number of endpoints of a profile; the list is sent with each evaluation.
const MAX_ENDPOINTS: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    languages: Option<Vec<String>>,
    lua_compiler: Option<bool>,
    inputs: Option<String>,
    #[serde(default)]
    require: Vec<String>,
    #[serde(default)]
    limits: FileLimits,
    #[serde(default)]
    grant: FileGrants,
}

/// Table `[limits]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileLimits {
    wall_s: Option<u64>,
    cpu_s: Option<u64>,
    read_s: Option<u64>,
    memory: Option<String>,
    data: Option<String>,
    chain_depth: Option<usize>,
    file: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct FileGrants {
    read: Vec<String>,
    write: Vec<String>,
    connect: Vec<String>,
    imports: Vec<String>,
    syscalls: Vec<String>,
    gpu: bool,
}

impl FileLimits {
    /// Sets each given limit to the result of `choose` on the current value and the given one.
    pub(crate) fn set(&self, limits: &mut Limits, choose: fn(u64, u64) -> u64) -> Result<()> {
        let set = |to: &mut u64, from: Option<u64>| *to = from.map_or(*to, |new| choose(*to, new));
        set(&mut limits.wall_s, self.wall_s);
        set(&mut limits.cpu_s, self.cpu_s);
        set(&mut limits.read_s, self.read_s);
        set(&mut limits.memory, size(self.memory.as_deref())?);
        set(&mut limits.data, size(self.data.as_deref())?);
        set(&mut limits.file, size(self.file.as_deref())?);
        if let Some(depth) = self.chain_depth {
            let depth = choose(limits.chain_depth as u64, depth as u64);
            limits.chain_depth = usize::try_from(depth).unwrap_or(usize::MAX).min(64);
        }
        if limits.wall_s == 0 || limits.cpu_s == 0 || limits.read_s == 0 {
            fail!(Key, "a limit of 0 seconds lets nothing run")
        }
        Ok(())
    }
}

impl Profile {
    /// Applies the text of a `profile.toml`.
    pub(super) fn apply(&mut self, text: &str) -> Result<()> {
        let file: File = crate::settings::parse(text).map_err(wrong)?;
        if file.version != 1 {
            fail!(Key, "version {} is not supported by this version of hyperchunk", file.version)
        }
        file.limits.set(&mut self.limits, |_, new| new)?;
        if let Some(languages) = file.languages {
            self.run_only(&languages)?;
        }
        if let Some(compiler) = file.lua_compiler {
            if compiler && self.name == "untrusted" {
                fail!(
                    Key,
                    "profile untrusted cannot have `lua_compiler`: machine code is for keys that you trust"
                )
            }
            self.jit = compiler;
        }
        if let Some(word) = &file.inputs {
            self.inputs = match word.as_str() {
                "file" => InputFiles::File,
                "beside" => InputFiles::Beside,
                "any" if self.name == "untrusted" => fail!(
                    Key,
                    "profile untrusted cannot have `inputs = \"any\"`: a stranger's file would choose which of your files its function sees"
                ),
                "any" => InputFiles::Any,
                _ => fail!(Key, "{word:?} in `inputs` is none of \"file\", \"beside\" and \"any\""),
            };
        }
        for word in &file.require {
            self.demand(word)?;
        }
        self.grant(file.grant)
    }

    fn run_only(&mut self, languages: &[String]) -> Result<()> {
        let mut backends = Vec::new();
        for language in languages {
            let backend = Backend::from_short_name(language)?;
            if !self.backends.contains(&backend) && backend.has_worker() {
                fail!(
                    Key,
                    "profile {} cannot run {language}: native code is for keys that you trust",
                    self.name
                )
            }
            backends.push(backend);
        }
        self.backends = backends;
        Ok(())
    }

    fn demand(&mut self, word: &str) -> Result<()> {
        if let Some(version) = word.strip_prefix("landlock>=") {
            let Ok(version) = version.trim().parse::<u32>() else {
                fail!(Key, "{word:?} in `require` is not of the form \"landlock>=3\"")
            };
            self.require.landlock = self.require.landlock.max(version);
            return Ok(());
        }
        match Layers::from_names([word]) {
            Ok(layer) => self.require.layers |= layer,
            Err(_) => fail!(
                Key,
                "unknown layer {word:?} in `require`; expected one of {}, or \"landlock>=N\"",
                Layers::ALL
            ),
        }
        Ok(())
    }

    fn grant(&mut self, from: FileGrants) -> Result<()> {
        let mut grants = Grants { gpu: from.gpu, ..Grants::default() };
        for text in &from.connect {
            let endpoint = Endpoint::parse(text).map_err(|e| wrong(format!("`connect`: {}", e.message())))?;
            if !grants.connect.contains(&endpoint) {
                grants.connect.push(endpoint);
            }
        }
        if grants.connect.len() > MAX_ENDPOINTS {
            fail!(Key, "`connect` lists more than {MAX_ENDPOINTS} endpoints")
        }
        for path in &from.read {
            grants.read.push(Grants::path(path, false)?);
        }
        for path in &from.write {
            grants.write.push(Grants::path(path, true)?);
        }
        for module in from.imports {
            if !is_module(&module) {
                fail!(Key, "{module:?} in `imports` is not the name of a Python module")
            }
            grants.imports.push(module);
        }
        for group in &from.syscalls {
            match group.as_str() {
                "threads" => grants.threads = true,
                "clock" => grants.clock = true,
                "jit" => grants.jit = true,
                _ => fail!(
                    Key,
                    "unknown group {group:?} in `syscalls`; expected \"threads\", \"clock\" or \"jit\" (for files: `read` and `write`)"
                ),
            }
        }
        if self.name == "default" && !grants.connect.is_empty() {
            fail!(
                Key,
                "profile default cannot grant the network; make another profile for the keys that need it: hyperchunk trust move FINGERPRINT PROFILE"
            )
        }
        if self.name == "untrusted" && grants != Grants::default() {
            fail!(
                Key,
                "profile untrusted cannot grant anything, since it applies to all unknown signers; make another profile and put the key there: hyperchunk trust move FINGERPRINT PROFILE"
            )
        }
        self.grants = grants;
        Ok(())
    }
}

fn is_module(name: &str) -> bool {
    let part = |p: &str| {
        p.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
            && p.bytes().next().is_some_and(|c| !c.is_ascii_digit())
    };
    name.len() <= 200 && name.split('.').all(part)
}

/// Parses a size such as `512MiB`.
fn size(text: Option<&str>) -> Result<Option<u64>> {
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
