//! Datasets that HDF5-UDF 2 wrote: told of, never run. Their chunk is a JSON header, a NUL and the compiled form, which a signature of
//! libsodium's `crypto_sign` precedes. It covers the compiled form alone: the header may have been changed by anybody.
//! `docs/formats/live-dataset.md` has the fields.

use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::record::MAX_RECORD;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signature, VerifyingKey};
use serde::Deserialize;
use std::fmt;

/// The bytes of a signature before what it signs.
const SIGNATURE: usize = 64;

/// What a dataset of HDF5-UDF says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Legacy {
    /// The language: `LuaJIT`, `CPython`, `C++` or `CUDA`.
    pub backend: String,
    /// The name of the dataset in the source.
    pub output: String,
    /// What it reads.
    pub inputs: Vec<String>,
    /// The source, if it was stored: with all that HDF5-UDF puts around it.
    pub source: Option<String>,
    /// The version of the header.
    pub api_version: u64,
    /// The size of the compiled form with its signature, in bytes.
    pub compiled_bytes: u64,
    /// Who signed.
    pub signer: Signer,
}

/// Who signed a dataset of HDF5-UDF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signer {
    /// Nobody.
    Nobody,
    /// Somebody, and the signature holds.
    Known {
        /// A label; nothing vouches for it.
        name: String,
        /// A label; nothing vouches for it.
        email: String,
        /// The ed25519 public key.
        public_key: [u8; 32],
    },
    /// Somebody, and the signature does not hold.
    Broken,
}

#[derive(Deserialize)]
struct Header {
    backend: String,
    output_dataset: String,
    #[serde(default)]
    input_datasets: Vec<String>,
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

/// Whether the bytes of a chunk look like a dataset of HDF5-UDF.
pub fn is_legacy(chunk: &[u8]) -> bool {
    chunk.first() == Some(&b'{')
}

impl Legacy {
    /// What the chunk of a dataset says.
    ///
    /// # Errors
    /// `Invalid` when it is damaged, `Limit` when it is too large.
    pub fn parse(chunk: &[u8]) -> Result<Self> {
        if chunk.len() > MAX_RECORD {
            fail!(Limit, "a dataset of HDF5-UDF of {} bytes; the limit is {MAX_RECORD}", chunk.len())
        }
        let damaged = |what: &str| {
            Error::new(ErrorKind::Invalid, format!("a dataset of HDF5-UDF that is damaged: {what}"))
        };
        let end = chunk.iter().position(|&byte| byte == 0).ok_or_else(|| damaged("its header has no end"))?;
        let (header, rest) = chunk.split_at_checked(end).ok_or_else(|| damaged("its header has no end"))?;
        let header: Header =
            serde_json::from_slice(header).map_err(|error| damaged(&escape(&error.to_string(), 200)))?;
        let size = usize::try_from(header.bytecode_size).unwrap_or(usize::MAX);
        // The rest begins with the NUL.
        let start = rest.len().checked_sub(size).filter(|start| *start >= 1);
        let compiled = start
            .and_then(|start| rest.get(start..))
            .ok_or_else(|| damaged("its compiled form is cut short"))?;
        let signer = match header.signature {
            None => Signer::Nobody,
            Some(signature) => signature.check(compiled),
        };
        Ok(Legacy {
            backend: header.backend,
            output: header.output_dataset,
            inputs: header.input_datasets,
            source: Some(header.source_code).filter(|source| !source.is_empty()),
            api_version: header.api_version,
            compiled_bytes: header.bytecode_size,
            signer,
        })
    }
}

impl SignatureHeader {
    fn check(self, compiled: &[u8]) -> Signer {
        let key = BASE64.decode(self.public_key.trim()).ok().and_then(|key| <[u8; 32]>::try_from(key).ok());
        let holds = || {
            let (value, signed) = compiled.split_first_chunk::<SIGNATURE>()?;
            let public_key = key?;
            let key = VerifyingKey::from_bytes(&public_key).ok().filter(|key| !key.is_weak())?;
            key.verify_strict(signed, &Signature::from_bytes(value)).ok()?;
            Some(public_key)
        };
        match holds() {
            Some(public_key) => Signer::Known { name: self.name, email: self.email, public_key },
            None => Signer::Broken,
        }
    }
}

impl fmt::Display for Legacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {:?}", escape(&self.backend, 20), escape(&self.output, 80))?;
        match &self.signer {
            Signer::Nobody => write!(f, ", not signed")?,
            Signer::Broken => write!(f, ", with a signature that does not hold")?,
            Signer::Known { name, email, .. } => {
                write!(f, ", signed by {} <{}>", escape(name, 60), escape(email, 60))?;
            }
        }
        match self.source {
            Some(_) => write!(f, ", with its source"),
            None => write!(f, ", without its source"),
        }
    }
}

/// Why a chunk that HDF5-UDF wrote is not computed.
pub fn refusal(chunk: &[u8]) -> Error {
    match Legacy::parse(chunk) {
        Ok(legacy) => {
            let way = "Attach its source anew: `hdf5-udf --overwrite FILE SOURCE NAME`";
            let text = format!(
                "it was written by HDF5-UDF ({legacy}); its signature covers the compiled form alone, which is not run. {way}"
            );
            Error::new(ErrorKind::Unsupported, text)
        }
        Err(error) => error,
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
        let legacy = Legacy::parse(&bytes).unwrap();
        assert_eq!(legacy.inputs, ["Red", "NIR"]);
        assert!(matches!(&legacy.signer, Signer::Known { name, .. } if name == "A B"), "{legacy:?}");
        assert_eq!(legacy.to_string(), r#"LuaJIT for "NDVI", signed by A B <a@b.c>, without its source"#);
        assert!(refusal(&bytes).to_string().contains("not run. Attach"));
        let unsigned = Legacy::parse(&file(|h| h["signature"] = serde_json::Value::Null)).unwrap();
        assert_eq!(unsigned.signer, Signer::Nobody);
    }

    #[test]
    fn what_was_changed_is_seen() {
        let mut bytes = file(|_| {});
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(Legacy::parse(&bytes).unwrap().signer, Signer::Broken);
        for key in ["", "AAAA", "not base64"] {
            let bytes = file(|h| h["signature"]["public_key"] = key.into());
            assert_eq!(Legacy::parse(&bytes).unwrap().signer, Signer::Broken);
        }
    }

    #[test]
    fn damage_is_an_error() {
        let whole = file(|_| {});
        let end = whole.iter().position(|&b| b == 0).unwrap();
        for cut in 0..=end {
            assert!(Legacy::parse(&whole[..cut]).is_err(), "{cut}");
        }
        for size in [u64::MAX, 1 << 40, whole.len() as u64] {
            assert!(Legacy::parse(&file(|h| h["bytecode_size"] = size.into())).is_err(), "{size}");
        }
        assert_eq!(refusal(b"{}\0").kind(), ErrorKind::Invalid);
        assert_eq!(refusal(b"{").kind(), ErrorKind::Invalid);
    }
}
