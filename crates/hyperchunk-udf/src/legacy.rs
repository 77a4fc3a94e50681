//! Datasets that HDF5-UDF 2 wrote. Their single chunk is a JSON header, a NUL and the compiled form, which
//! follows a signature of libsodium's `crypto_sign`. The signature covers only the compiled form: the header
//! may have been changed by others.
//!
//! A compiled form is effectively native code in every language: bytecode of LuaJIT and of CPython has full
//! control of its interpreter. So it runs only if its signer is in a profile, other than `untrusted`, that
//! permits C++ and the dataset's language, and it gets none of that profile's grants.
//! `docs/formats/live-dataset.md` has the fields.

use crate::backend::Backend;
use crate::cpp::TARGET;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::keys::PublicKey;
use crate::profile::{Grants, Profile};
use crate::record::{CompiledForm, MAX_COMPILED_BYTES, MAX_RECORD_BYTES, MAX_SLOTS, Needs, Record, Slot};
use crate::signature::Fingerprint;
pub use crate::stub::is_legacy;
use crate::stub::{LiveId, RecordDigest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signature, VerifyingKey};
use serde::Deserialize;
use std::fmt;

/// Size of the signature that precedes the signed bytes.
const SIGNATURE_BYTES: usize = 64;

/// Header and content of a dataset of HDF5-UDF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyDataset {
    /// Language: `LuaJIT`, `CPython`, `C++` or `CUDA`.
    pub backend: String,
    /// Name of the dataset in the source.
    pub output: String,
    /// Shape.
    pub dims: Vec<u64>,
    /// Datatype, without the size of a string or the members of a compound.
    pub datatype: String,
    /// Inputs.
    pub inputs: Vec<String>,
    /// Other outputs.
    pub scratch: Vec<String>,
    /// Source, if it was stored, including the text that HDF5-UDF adds.
    pub source: Option<String>,
    /// Version of the header.
    pub api_version: u64,
    /// Header, as stored.
    pub header: String,
    /// Compiled form, without its signature.
    pub code: Vec<u8>,
    /// Signer.
    pub signer: Signer,
    /// Digest of the whole chunk.
    pub digest: RecordDigest,
}

/// Signer of a dataset of HDF5-UDF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signer {
    /// Unsigned.
    Nobody,
    /// Signed by this key, with a valid signature.
    Known(PublicKey),
    /// Signed, with an invalid signature.
    Broken,
}

#[derive(Deserialize)]
struct Header {
    backend: String,
    output_dataset: String,
    #[serde(default)]
    output_datatype: String,
    #[serde(default)]
    output_resolution: Vec<u64>,
    #[serde(default)]
    input_datasets: Vec<String>,
    #[serde(default)]
    scratch_datasets: Vec<String>,
    #[serde(default)]
    source_code: String,
    #[serde(default)]
    api_version: u64,
    bytecode_size: u64,
    signature: Option<SignatureHeader>,
}

#[derive(Deserialize)]
struct SignatureHeader {
    public_key: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    email: String,
}

/// Parses a public key file of HDF5-UDF, such as `~/.config/hdf5-udf/LOGIN.pub`.
pub fn public_key(text: &str) -> Option<PublicKey> {
    serde_json::from_str::<SignatureHeader>(text).ok()?.key()
}

impl LegacyDataset {
    /// Parses the chunk of a dataset.
    ///
    /// # Errors
    /// `Invalid` when it is damaged, `Limit` when it is too large.
    pub fn parse(chunk: &[u8]) -> Result<Self> {
        if chunk.len() > MAX_RECORD_BYTES {
            fail!(Limit, "the dataset of HDF5-UDF has {} bytes; the limit is {MAX_RECORD_BYTES}", chunk.len())
        }
        let damaged = |what: &str| {
            Error::new(ErrorKind::Invalid, format!("the dataset of HDF5-UDF is damaged: {what}"))
        };
        let end = chunk.iter().position(|&byte| byte == 0).ok_or_else(|| damaged("its header has no end"))?;
        let (text, rest) = chunk.split_at_checked(end).ok_or_else(|| damaged("its header has no end"))?;
        let text = std::str::from_utf8(text).map_err(|_| damaged("its header is not UTF-8"))?;
        let header: Header =
            serde_json::from_str(text).map_err(|error| damaged(&escape(&error.to_string(), 200)))?;
        let size = usize::try_from(header.bytecode_size).unwrap_or(usize::MAX);
        // The rest begins with the NUL.
        let start = rest.len().checked_sub(size).filter(|start| *start >= 1);
        let compiled = start
            .and_then(|start| rest.get(start..))
            .ok_or_else(|| damaged("its compiled form is cut short"))?;
        let (signer, code) = match header.signature {
            None => (Signer::Nobody, compiled),
            Some(signature) => {
                (signature.check(compiled), compiled.get(SIGNATURE_BYTES..).unwrap_or_default())
            }
        };
        Ok(LegacyDataset {
            backend: header.backend,
            output: header.output_dataset,
            dims: header.output_resolution,
            datatype: header.output_datatype,
            inputs: header.input_datasets,
            scratch: header.scratch_datasets,
            source: Some(header.source_code).filter(|source| !source.is_empty()),
            api_version: header.api_version,
            header: text.to_owned(),
            code: code.to_vec(),
            signer,
            digest: RecordDigest::compute(chunk),
        })
    }

