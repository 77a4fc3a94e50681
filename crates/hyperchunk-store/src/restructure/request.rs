//! Requests for layouts: about a hundred bytes, independent of the size of the dataset.

use super::order::Order;
use hyperchunk::{Error, Result};
use hyperchunk_format::codec::{Target, filter, preset};
use hyperchunk_format::model::{Datatype, FillWhen, Pipeline};
use serde_json::{Map, Value, json};
use twox_hash::XxHash3_128;

/// Default size of a chunk in bytes.
const DEFAULT_CHUNK_BYTES: u64 = 1 << 20;
/// Default memory of a process in bytes.
const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;
/// Maximum length of a request in bytes.
const MAX_REQUEST_BYTES: usize = 64 << 10;
/// Maximum size of a chunk in bytes; readers of some versions do not support larger ones.
const MAX_CHUNK_BYTES: u64 = (4 << 30) - 1;

/// A request for a layout.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// Path of the dataset.
    pub dataset: String,
    /// Order of the chunks.
    pub order: Order,
    /// Shape of the chunks.
    pub chunk: Chunking,
    /// Filters: `none`, a preset ([`hyperchunk::codec::PRESETS`]), or `gzip:4`, `zstd:3`, `lz4`, `lzf`,
    /// after a byte shuffle.
    pub codec: String,
    /// Memory limit in bytes of a process that works on the layout.
    pub memory: u64,
    /// Keep other layouts of the dataset once this one is complete. The dataset itself is always
    /// kept.
    pub keep: bool,
    /// Epoch of a sharded store; the newest if `None`.
    pub epoch: Option<u64>,
}

/// Shape of chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunking {
    /// Number of elements along each dimension.
    Shape(Vec<u64>),
    /// Chunks of a given size, longest along the named dimensions, in order of priority.
    Target {
        /// Approximate size in bytes.
        bytes: u64,
        /// The preferred dimensions.
        favor: Vec<usize>,
    },
}

impl Request {
    /// Returns the default request for a dataset.
    #[must_use]
    pub fn new(dataset: &str) -> Self {
        Self {
            dataset: format!("/{}", dataset.trim_matches('/')),
            order: Order::Row,
            chunk: Chunking::Target { bytes: DEFAULT_CHUNK_BYTES, favor: Vec::new() },
            codec: "none".into(),
            memory: DEFAULT_MEMORY_BYTES,
            keep: true,
            epoch: None,
        }
    }

