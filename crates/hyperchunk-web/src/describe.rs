//! Datatypes, datasets and links as JSON.

use crate::columns::integers;
use hyperchunk::codec::filter_name;
use hyperchunk::model::{
    ByteOrder, CharacterSet, Class, Dataspace, Datatype, Layout, Link, LinkTarget, ObjectKind, ReferenceKind,
    StringPadding,
};
use hyperchunk::{Dataset, Error, Result};
use serde_json::{Value, json};

/// `Number.MAX_SAFE_INTEGER` of JavaScript.
const MAX_SAFE_INTEGER: i128 = (1 << 53) - 1;

fn order(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "little",
        ByteOrder::Big => "big",
        ByteOrder::Vax => "vax",
    }
}

fn charset(charset: CharacterSet) -> &'static str {
    match charset {
        CharacterSet::Ascii => "ascii",
        CharacterSet::Utf8 => "utf-8",
    }
}

fn padding(padding: StringPadding) -> &'static str {
    match padding {
        StringPadding::NullTerminated => "null-terminated",
        StringPadding::NullPadded => "null-padded",
        StringPadding::SpacePadded => "space-padded",
    }
}

/// Returns an integer as a number, or as text if JavaScript's numbers would round it.
fn integer(value: i128) -> Value {
    match i64::try_from(value) {
        Ok(small) if value.abs() <= MAX_SAFE_INTEGER => small.into(),
        _ => value.to_string().into(),
    }
}

/// Describes a datatype.
pub(crate) fn datatype(of: &Datatype) -> Result<Value> {
    let mut described = match &of.class {
        Class::Integer { order: by, signed, offset, precision } => {
            json!({"class": "integer", "signed": signed, "order": order(*by), "precision": precision, "offset": offset})
        }
        Class::Float(float) => json!({
            "class": "float",
            "order": order(float.order),
            "precision": float.precision,
            "exponent": float.exponent_bits,
            "mantissa": float.mantissa_bits,
        }),
        Class::Time { order: by, precision } => {
            json!({"class": "time", "order": order(*by), "precision": precision})
        }
        Class::Bitfield { order: by, precision, offset } => {
            json!({"class": "bitfield", "order": order(*by), "precision": precision, "offset": offset})
        }
        Class::String { padding: by, charset: set } => {
            json!({"class": "string", "variable": false, "charset": charset(*set), "padding": padding(*by)})
        }
        Class::VlenString { padding: by, charset: set } => {
            json!({"class": "string", "variable": true, "charset": charset(*set), "padding": padding(*by)})
        }
        Class::Opaque { tag } => json!({"class": "opaque", "tag": tag.to_string()}),
        Class::Compound { members } => {
            let members: Result<Vec<Value>> = members
                .iter()
                .map(|member| {
                    let dtype = datatype(&member.datatype)?;
                    Ok(json!({"name": member.name.to_string(), "offset": member.offset, "dtype": dtype}))
                })
                .collect();
            json!({"class": "compound", "members": members?})
        }
        Class::Reference(kind) => {
            let target = match kind {
                ReferenceKind::Object1 | ReferenceKind::Object2 => "object",
                ReferenceKind::Region1 | ReferenceKind::Region2 => "region",
                ReferenceKind::Attribute => "attribute",
            };
            json!({"class": "reference", "target": target})
        }
        Class::Enum { base, members } => {
            let values: Vec<u8> = members.iter().flat_map(|member| member.value.iter().copied()).collect();
            let values = integers(base, &values, members.len())?;
            let members: Vec<Value> = members
                .iter()
                .zip(values)
                .map(|(member, value)| json!({"name": member.name.to_string(), "value": integer(value)}))
                .collect();
            json!({"class": "enum", "base": datatype(base)?, "members": members})
        }
        Class::Vlen { base } => json!({"class": "sequence", "base": datatype(base)?}),
        Class::Array { dims, base } => json!({"class": "array", "shape": dims, "base": datatype(base)?}),
        Class::Complex { base } => json!({"class": "complex", "base": datatype(base)?}),
    };
    if let Some(fields) = described.as_object_mut() {
        fields.insert("size".into(), of.size.into());
    }
    Ok(described)
}

/// Describes an extent; `null` for a null dataspace.
pub(crate) fn shape(space: &Dataspace, dims: &[u64]) -> Value {
    match space {
        Dataspace::Null => Value::Null,
        _ => dims.into(),
    }
}

/// Describes a dataset.
pub(crate) fn dataset(of: &Dataset) -> Result<Value> {
    let max: Value = match of.dataspace() {
        Dataspace::Simple { max, .. } => json!(max),
        space => shape(space, &[]),
    };
    let layout = match of.layout() {
        _ if of.store().is_some() => "store",
        Layout::Compact { .. } => "compact",
        Layout::Contiguous { .. } if !of.external().is_empty() => "external",
        Layout::Contiguous { .. } => "contiguous",
        Layout::Chunked(_) => "chunked",
        Layout::Virtual { .. } => "virtual",
    };
    let filters: Vec<Value> = of
        .pipeline()
        .iter()
        .map(|filter| {
            let given = || filter.name.as_ref().map(ToString::to_string);
            let name = filter_name(filter.id).map(str::to_owned).or_else(given);
            json!({"id": filter.id, "name": name, "optional": filter.optional, "parameters": filter.parameters})
        })
        .collect();
    Ok(json!({
        "dtype": datatype(of.datatype())?,
        "shape": shape(of.dataspace(), of.dims()),
        "maxShape": max,
        "layout": layout,
        "chunks": of.chunked().map(|chunked| &chunked.dims),
        "filters": filters,
    }))
}

/// Returns the name of an object's kind.
pub(crate) fn kind(of: ObjectKind) -> &'static str {
    match of {
        ObjectKind::Group => "group",
        ObjectKind::Dataset => "dataset",
        ObjectKind::Datatype => "datatype",
    }
}

/// Describes a link.
pub(crate) fn link(of: &Link) -> Value {
    let mut described = match &of.target {
        LinkTarget::Hard(address) => json!({"link": "hard", "address": address}),
        LinkTarget::Soft(path) => json!({"link": "soft", "path": path.to_string()}),
        LinkTarget::External { file, path } => {
            json!({"link": "external", "file": file.to_string(), "path": path.to_string()})
        }
        LinkTarget::User { class, .. } => json!({"link": "user", "class": class}),
    };
    if let Some(fields) = described.as_object_mut() {
        fields.insert("name".into(), of.name.to_string().into());
    }
    described
}

/// Describes an error.
pub(crate) fn error(of: &Error) -> Value {
    json!({
        "kind": format!("{:?}", of.kind()),
        "message": of.to_string(),
        "object": of.object_path(),
        "file": of.file_name(),
        "offset": of.offset(),
    })
}