    /// Returns the digest as an id, since these datasets store none.
    pub fn id(&self) -> LiveId {
        LiveId(self.digest.0)
    }

    /// Returns the signer's key, if the signature is valid.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        match &self.signer {
            Signer::Known(key) => Some(Fingerprint::from_public_key(&key.key)),
            _ => None,
        }
    }

    /// Returns the language, if this version runs it.
    ///
    /// # Errors
    /// `Unsupported`, with what can be done.
    pub fn language(&self) -> Result<Backend> {
        let found = Backend::from_json_name(&self.backend);
        match found.ok().filter(|b| matches!(b, Backend::Python | Backend::Lua | Backend::Cpp)) {
            Some(backend) => Ok(backend),
            None => fail!(
                Unsupported,
                "it was written by HDF5-UDF in {}, which is not run here. {}",
                escape(&self.backend, 20),
                self.conversion_advice()
            ),
        }
    }

    /// Returns the language's name in the audit log.
    pub fn language_name(&self) -> &'static str {
        self.language().map_or("unknown", Backend::short_name)
    }

    /// Returns the rights of the compiled form: the profile of its signer, without the grants.
    ///
    /// # Errors
    /// `Invalid` when the signature is invalid, `Refused` with the way out.
    pub fn profile(&self) -> Result<Profile> {
        let backend = self.language()?;
        let way = self.conversion_advice();
        let fingerprint = match &self.signer {
            Signer::Known(key) => Fingerprint::from_public_key(&key.key),
            Signer::Broken => {
                fail!(Invalid, "its signature (of HDF5-UDF) is invalid: the compiled form was changed")
            }
            Signer::Nobody => fail!(
                Refused,
                "refused to run: it was written by HDF5-UDF and is not signed; compiled forms run only if their signer is in one of your profiles. {way}"
            ),
        };
        let mut profile = Profile::for_signer(Some(fingerprint))?;
        if profile.name == "untrusted" {
            fail!(
                Refused,
                "refused to run: it was written by HDF5-UDF and is a compiled form, native code in effect, signed by {fingerprint}, which no profile but `untrusted` knows. {way}; or, if you trust its author: hyperchunk trust add {fingerprint} --profile default"
            )
        }
        for needed in [Backend::Cpp, backend] {
            profile.allow(needed, Some(fingerprint)).map_err(|e| {
                let why = "it was written by HDF5-UDF and is a compiled form, native code in effect";
                Error::new(e.kind(), format!("{} ({why}). {way}", e.message()))
            })?;
        }
        // No grants, since the header that requests them is not signed.
        profile.grants = Grants::default();
        Ok(profile)
    }

    /// Returns instructions to convert the dataset to a live dataset.
    pub fn conversion_advice(&self) -> &'static str {
        match self.source {
            Some(_) => {
                "Its source is stored: look at it (hyperchunk udf show --source FILE:/DATASET), then: hyperchunk udf convert FILE:/DATASET"
            }
            None => {
                "Its source is not stored; with the source, you can attach it again: hyperchunk udf attach --overwrite FILE SOURCE NAME"
            }
        }
    }

    /// Returns the author's source, without the text that HDF5-UDF adds before it.
    ///
    /// # Errors
    /// `NotFound` when none is stored, `Unsupported` when HDF5-UDF 2's text is not found in it.
    pub fn own_source(&self) -> Result<&str> {
        let Some(source) = &self.source else {
            fail!(
                NotFound,
                "its source is not stored, and cannot be recovered from the compiled form; with the source, you can attach it again: hyperchunk udf attach --overwrite FILE SOURCE NAME"
            )
        };
        let comment = match self.language()? {
            Backend::Python => "#",
            Backend::Lua => "--",
            _ => "//",
        };
        // HDF5-UDF puts the author's text after the line with this comment.
        let line = format!("{comment} User-Defined Function");
        let mut at = 0usize;
        for text in source.split_inclusive('\n') {
            at = at.saturating_add(text.len());
            if text.trim_end() == line {
                return Ok(source.get(at..).unwrap_or_default().trim_start_matches(['\r', '\n']));
            }
        }
        fail!(
            Unsupported,
            "its source lacks the text that HDF5-UDF 2 adds before it; look at it: hyperchunk udf show --source"
        )
    }

    /// Converts the dataset to a record for the worker. `inputs` and `scratch` are the datasets of these
    /// names in the file.
    ///
    /// # Errors
    /// `Invalid` when the header has another shape, `Unsupported` when the compiled form is for another
    /// runtime, `Limit`.
    pub fn record(
        &self,
        dims: Vec<u64>,
        datatype: crate::datatype::Datatype,
        inputs: Vec<Slot>,
        scratch: Vec<Slot>,
    ) -> Result<Record> {
        let backend = self.language()?;
        if self.dims != dims {
            fail!(
                Invalid,
                "the dataset has the shape {dims:?}, but its header (of HDF5-UDF) says {:?}",
                self.dims
            )
        }
        if inputs.len().saturating_add(scratch.len()) >= MAX_SLOTS {
            fail!(Limit, "more than {MAX_SLOTS} inputs and outputs")
        }
        if datatype.has_pointers() || scratch.iter().any(|s| s.datatype.has_pointers()) {
            fail!(Unsupported, "it computes strings of variable length")
        }
        Ok(Record {
            id: self.id(),
            backend,
            chunk: dims.clone(),
            output: Slot { name: self.output.clone(), datatype, dims },
            inputs,
            scratch,
            blockwise: false,
            halo: Vec::new(),
            maximum: Vec::new(),
            uncut: Vec::new(),
            attributes: std::collections::BTreeMap::new(),
            sources: std::collections::BTreeMap::new(),
            needs: Needs::default(),
            analysis: None,
            created: String::new(),
            source: String::new(),
            compiled: Some(CompiledForm { target: TARGET.into(), object: self.program(backend)? }),
            signature: None,
        })
    }

    /// Returns the compiled form for its runtime, if it may be for this machine.
    fn program(&self, backend: Backend) -> Result<Vec<u8>> {
        let wrong = |what: &str| {
            Error::new(
                ErrorKind::Unsupported,
                format!("its compiled form (of HDF5-UDF) is {what}. {}", self.conversion_advice()),
            )
        };
        match backend {
            Backend::Cpp => {
                let object = inflate(&self.code)?;
                // Class, byte order and machine of an ELF file.
                let machine: &[u8] = if cfg!(target_arch = "x86_64") { &[62, 0] } else { &[183, 0] };
                if object.get(..6) != Some(b"\x7fELF\x02\x01") || object.get(18..20) != Some(machine) {
                    return Err(wrong("for another kind of machine"));
                }
                Ok(object)
            }
            Backend::Lua if !self.code.starts_with(b"\x1bLJ\x02") => Err(wrong("not bytecode of LuaJIT 2.1")),
            // The magic number is a version, which the worker compares, and a line end.
            Backend::Python if self.code.len() <= 16 || self.code.get(2..4) != Some(b"\r\n") => {
                Err(wrong("not bytecode of CPython"))
            }
            _ => Ok(self.code.clone()),
        }
    }
}

