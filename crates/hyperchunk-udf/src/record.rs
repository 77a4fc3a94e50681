//! Record of a live dataset: manifest, source and signature, stored once, as JSON.
//!
//! The keys of the HDF5-UDF paper's Listing 4 are kept (`backend`, `bytecode_size`, `input_datasets`,
//! `output_dataset`, `output_datatype`, `output_resolution`, `scratch_datasets`, `signature`, `source_code`,
//! `api_version`), and others are added. See `docs/formats/live-dataset.md`.

mod blocks;
mod cuda_plan;
pub(crate) mod declaration;
mod needs;

pub use crate::shape::MAX_SLOTS;
pub use blocks::Block;
pub use declaration::{Declaration, Failure};
pub use needs::{MAX_SEED, Needs, RandomBytes, seed_of_block};

use crate::backend::Backend;
use crate::datatype::Datatype;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::stub::{LiveId, MAX_RANK};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of a record that needs no later one. HDF5-UDF 2.1 wrote 2.
pub const API_VERSION: u32 = 3;
/// Version of records with a halo, or of growing datasets.
pub const API_VERSION_4: u32 = 4;
/// Version of records of analyses.
pub const API_VERSION_5: u32 = 5;
/// Version of records with a seed, or of functions that read the clock.
pub const API_VERSION_6: u32 = 6;
/// Version of records with attributes as inputs.
pub const API_VERSION_7: u32 = 7;
/// Version of records with inputs from other files.
pub const API_VERSION_8: u32 = 8;
/// Name of the dataset's attribute that holds the record.
pub const ATTRIBUTE: &str = "hyperchunk_udf";
/// Identifier of our filter, the same as HDF5-UDF's.
pub const FILTER_ID: i32 = 31300;
/// Maximum size of a record in bytes.
pub const MAX_RECORD_BYTES: usize = 64 << 20;
/// File, and the object in it, which is empty for raw data. An empty file name precedes the digest of many
/// sources.
pub type Source = (String, String);
/// Maximum unpacked size of a compiled form in bytes.
pub const MAX_COMPILED_BYTES: usize = 64 << 20;

/// Maximum size of an attribute as an input in bytes.
pub const MAX_ATTRIBUTE_BYTES: u64 = 64 << 10;

/// Size of an unlimited dimension, as in HDF5.
pub const UNLIMITED: u64 = u64::MAX;

/// Dataset that a function reads or writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Name in the source: a path in the file.
    pub name: String,
    /// Datatype of the elements in memory.
    pub datatype: Datatype,
    /// Shape.
    pub dims: Vec<u64>,
}

impl Slot {
    /// Returns the size of the whole dataset in memory in bytes.
    pub fn bytes(&self) -> u64 {
        byte_size(&self.dims, &self.datatype)
    }

    /// Returns the byte offset of the block at `offset` in the row-major array.
    pub fn first_byte(&self, offset: &[u64]) -> u64 {
        let element =
            self.dims.iter().zip(offset).fold(0u64, |a, (&d, &o)| a.saturating_mul(d).saturating_add(o));
        element.saturating_mul(self.datatype.size() as u64)
    }
}

/// Returns the size of `dims` elements in bytes; shapes of records are checked not to overflow.
pub fn byte_size(dims: &[u64], datatype: &Datatype) -> u64 {
    dims.iter().fold(datatype.size() as u64, |a, &d| a.saturating_mul(d))
}

/// Compiled form, stored with the source as a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledForm {
    /// Platform, such as `x86_64-linux-gnu`.
    pub target: String,
    /// Shared object.
    pub object: Vec<u8>,
}

/// Signer and signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Label of the signer, which is not verified.
    pub name: String,
    /// Address of the signer, which is not verified.
    pub email: String,
    /// Ed25519 public key.
    pub public_key: [u8; 32],
    /// Ed25519 signature of [`Record::signed_bytes`](crate::signature).
    pub value: [u8; 64],
}