    /// Parses a request in JSON.
    ///
    /// # Errors
    /// Invalid for an invalid request, with the reason.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_REQUEST_BYTES {
            return Err(Error::limit(format!(
                "a request of {} bytes, more than {MAX_REQUEST_BYTES}",
                text.len()
            )));
        }
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Error::invalid(format!("the request is not valid JSON: {error}")))?;
        let fields = value.as_object().ok_or_else(|| Error::invalid("the request is not a JSON object"))?;
        let dataset = fields.get("dataset").and_then(Value::as_str);
        let mut request = Self::new(dataset.ok_or_else(|| Error::invalid("the request has no `dataset`"))?);
        for (name, value) in fields {
            if value.is_null() {
                continue;
            }
            let wrong = || {
                let expected = match name.as_str() {
                    "order" => "row, column, hilbert or dimensions such as [1, 0]",
                    "chunk" => {
                        "a shape such as [64, 64], or a size such as {\"target_mb\": 8, \"favor\": [1]}"
                    }
                    "codec" => "the name of a codec, such as none, gzip:4 or zstd:3",
                    "memory" => "a number of bytes, or a text such as 64MiB",
                    "keep" => "true or false",
                    _ => "a number",
                };
                Error::invalid(format!("cannot restructure: expected {expected} for {name}, got {value}"))
            };
            match name.as_str() {
                "dataset" => {}
                "order" => request.order = order(value).ok_or_else(wrong)?,
                "chunk" => request.chunk = chunking(value).ok_or_else(wrong)?,
                "codec" => request.codec = value.as_str().ok_or_else(wrong)?.to_owned(),
                "memory" => request.memory = bytes(value).filter(|bytes| *bytes > 0).ok_or_else(wrong)?,
                "keep" => request.keep = value.as_bool().ok_or_else(wrong)?,
                "epoch" => request.epoch = Some(value.as_u64().ok_or_else(wrong)?),
                _ => {
                    return Err(Error::invalid(format!(
                        "unknown field {} in the request",
                        name.escape_debug()
                    )));
                }
            }
        }
        Ok(request)
    }

    /// Returns the request as JSON in a canonical form.
    #[must_use]
    pub fn to_json(&self) -> String {
        let text = |value: &Value| value.to_string();
        let order = match &self.order {
            Order::Row => json!("row"),
            Order::Column => json!("column"),
            Order::Hilbert => json!("hilbert"),
            Order::Axes(axes) => json!(axes),
        };
        let chunk = match &self.chunk {
            Chunking::Shape(shape) => text(&json!(shape)),
            Chunking::Target { bytes, favor } => {
                format!("{{\"target\":{bytes},\"favor\":{}}}", text(&json!(favor)))
            }
        };
        // Formatted by hand, since the order of the members affects the hash.
        let mut out = format!(
            "{{\"dataset\":{},\"order\":{},\"chunk\":{chunk},\"codec\":{},\"memory\":{},\"keep\":{}",
            text(&json!(self.dataset)),
            text(&order),
            text(&json!(self.codec)),
            self.memory,
            self.keep,
        );
        if let Some(epoch) = self.epoch {
            out += &format!(",\"epoch\":{epoch}");
        }
        out + "}"
    }

    /// Returns the id of the requested layout for a source: 32 hexadecimal digits.
    #[must_use]
    pub fn id(&self, source: &str) -> String {
        let text = format!("{}\n{source}", self.to_json());
        format!("{:032x}", XxHash3_128::oneshot(text.as_bytes()))
    }

    /// Returns the shape of the chunks for a dataset of this extent.
    ///
    /// # Errors
    /// Invalid if the request is for another rank; Limit for chunks that are too large.
    pub fn shape(&self, dims: &[u64], element: u64) -> Result<Vec<u64>> {
        let rank = dims.len();
        let axes = self.order.axes(rank)?;
        let shape = match &self.chunk {
            Chunking::Shape(shape) => {
                if shape.len() != rank || shape.contains(&0) {
                    let message = format!("chunks of {shape:?} elements for a dataset of {dims:?}");
                    return Err(Error::invalid(message));
                }
                // A dataset of fixed extent needs no chunk larger than itself.
                shape.iter().zip(dims).map(|(shape, dim)| (*shape).min((*dim).max(1))).collect()
            }
            Chunking::Target { bytes, favor } => {
                if favor.iter().any(|axis| *axis >= rank) {
                    let message =
                        format!("favor is {favor:?}, expected dimensions below {rank}, counted from 0");
                    return Err(Error::invalid(message));
                }
                let room = (bytes / element.max(1)).max(1);
                match axes {
                    None if favor.is_empty() => cube(dims, room),
                    axes => {
                        let rest = axes.unwrap_or_else(|| (0..rank).collect()).into_iter().rev();
                        let rest = rest.filter(|axis| !favor.contains(axis));
                        long(dims, room, favor.iter().copied().chain(rest))
                    }
                }
            }
        };
        let size = shape.iter().try_fold(element, |size, dim| size.checked_mul(*dim));
        if size.is_none_or(|size| size > MAX_CHUNK_BYTES) {
            return Err(Error::limit(format!("chunks of {shape:?} elements have 4 GiB or more")));
        }
        Ok(shape)
    }

    /// Returns the filters of the chunks.
    ///
    /// # Errors
    /// Invalid if there is no such codec, or it does not support such elements.
    pub fn pipeline(&self, datatype: &Datatype, chunk: &[u64], fill: &FillWhen) -> Result<Pipeline> {
        let target = Target { datatype, chunk, fill };
        let (name, level) = match self.codec.split_once(':') {
            Some((name, level)) => {
                let level = level.trim().parse::<u32>();
                let wrong =
                    |_| Error::invalid(format!("the level of codec {:?} is not a number", self.codec));
                (name.trim(), Some(level.map_err(wrong)?))
            }
            None => (self.codec.trim(), None),
        };
        let id = match name {
            "gzip" => 1,
            "deflate" if level.is_some() => 1,
            "zstd" => 32015,
            "lz4" => 32004,
            "lzf" => 32000,
            _ if level.is_none() => return preset(name, &target),
            _ => return Err(Error::invalid(format!("unknown codec {:?} with a level", self.codec))),
        };
        let options: Vec<u32> = level.into_iter().collect();
        let shuffle = (datatype.size > 1).then(|| filter(2, &[], &target)).transpose()?;
        Ok(shuffle.into_iter().chain([filter(id, &options, &target)?]).collect())
    }
}