/// Decompresses a shared object, which HDF5-UDF stores as a zlib stream, followed by the uncompressed size.
fn inflate(code: &[u8]) -> Result<Vec<u8>> {
    let damaged = || Error::new(ErrorKind::Invalid, "its compiled form (of HDF5-UDF) is damaged");
    let (packed, size) = code.split_last_chunk::<8>().ok_or_else(damaged)?;
    let size = u64::from_le_bytes(*size);
    let Some(limit) = usize::try_from(size).ok().filter(|&n| n <= MAX_COMPILED_BYTES) else {
        fail!(Limit, "the compiled form has {size} bytes; the limit is {MAX_COMPILED_BYTES}")
    };
    let object =
        miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, limit).map_err(|_| damaged())?;
    if object.len() == limit { Ok(object) } else { Err(damaged()) }
}

impl SignatureHeader {
    fn key(&self) -> Option<PublicKey> {
        let key = <[u8; 32]>::try_from(BASE64.decode(self.public_key.trim()).ok()?).ok()?;
        Some(PublicKey { key, name: self.name.clone(), email: self.email.clone() })
    }

    fn check(self, compiled: &[u8]) -> Signer {
        let holds = || {
            let (value, signed) = compiled.split_first_chunk::<SIGNATURE_BYTES>()?;
            let public = self.key()?;
            let key = VerifyingKey::from_bytes(&public.key).ok().filter(|key| !key.is_weak())?;
            key.verify_strict(signed, &Signature::from_bytes(value)).ok()?;
            Some(public)
        };
        holds().map_or(Signer::Broken, Signer::Known)
    }
}

