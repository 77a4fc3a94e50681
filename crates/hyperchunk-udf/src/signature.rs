//! Ed25519 signatures over everything in a record that can change its results.
//!
//! The signed text is not the JSON: it is a fixed sequence of length-prefixed fields, so that there is
//! exactly one encoding and no canonicalisation is needed. `docs/formats/live-dataset.md` lists the fields.

use crate::error::{Error, ErrorKind, Result, fail};
use crate::record::{
    API_VERSION, API_VERSION_6, API_VERSION_7, API_VERSION_8, Declaration, Record, Signature, Slot,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signer as _, VerifyingKey};
use sha2::{Digest, Sha256};
use std::fmt;

const CONTEXT: &[u8] = b"hyperchunk-udf-sig-v1\0";

/// Fingerprint of a public key: the SHA-256 of its bytes. It is also the name of the key's file, so it has no
/// `/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Computes the fingerprint of a public key.
    pub fn from_public_key(public_key: &[u8; 32]) -> Self {
        Fingerprint(Sha256::digest(public_key).into())
    }

    /// Parses a fingerprint, with or without `SHA256:`.
    ///
    /// # Errors
    /// `Syntax` when it is not one.
    pub fn parse(text: &str) -> Result<Self> {
        let stem = text.strip_prefix("SHA256:").unwrap_or(text);
        match URL_SAFE_NO_PAD.decode(stem).ok().and_then(|bytes| bytes.try_into().ok()) {
            Some(bytes) => Ok(Fingerprint(bytes)),
            None => fail!(Syntax, "{:?} is not a key's fingerprint", crate::escape::escape(text, 80)),
        }
    }

    /// Returns the part after `SHA256:`, which names the key's file.
    pub fn file_stem(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA256:{}", self.file_stem())
    }
}

/// Private key with the labels for signatures.
pub struct SigningKey {
    key: ed25519_dalek::SigningKey,
    /// Label for display.
    pub name: String,
    /// Label for display.
    pub email: String,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.fingerprint())
    }
}

impl SigningKey {
    /// Creates the key of a 32-byte seed.
    pub fn from_seed(seed: &[u8; 32], name: impl Into<String>, email: impl Into<String>) -> Self {
        SigningKey {
            key: ed25519_dalek::SigningKey::from_bytes(seed),
            name: name.into(),
            email: email.into(),
        }
    }

    /// Returns the public key.
    pub fn public_key(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }

    /// Returns the fingerprint of the public key.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::from_public_key(&self.public_key())
    }

    /// Signs `record`, replacing any signature it has.
    pub fn sign(&self, record: &mut Record) {
        let mut signature = Signature {
            name: self.name.clone(),
            email: self.email.clone(),
            public_key: self.public_key(),
            value: [0; 64],
        };
        signature.value = self.key.sign(&signed_bytes(record, &signature)).to_bytes();
        record.signature = Some(signature);
    }
}

/// Returns the signer of `record`, or `None` when it is unsigned.
///
/// # Errors
/// `Invalid` when there is a signature that is not valid: the record was changed after it was signed, or the
/// key is one of the weak ones for which any signature is valid.
pub fn verify(record: &Record) -> Result<Option<Fingerprint>> {
    let Some(signature) = &record.signature else { return Ok(None) };
    let bad = || {
        Error::new(
            ErrorKind::Invalid,
            "the signature does not match: the record was changed after it was signed",
        )
    };
    let key = VerifyingKey::from_bytes(&signature.public_key).map_err(|_| bad())?;
    if key.is_weak() {
        fail!(Invalid, "the record is signed by a weak key, which proves nothing")
    }
    let value = ed25519_dalek::Signature::from_bytes(&signature.value);
    key.verify_strict(&signed_bytes(record, signature), &value).map_err(|_| bad())?;
    Ok(Some(Fingerprint::from_public_key(&signature.public_key)))
}

struct Text(Vec<u8>);

