//! Metadata keys for properties that Arrow's types cannot represent.

use crate::{Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyperchunk::encode::LibVersion;
use hyperchunk::encode::message::datatype as encode;
use hyperchunk::model::{Dataspace, Datatype};
use hyperchunk::parse::message::datatype as parse;

/// The datatype of an element: its HDF5 message in base64. It is authoritative; the other keys are
/// informative, or used without it.
pub const DTYPE: &str = "h5.dtype";
/// The datatype in readable form.
pub const TYPE: &str = "h5.type";
/// The extent of a row, as JSON: `[4,5]`. Absent for rows of one element.
pub const CELL: &str = "h5.cell";
/// The names of an enumeration and their values, as a JSON object.
pub const ENUM: &str = "h5.enum";
/// `scalar`, `null`, or the extent and its bounds as JSON: `{"dims":[10],"max":[null]}`.
pub const SPACE: &str = "h5.space";
/// The fill value: the bytes of an element in base64.
pub const FILL: &str = "h5.fill";
/// The storage properties of a dataset, as JSON.
pub const LAYOUT: &str = "h5.layout";
/// Attributes: an IPC stream of one row in base64.
pub const ATTRIBUTES: &str = "h5.attrs";
/// The attributes in readable form, as a JSON object.
pub const ATTRIBUTES_JSON: &str = "h5.attrs.json";
/// The path of the committed datatype that the object uses.
pub const NAMED: &str = "h5.named";
/// The name of an attribute, in base64, if it is not UTF-8.
pub const NAME: &str = "h5.name";
/// `utf8` if the name of an attribute is declared as UTF-8.
pub const CHARSET: &str = "h5.charset";
/// The attribute of a column's dataset with its type in Arrow, if HDF5 does not have it.
pub const ARROW_TYPE: &str = "arrow.type";
/// The attribute of a column's dataset with the name of the dataset that marks its rows which are not null.
pub const VALID: &str = "valid";
/// The end of the name of that dataset.
pub const VALID_SUFFIX: &str = "__valid";
/// The path of the object.
pub const PATH: &str = "h5.path";

/// Arrow's key for the name of an extension type.
pub(crate) const EXTENSION: &str = arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
/// Arrow's key for the metadata of an extension type.
pub(crate) const EXTENSION_METADATA: &str = arrow_schema::extension::EXTENSION_TYPE_METADATA_KEY;

/// Encodes a datatype for metadata.
pub(crate) fn encode_datatype(datatype: &Datatype) -> Result<String> {
    let ages = [LibVersion::V18, LibVersion::V110, LibVersion::V200];
    let mut encoded = Err(Error::unsupported("no release of HDF5 has the type"));
    for age in ages {
        encoded = encode::encode(datatype, age);
        if encoded.is_ok() {
            break;
        }
    }
    encoded.map(|bytes| BASE64.encode(bytes))
}

/// Decodes a datatype from metadata.
///
/// # Errors
/// Corrupt if it is not a datatype.
pub(crate) fn decode_datatype(text: &str) -> Result<Datatype> {
    let bytes = decode_base64(DTYPE, text)?;
    let mut cursor = hyperchunk::Cursor::new(&bytes, "datatype message", 0);
    parse::parse(&mut cursor, &hyperchunk::Limits::default())
}

/// Decodes bytes from metadata.
pub(crate) fn decode_base64(key: &str, text: &str) -> Result<Vec<u8>> {
    BASE64.decode(text).map_err(|error| Error::corrupt(format!("the metadata {key}: {error}")))
}

/// Encodes bytes for metadata.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Encodes a list of sizes as JSON.
pub(crate) fn sizes(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    format!("[{}]", dims.join(","))
}

/// Encodes an extent for metadata.
pub(crate) fn space(space: &Dataspace) -> String {
    match space {
        Dataspace::Null => "null".into(),
        Dataspace::Scalar => "scalar".into(),
        Dataspace::Simple { dims, max } => {
            let max: Vec<String> =
                max.iter().map(|max| max.map_or_else(|| "null".into(), |max| max.to_string())).collect();
            format!("{{\"dims\":{},\"max\":[{}]}}", sizes(dims), max.join(","))
        }
    }
}

/// Decodes an extent from metadata.
///
/// # Errors
/// Corrupt if it is not an extent.
pub(crate) fn parse_space(text: &str) -> Result<Dataspace> {
    let wrong = || Error::corrupt(format!("the metadata {SPACE} is not an extent: {text:.200}"));
    match text {
        "null" => return Ok(Dataspace::Null),
        "scalar" => return Ok(Dataspace::Scalar),
        _ => {}
    }
    let value: serde_json::Value = serde_json::from_str(text).map_err(|_| wrong())?;
    let list = |key: &str| value.get(key).and_then(serde_json::Value::as_array);
    let dims = list("dims").ok_or_else(wrong)?;
    let dims: Vec<u64> = dims.iter().map(|dim| dim.as_u64().ok_or_else(wrong)).collect::<Result<_>>()?;
    let max = match list("max") {
        None => dims.iter().copied().map(Some).collect(),
        Some(max) => {
            let one = |max: &serde_json::Value| match max {
                serde_json::Value::Null => Ok(None),
                other => other.as_u64().map(Some).ok_or_else(wrong),
            };
            max.iter().map(one).collect::<Result<Vec<_>>>()?
        }
    };
    if max.len() != dims.len() || dims.len() > 32 {
        return Err(wrong());
    }
    Ok(Dataspace::Simple { dims, max })
}

/// Decodes a list of sizes from JSON.
pub(crate) fn parse_sizes(key: &str, text: &str) -> Result<Vec<u64>> {
    serde_json::from_str(text)
        .map_err(|_| Error::corrupt(format!("the metadata {key} is not a list of sizes: {text:.200}")))
}