impl fmt::Display for LegacyDataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {:?}", escape(&self.backend, 20), escape(&self.output, 80))?;
        match &self.signer {
            Signer::Nobody => write!(f, ", not signed")?,
            Signer::Broken => write!(f, ", with an invalid signature")?,
            Signer::Known(key) => {
                write!(f, ", signed by {} <{}>", escape(&key.name, 60), escape(&key.email, 60))?;
            }
        }
        match self.source {
            Some(_) => write!(f, ", with its source"),
            None => write!(f, ", without its source"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::{Signer as _, SigningKey};

    fn file(change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
        let key = SigningKey::from_bytes(&[7; 32]);
        let code = b"\x1bLJ bytecode \0 with zeros \0";
        let mut blob = key.sign(code).to_bytes().to_vec();
        blob.extend_from_slice(code);
        let mut header = serde_json::json!({
            "api_version": 2, "backend": "LuaJIT", "bytecode_size": blob.len(), "input_datasets": ["Red", "NIR"],
            "output_dataset": "NDVI", "output_datatype": "float", "output_resolution": [10, 20],
            "scratch_datasets": [], "source_code": "",
            "signature": {"email": "a@b.c", "name": "A B", "public_key": BASE64.encode(key.verifying_key().as_bytes())},
        });
        change(&mut header);
        let mut bytes = header.to_string().into_bytes();
        bytes.push(0);
        bytes.extend_from_slice(&blob);
        bytes
    }

    #[test]
    fn what_it_says_of_itself() {
        let bytes = file(|_| {});
        assert!(is_legacy(&bytes));
        let legacy = LegacyDataset::parse(&bytes).unwrap();
        assert_eq!(legacy.inputs, ["Red", "NIR"]);
        assert!(matches!(&legacy.signer, Signer::Known(key) if key.name == "A B"), "{legacy:?}");
        assert_eq!(legacy.to_string(), r#"LuaJIT for "NDVI", signed by A B <a@b.c>, without its source"#);
        let unsigned = LegacyDataset::parse(&file(|h| h["signature"] = serde_json::Value::Null)).unwrap();
        assert_eq!(unsigned.signer, Signer::Nobody);
    }

    #[test]
    fn what_was_changed_is_seen() {
        let mut bytes = file(|_| {});
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(LegacyDataset::parse(&bytes).unwrap().signer, Signer::Broken);
        for key in ["", "AAAA", "not base64"] {
            let bytes = file(|h| h["signature"]["public_key"] = key.into());
            assert_eq!(LegacyDataset::parse(&bytes).unwrap().signer, Signer::Broken);
        }
    }

    #[test]
    fn damage_is_an_error() {
        let whole = file(|_| {});
        let end = whole.iter().position(|&b| b == 0).unwrap();
        for cut in 0..=end {
            assert!(LegacyDataset::parse(&whole[..cut]).is_err(), "{cut}");
        }
        for size in [u64::MAX, 1 << 40, whole.len() as u64] {
            assert!(LegacyDataset::parse(&file(|h| h["bytecode_size"] = size.into())).is_err(), "{size}");
        }
        assert_eq!(LegacyDataset::parse(b"{}\0").unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(LegacyDataset::parse(b"{").unwrap_err().kind(), ErrorKind::Invalid);
    }
}