impl Text {
    fn field(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, n: u64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    fn numbers(&mut self, list: &[u64]) {
        self.number(list.len() as u64);
        for &n in list {
            self.number(n);
        }
    }

    fn declaration(&mut self, declaration: &Declaration) {
        let Declaration { name, version, datasets, time_ms, memory, bytes, failure, merge } = declaration;
        self.field(name.as_bytes());
        self.field(version.as_bytes());
        self.number(datasets.len() as u64);
        datasets.iter().for_each(|dataset| self.field(dataset.as_bytes()));
        self.numbers(&[*time_ms, *memory, *bytes]);
        self.field(failure.name().as_bytes());
        self.number(merge.len() as u64);
        for (key, rule) in merge {
            self.field(key.as_bytes());
            self.field(rule.as_bytes());
        }
    }

    fn slots(&mut self, slots: &[Slot]) {
        self.number(slots.len() as u64);
        for s in slots {
            self.field(s.name.as_bytes());
            self.field(s.datatype.name().as_bytes());
            self.numbers(&s.dims);
        }
    }
}

fn signed_bytes(record: &Record, signature: &Signature) -> Vec<u8> {
    let mut text = Text(CONTEXT.to_vec());
    text.number(u64::from(record.version()));
    text.field(&record.id.0);
    text.field(record.backend.json_name().as_bytes());
    text.field(&Sha256::digest(record.source.as_bytes()));
    match &record.compiled {
        None => text.number(0),
        Some(c) => {
            text.number(1);
            text.field(c.target.as_bytes());
            text.field(&Sha256::digest(&c.object));
        }
    }
    text.slots(std::slice::from_ref(&record.output));
    text.slots(&record.inputs);
    text.slots(&record.scratch);
    text.numbers(&record.chunk);
    text.number(u64::from(record.blockwise));
    if record.version() > API_VERSION {
        text.numbers(&record.halo);
        text.numbers(&record.maximum);
    }
    if record.version() >= API_VERSION_6 {
        text.numbers(record.needs.seed.as_slice());
        text.number(u64::from(record.needs.clock));
    }
    if record.version() >= API_VERSION_7 {
        text.number(record.attributes.len() as u64);
        for (label, name) in &record.attributes {
            text.field(label.as_bytes());
            text.field(name.as_bytes());
        }
    }
    if record.version() == API_VERSION_8 {
        text.number(record.sources.len() as u64);
        for (label, sources) in &record.sources {
            text.field(label.as_bytes());
            text.number(sources.len() as u64);
            for (file, object) in sources {
                text.field(file.as_bytes());
                text.field(object.as_bytes());
            }
        }
    }
    if let Some(declaration) = &record.analysis {
        text.declaration(declaration);
    }
    text.field(record.created.as_bytes());
    text.field(signature.name.as_bytes());
    text.field(signature.email.as_bytes());
    text.field(&signature.public_key);
    text.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::record::tests::sample;

    fn signed() -> Record {
        let mut record = sample();
        SigningKey::from_seed(&[9; 32], "Ada", "ada@example.org").sign(&mut record);
        record
    }

    #[test]
    fn what_was_signed_verifies_after_a_round_trip() {
        let record = Record::parse(&signed().encode().unwrap()).unwrap();
        let key = SigningKey::from_seed(&[9; 32], "", "");
        assert_eq!(verify(&record).unwrap(), Some(key.fingerprint()));
        assert_eq!(verify(&Record { signature: None, ..record }).unwrap(), None);
    }

    /// HDF5-UDF signed only the bytecode: inputs, shape, name, back end and e-mail could be changed freely.
    #[test]
    fn every_change_is_seen() {
        type Change = fn(&mut Record);
        let changes: &[(&str, Change)] = &[
            ("id", |r| r.id.0[0] ^= 1),
            ("backend", |r| r.backend = Backend::Python),
            ("output name", |r| r.output.name.push('x')),
            ("output shape", |r| r.output.dims[0] += 1),
            ("output type", |r| r.output.datatype = crate::datatype::ElementType::Float64.into()),
            ("input name", |r| r.inputs[0].name = "secret".into()),
            ("input order", |r| r.inputs.reverse()),
            ("scratch", |r| r.scratch.clear()),
            ("chunk", |r| r.chunk[0] = 5),
            ("blockwise", |r| r.blockwise = false),
            ("halo", |r| r.halo = vec![1, 0]),
            ("seed", |r| r.needs.seed = Some(0)),
            ("clock", |r| r.needs.clock = true),
            ("largest shape", |r| r.maximum = vec![u64::MAX, 7]),
            ("created", |r| r.created.clear()),
            ("source", |r| r.source.push(' ')),
            ("compiled", |r| r.compiled.as_mut().unwrap().object[0] ^= 1),
            ("compiled target", |r| r.compiled.as_mut().unwrap().target.push('x')),
            ("no compiled", |r| r.compiled = None),
            ("name", |r| r.signature.as_mut().unwrap().name = "Eve".into()),
            ("email", |r| r.signature.as_mut().unwrap().email = "../allow/eve".into()),
            ("key", |r| r.signature.as_mut().unwrap().public_key[0] ^= 1),
            ("value", |r| r.signature.as_mut().unwrap().value[63] ^= 0x10),
        ];
        for (what, change) in changes {
            let mut record = signed();
            change(&mut record);
            assert!(verify(&record).is_err(), "{what}");
        }
    }

    #[test]
    fn every_change_of_where_an_input_comes_from_is_seen() {
        type Change = fn(&mut Record);
        let changes: &[Change] = &[
            |r| r.sources.get_mut("NIR").unwrap()[0].0.push('x'),
            |r| r.sources.get_mut("NIR").unwrap()[0].1.push('x'),
            |r| r.sources.get_mut("NIR").unwrap().reverse(),
            |r| drop(r.sources.get_mut("NIR").unwrap().pop()),
            |r| drop(r.sources.insert("/g/Red".into(), vec![("b.h5".into(), "/x".into())])),
            |r| r.sources.clear(),
        ];
        let mut record = sample();
        let sources = [("b.h5", "/x"), ("c.h5", "/x")].map(|(file, object)| (file.into(), object.into()));
        record.sources.insert("NIR".into(), sources.to_vec());
        SigningKey::from_seed(&[9; 32], "Ada", "ada@example.org").sign(&mut record);
        let record = Record::parse(&record.encode().unwrap()).unwrap();
        assert!(verify(&record).unwrap().is_some());
        for change in changes {
            let mut record = record.clone();
            change(&mut record);
            assert!(verify(&record).is_err(), "{:?}", record.sources);
        }
    }

    #[test]
    fn every_change_of_an_analysis_is_seen() {
        type Change = fn(&mut Declaration);
        let changes: &[Change] = &[
            |d| d.name.push('x'),
            |d| d.version.push('x'),
            |d| d.datasets.reverse(),
            |d| drop(d.datasets.pop()),
            |d| d.time_ms += 1,
            |d| d.memory += 1,
            |d| d.bytes += 1,
            |d| d.failure = crate::record::Failure::Raise,
            |d| drop(d.merge.insert("max".into(), "min".into())),
            |d| drop(d.merge.remove("n")),
        ];
        let mut record = crate::record::declaration::tests::analysis();
        SigningKey::from_seed(&[9; 32], "Ada", "ada@example.org").sign(&mut record);
        assert!(verify(&record).unwrap().is_some());
        for change in changes {
            let mut record = record.clone();
            change(record.analysis.as_mut().unwrap());
            assert!(verify(&record).is_err(), "{:?}", record.analysis);
        }
        record.analysis = None;
        assert!(verify(&record).is_err());
    }

    /// Under the identity key, lax verification accepts R = identity, S = 0 for any message.
    #[test]
    fn weak_keys_are_refused() {
        let mut record = sample();
        let mut identity = [0; 32];
        identity[0] = 1;
        let mut value = [0; 64];
        value[0] = 1;
        record.signature =
            Some(Signature { name: String::new(), email: String::new(), public_key: identity, value });
        assert!(verify(&record).unwrap_err().to_string().contains("weak key"));
    }
}