/// Record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Identity of the live dataset.
    pub id: LiveId,
    /// Language.
    pub backend: Backend,
    /// Output. Its name is the one in the source, independent of later renames of the dataset.
    pub output: Slot,
    /// Inputs.
    pub inputs: Vec<Slot>,
    /// Attributes among the inputs: the input's name, `object@attribute`, and the attribute's name.
    pub attributes: BTreeMap<String, String>,
    /// Sources of inputs from other files, by the inputs' names, as the file names them.
    pub sources: BTreeMap<String, Vec<Source>>,
    /// Other outputs, which this dataset discards.
    pub scratch: Vec<Slot>,
    /// Shape of a chunk.
    pub chunk: Vec<u64>,
    /// Set if the function runs once for each chunk and sees that block as if it were the whole dataset.
    pub blockwise: bool,
    /// Number of elements by which an input's block is larger at each side, for each dimension; empty without
    /// a halo.
    pub halo: Vec<u64>,
    /// Maximum shape of a growing dataset, [`UNLIMITED`] for unbounded dimensions; empty if it does not grow.
    pub maximum: Vec<u64>,
    /// In a dataset that has grown: names of inputs and other outputs that have its current shape but had
    /// another when it was attached. Not stored.
    pub uncut: Vec<String>,
    /// Additional requirements.
    pub needs: Needs,
    /// Declaration of an analysis of a store; `None` for a live dataset.
    pub analysis: Option<Declaration>,
    /// Time of attaching, RFC 3339 UTC.
    pub created: String,
    /// Source.
    pub source: String,
    /// Compiled form of exactly this source.
    pub compiled: Option<CompiledForm>,
    /// Signature, if it is signed.
    pub signature: Option<Signature>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    analysis: Option<Declaration>,
    api_version: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<String, String>,
    backend: String,
    blockwise: bool,
    bytecode_size: u64,
    chunk: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clock: Option<bool>,
    compiled: Option<CompiledHeader>,
    created: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    halo: Option<Vec<u64>>,
    id: String,
    input_datasets: Vec<String>,
    inputs: Vec<SlotHeader>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maximum_resolution: Option<Vec<Option<u64>>>,
    output_dataset: String,
    output_datatype: String,
    output_resolution: Vec<u64>,
    scratch: Vec<SlotHeader>,
    scratch_datasets: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    signature: Option<SignatureHeader>,
    source_code: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    sources: BTreeMap<String, Vec<Source>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlotHeader {
    datatype: String,
    resolution: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompiledHeader {
    deflate: String,
    target: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureHeader {
    email: String,
    name: String,
    public_key: String,
    value: String,
}

impl Record {
    /// Encodes the record for storage.
    ///
    /// # Errors
    /// `Limit` when it is larger than [`MAX_RECORD_BYTES`].
    pub fn encode(&self) -> Result<Vec<u8>> {
        let slots = |s: &[Slot]| {
            s.iter().map(|s| SlotHeader { datatype: s.datatype.name(), resolution: s.dims.clone() }).collect()
        };
        let header = Header {
            analysis: self.analysis.clone(),
            api_version: self.version(),
            attributes: self.attributes.clone(),
            backend: self.backend.json_name().into(),
            blockwise: self.blockwise,
            bytecode_size: self.compiled.as_ref().map_or(0, |c| c.object.len() as u64),
            chunk: self.chunk.clone(),
            clock: Some(true).filter(|_| self.needs.clock),
            compiled: self.compiled.as_ref().map(|c| CompiledHeader {
                deflate: BASE64.encode(miniz_oxide::deflate::compress_to_vec(&c.object, 9)),
                target: c.target.clone(),
            }),
            created: self.created.clone(),
            halo: Some(self.halo.clone()).filter(|halo| !halo.is_empty()),
            id: self.id.to_hex(),
            input_datasets: self.inputs.iter().map(|s| s.name.clone()).collect(),
            inputs: slots(&self.inputs),
            maximum_resolution: Some(&self.maximum)
                .filter(|maximum| !maximum.is_empty())
                .map(|maximum| maximum.iter().map(|&d| Some(d).filter(|&d| d != UNLIMITED)).collect()),
            output_dataset: self.output.name.clone(),
            output_datatype: self.output.datatype.name(),
            output_resolution: self.output.dims.clone(),
            scratch: slots(&self.scratch),
            scratch_datasets: self.scratch.iter().map(|s| s.name.clone()).collect(),
            seed: self.needs.seed,
            signature: self.signature.as_ref().map(|s| SignatureHeader {
                email: s.email.clone(),
                name: s.name.clone(),
                public_key: BASE64.encode(s.public_key),
                value: BASE64.encode(s.value),
            }),
            source_code: self.source.clone(),
            sources: self.sources.clone(),
        };
        let bytes = serde_json::to_vec(&header)
            .map_err(|e| Error::new(ErrorKind::Invalid, format!("the record cannot be written: {e}")))?;
        if bytes.len() > MAX_RECORD_BYTES {
            fail!(Limit, "the record has {} bytes; the limit is {MAX_RECORD_BYTES}", bytes.len())
        }
        Ok(bytes)
    }

    /// Parses the record of a live dataset, and checks everything except its signature.
    ///
    /// # Errors
    /// `Invalid` when it is damaged, `Unsupported` when it needs a later version, `Limit` when it exceeds a
    /// limit.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let record = Record::parse_any(bytes)?;
        if record.analysis.is_some() {
            fail!(Invalid, "the record is of an analysis, not of a live dataset")
        }
        Ok(record)
    }

    /// Parses the record of an analysis, and checks everything except its signature. Also returns its
    /// declaration.
    ///
    /// # Errors
    /// The errors of [`Record::parse`].
    pub fn parse_analysis(bytes: &[u8]) -> Result<(Self, Declaration)> {
        let record = Record::parse_any(bytes)?;
        match record.analysis.clone() {
            Some(declaration) => Ok((record, declaration)),
            None => fail!(Invalid, "the record is of a live dataset, not of an analysis"),
        }
    }

    fn parse_any(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MAX_RECORD_BYTES {
            fail!(Limit, "the record has {} bytes; the limit is {MAX_RECORD_BYTES}", bytes.len())
        }
        check_version(bytes)?;
        let h: Header = serde_json::from_slice(bytes).map_err(|e| damaged(&e))?;
        if h.compiled.is_none() && h.bytecode_size != 0 {
            fail!(Invalid, "bytecode_size is {}, but there is no compiled form", h.bytecode_size)
        }
        if h.clock == Some(false) {
            fail!(Invalid, "the record has `clock: false`: expected true, or no entry")
        }
        let version = h.api_version;
        let maximum = h.maximum_resolution.unwrap_or_default().into_iter();
        let record = Record {
            id: LiveId::from_hex(&h.id).ok_or_else(|| invalid("the record's id is damaged".into()))?,
            backend: Backend::from_json_name(&h.backend)?,
            output: slot(h.output_dataset, &h.output_datatype, h.output_resolution)?,
            inputs: slots(h.input_datasets, h.inputs)?,
            attributes: h.attributes,
            sources: h.sources,
            scratch: slots(h.scratch_datasets, h.scratch)?,
            chunk: h.chunk,
            blockwise: h.blockwise,
            halo: h.halo.unwrap_or_default(),
            maximum: maximum.map(|d| d.unwrap_or(UNLIMITED)).collect(),
            uncut: Vec::new(),
            needs: Needs { seed: h.seed, clock: h.clock.is_some() },
            analysis: h.analysis,
            created: h.created,
            source: h.source_code,
            compiled: h.compiled.map(|c| unpack(&c, h.bytecode_size)).transpose()?,
            signature: h.signature.map(signature).transpose()?,
        };
        if record.version() != version {
            fail!(
                Invalid,
                "the record says version {version}, but its content has version {}",
                record.version()
            )
        }
        record.check()?;
        Ok(record)
    }

    /// Returns the version of the stored record: the first that supports all of its features.
    pub fn version(&self) -> u32 {
        if !self.sources.is_empty() {
            return API_VERSION_8;
        }
        if !self.attributes.is_empty() {
            return API_VERSION_7;
        }
        match (
            self.analysis.is_some(),
            self.needs.is_empty(),
            self.halo.is_empty() && self.maximum.is_empty(),
        ) {
            (true, ..) => API_VERSION_5,
            (false, false, _) => API_VERSION_6,
            (false, true, true) => API_VERSION,
            (false, true, false) => API_VERSION_4,
        }
    }

    /// Returns every slot: the output, then the inputs, then the scratch outputs.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        std::iter::once(&self.output).chain(&self.inputs).chain(&self.scratch)
    }

    /// Returns the object and the attribute of an input that is an attribute.
    pub fn find_attribute(&self, input: &Slot) -> Option<(&str, &str)> {
        let (label, name) = self.attributes.get_key_value(&input.name)?;
        let object = label.strip_suffix(name.as_str())?.strip_suffix('@')?;
        Some((object, name))
    }

    fn check_attributes(&self) -> Result<()> {
        for (label, name) in &self.attributes {
            let shown = crate::escape::escape(label, 80);
            let Some(input) = self.inputs.iter().find(|input| input.name == *label) else {
                fail!(Invalid, "the record lists {shown:?} as an attribute, but it is not an input")
            };
            if name.is_empty() || self.find_attribute(input).is_none_or(|(object, _)| object.is_empty()) {
                fail!(
                    Invalid,
                    "the record has an attribute {shown:?}, which does not name an object and an attribute"
                )
            }
            if input.datatype.has_pointers() || input.bytes() > MAX_ATTRIBUTE_BYTES || input.bytes() == 0 {
                fail!(Invalid, "the record has an attribute {shown:?} of an impossible type or shape")
            }
            if self.backend == Backend::Expression && !crate::shape::is_single(&input.dims) {
                fail!(Invalid, "the record's expression reads an attribute {shown:?} of several elements")
            }
        }
        if !self.attributes.is_empty() && self.analysis.is_some() {
            fail!(Invalid, "the record of an analysis has attributes as inputs")
        }
        Ok(())
    }

    fn check_sources(&self) -> Result<()> {
        for (label, sources) in &self.sources {
            let shown = crate::escape::escape(label, 80);
            if !self.inputs.iter().any(|input| input.name == *label) {
                fail!(Invalid, "the record has sources of {shown:?}, which is not an input")
            }
            if sources.is_empty() {
                fail!(Invalid, "the record has an empty list of sources of {shown:?}")
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let rank = self.output.dims.len();
        if self.slots().count() > MAX_SLOTS {
            fail!(Limit, "more than {MAX_SLOTS} inputs and outputs")
        }
        if rank == 0 || self.chunk.len() != rank || self.chunk.contains(&0) {
            fail!(Invalid, "the record's chunk shape {:?} does not fit {:?}", self.chunk, self.output.dims)
        }
        if byte_size(&self.chunk, &self.output.datatype) >= 1 << 32 {
            fail!(Limit, "a chunk of {:?} is 4 GiB or more", self.chunk)
        }
        if !self.blockwise && self.chunk != self.output.dims {
            fail!(Invalid, "a whole-array function must be one chunk")
        }
        if let Some(slot) = self.slots().find(|slot| slot.dims.contains(&0) && !self.may_be_empty(slot)) {
            fail!(Invalid, "the record gives {} an impossible shape", crate::escape::escape(&slot.name, 80))
        }
        self.check_blocks()?;
        self.check_attributes()?;
        self.check_sources()?;
        self.needs.check()?;
        if !self.needs.is_empty() && (self.analysis.is_some() || !self.backend.has_worker()) {
            fail!(Invalid, "the record has a seed or the clock, which only functions of live datasets have")
        }
        if std::iter::once(&self.output).chain(&self.scratch).any(|s| s.datatype.has_pointers()) {
            fail!(Unsupported, "the record computes strings of variable length")
        }
        if self.inputs.iter().any(|s| s.datatype.has_stored()) {
            fail!(Invalid, "the record has an input of a type that only outputs have")
        }
        if let Some(declaration) = &self.analysis {
            declaration.check(self)?;
        }
        if self.backend == Backend::Cuda && !(self.needs.is_empty() && self.analysis.is_none()) {
            fail!(Invalid, "the record has a seed, the clock or an analysis, which a GPU does not support")
        }
        let target = self.compiled.as_ref().map(|c| c.target.as_str());
        if (self.backend == Backend::Wasm) != target.is_some_and(crate::wasm::is_target) {
            fail!(
                Invalid,
                "the record's language is {}, but its compiled form is for another",
                self.backend.short_name()
            )
        }
        if (self.backend == Backend::Cuda) != target.is_some_and(crate::cuda::is_target) {
            fail!(
                Invalid,
                "the record's language is {}, but its compiled form is for another",
                self.backend.short_name()
            )
        }
        let mut names: Vec<_> = self.slots().map(|s| s.name.trim_start_matches('/')).collect();
        names.sort_unstable();
        if names.windows(2).any(|w| w.first() == w.last()) {
            fail!(Invalid, "the record names a dataset twice")
        }
        Ok(())
    }
}

fn damaged(error: &serde_json::Error) -> Error {
    invalid(format!("the record is damaged: {}", crate::escape::escape(&error.to_string(), 200)))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

/// Checks the version before anything else, so that later versions are reported as such and not as damaged.
fn check_version(bytes: &[u8]) -> Result<()> {
    #[derive(Deserialize)]
    struct Version {
        api_version: u64,
    }
    match serde_json::from_slice::<Version>(bytes) {
        Ok(v) if (u64::from(API_VERSION)..=u64::from(API_VERSION_8)).contains(&v.api_version) => Ok(()),
        Ok(v) => fail!(
            Unsupported,
            "record version {} is not supported by this version of hyperchunk",
            v.api_version
        ),
        Err(e) => Err(damaged(&e)),
    }
}

fn slots(names: Vec<String>, headers: Vec<SlotHeader>) -> Result<Vec<Slot>> {
    if names.len() != headers.len() {
        fail!(Invalid, "the record lists {} datasets, but describes {}", names.len(), headers.len())
    }
    names.into_iter().zip(headers).map(|(n, h)| slot(n, &h.datatype, h.resolution)).collect()
}

fn slot(name: String, datatype: &str, dims: Vec<u64>) -> Result<Slot> {
    if name.is_empty() || name.len() > 4096 || name.contains('\0') {
        fail!(Invalid, "the record has a dataset name that HDF5 does not allow")
    }
    let text = datatype;
    let datatype = Datatype::parse(text)?;
    // Only the canonical notation of a type is allowed in a record.
    if datatype.name() != text {
        fail!(
            Invalid,
            "the record does not write the type {} in its canonical form",
            crate::escape::escape(&datatype.name(), 80)
        )
    }
    let bytes = dims.iter().try_fold(datatype.size() as u64, |a, &d| a.checked_mul(d));
    if dims.len() > MAX_RANK || bytes.is_none_or(|b| b > 1 << 62) {
        fail!(Invalid, "the record gives {} an impossible shape", crate::escape::escape(&name, 80))
    }
    Ok(Slot { name, datatype, dims })
}

fn unpack(header: &CompiledHeader, size: u64) -> Result<CompiledForm> {
    let limit = usize::try_from(size).unwrap_or(usize::MAX).min(MAX_COMPILED_BYTES);
    let packed =
        BASE64.decode(&header.deflate).map_err(|e| invalid(format!("the compiled form is damaged: {e}")))?;
    let object = miniz_oxide::inflate::decompress_to_vec_with_limit(&packed, limit)
        .map_err(|e| invalid(format!("the compiled form is damaged: {e}")))?;
    if object.len() as u64 != size {
        fail!(Invalid, "the compiled form has {} bytes, but bytecode_size says {size}", object.len())
    }
    Ok(CompiledForm { target: header.target.clone(), object })
}

fn signature(h: SignatureHeader) -> Result<Signature> {
    let decode =
        |text: &str| BASE64.decode(text).map_err(|e| invalid(format!("the signature is damaged: {e}")));
    let wrong = |_| invalid("the signature is damaged: wrong length".into());
    Ok(Signature {
        public_key: decode(&h.public_key)?.try_into().map_err(wrong)?,
        value: decode(&h.value)?.try_into().map_err(wrong)?,
        name: h.name,
        email: h.email,
    })
}

#[cfg(test)]
pub(crate) mod tests;