/// Returns a shape as long as possible along the first axes.
fn long(dims: &[u64], mut room: u64, axes: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut shape = vec![1; dims.len()];
    for axis in axes {
        shape[axis] = dims[axis].clamp(1, room.max(1));
        room /= shape[axis];
    }
    shape
}

/// Returns a shape of similar length along all axes.
fn cube(dims: &[u64], room: u64) -> Vec<u64> {
    let mut shape: Vec<u64> = dims.iter().map(|dim| (*dim).max(1)).collect();
    while shape.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim)) > room {
        match shape.iter_mut().max_by_key(|dim| **dim) {
            Some(longest) if *longest > 1 => *longest = longest.div_ceil(2),
            _ => break,
        }
    }
    shape
}

fn order(value: &Value) -> Option<Order> {
    match value {
        Value::String(name) => match name.as_str() {
            "row" => Some(Order::Row),
            "column" => Some(Order::Column),
            "hilbert" => Some(Order::Hilbert),
            _ => None,
        },
        value => numbers(value)?
            .into_iter()
            .map(|axis| usize::try_from(axis).ok())
            .collect::<Option<Vec<usize>>>()
            .map(Order::Axes),
    }
}

fn chunking(value: &Value) -> Option<Chunking> {
    if let Some(shape) = numbers(value) {
        return Some(Chunking::Shape(shape));
    }
    let fields: &Map<String, Value> = value.as_object()?;
    let (mut bytes, mut favor) = (DEFAULT_CHUNK_BYTES, Vec::new());
    for (name, value) in fields {
        match name.as_str() {
            "target" => bytes = self::bytes(value)?,
            "target_mb" => bytes = value.as_u64()?.checked_mul(1 << 20)?,
            "favor" => {
                let axes = numbers(value)?.into_iter().map(|axis| usize::try_from(axis).ok());
                favor = axes.collect::<Option<_>>()?;
            }
            _ => return None,
        }
    }
    let mut once = favor.clone();
    once.sort_unstable();
    once.dedup();
    (once.len() == favor.len() && bytes > 0).then_some(Chunking::Target { bytes, favor })
}

fn numbers(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(Value::as_u64).collect()
}

fn bytes(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => parse_byte_count(text),
        value => value.as_u64(),
    }
}

/// Parses a number of bytes with a unit: `64 MiB`, `1GB`, `4096`.
#[must_use]
pub fn parse_byte_count(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk_format::model::ByteOrder;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let request = Request::parse(text).unwrap();
        assert_eq!(request.to_json(), expected);
        assert_eq!(Request::parse(expected).unwrap(), request);
    }

    #[test]
    fn requests_are_written_in_the_same_words() {
        let usual = r#"{"dataset":"/a","order":"row","chunk":{"target":1048576,"favor":[]},"codec":"none","memory":268435456,"keep":true}"#;
        check(r#"{"dataset":"a"}"#, usual);
        check(r#"{"keep":true,"epoch":null,"dataset":"/a/","chunk":{}}"#, usual);
        check(
            r#"{"dataset":"/g/\u00e4","order":[1,0],"chunk":[8,9],"codec":"gzip:4","memory":"64MiB","epoch":7}"#,
            r#"{"dataset":"/g/ä","order":[1,0],"chunk":[8,9],"codec":"gzip:4","memory":67108864,"keep":true,"epoch":7}"#,
        );
        check(
            r#"{"dataset":"/a","order":"hilbert","chunk":{"target_mb":8,"favor":[1]}}"#,
            r#"{"dataset":"/a","order":"hilbert","chunk":{"target":8388608,"favor":[1]},"codec":"none","memory":268435456,"keep":true}"#,
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"dataset":1}"#,
            r#"{"dataset":"/a","orders":"row"}"#,
            r#"{"dataset":"/a","order":"up"}"#,
            r#"{"dataset":"/a","order":[-1]}"#,
            r#"{"dataset":"/a","chunk":{"target_mb":0}}"#,
            r#"{"dataset":"/a","chunk":{"favor":[1,1]}}"#,
            r#"{"dataset":"/a","chunk":{"best":1}}"#,
            r#"{"dataset":"/a","memory":0}"#,
            r#"{"dataset":"/a","memory":"much"}"#,
            r#"{"dataset":"/a","keep":["orig"]}"#,
            r#"{"dataset":"/a","epoch":"last"}"#,
        ] {
            assert!(Request::parse(text).is_err(), "{text}");
        }
        let datatype = Datatype::integer(4, true, ByteOrder::Little);
        for codec in ["best", "gzip:x", "gzip:10", "fast:3", "zstd:0"] {
            let request = Request { codec: codec.into(), ..Request::new("/a") };
            assert!(request.pipeline(&datatype, &[10], &FillWhen::Default).is_err(), "{codec}");
        }
        for (codec, filters) in
            [("none", 0), ("gzip:4", 2), ("gzip", 2), ("zstd:3", 2), ("fast", 1), ("deflate", 2)]
        {
            let request = Request { codec: codec.into(), ..Request::new("/a") };
            let made = request.pipeline(&datatype, &[10], &FillWhen::Default).unwrap();
            assert_eq!(made.len(), filters, "{codec}");
        }
    }

    #[test]
    fn shapes() {
        let check = |order: Order, chunk: Chunking, expected: &[u64]| {
            let request = Request { order, chunk, ..Request::new("/a") };
            assert_eq!(request.shape(&[1000, 600, 70], 4).unwrap(), expected);
        };
        let target = |bytes, favor: &[usize]| Chunking::Target { bytes, favor: favor.to_vec() };
        check(Order::Row, target(400, &[]), &[1, 1, 70]);
        check(Order::Row, target(70 * 4 * 5, &[]), &[1, 5, 70]);
        check(Order::Column, target(4000 * 5, &[]), &[1000, 5, 1]);
        check(Order::Axes(vec![0, 2, 1]), target(2400 * 5, &[]), &[1, 600, 5]);
        check(Order::Row, target(4000 * 5, &[0]), &[1000, 1, 5]);
        check(Order::Hilbert, target(1 << 18, &[]), &[32, 38, 35]);
        check(Order::Row, target(u64::MAX, &[]), &[1000, 600, 70]);
        check(Order::Row, Chunking::Shape(vec![3, 2000, 1]), &[3, 600, 1]);
        let wrong = |chunk, order| {
            Request { order, chunk, ..Request::new("/a") }.shape(&[1 << 30, 1 << 30], 4).is_err()
        };
        assert!(
            wrong(Chunking::Shape(vec![3]), Order::Row) && wrong(Chunking::Shape(vec![3, 0]), Order::Row)
        );
        assert!(wrong(target(1, &[2]), Order::Row) && wrong(target(1, &[]), Order::Axes(vec![1, 2])));
        assert!(wrong(Chunking::Shape(vec![1 << 20, 1 << 20]), Order::Row));
    }

    #[test]
    fn sizes_for_people() {
        let check = |text, expected| assert_eq!(parse_byte_count(text), expected, "{text}");
        check("4096", Some(4096));
        check(" 64 MiB ", Some(64 << 20));
        check("1GB", Some(1_000_000_000));
        check("2g", Some(2 << 30));
        check("x", None);
        check("1 XB", None);
        check("99999999999999 TiB", None);
    }
}
