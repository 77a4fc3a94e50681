//! The storage properties of a dataset as metadata, restored on import as far as possible.

use crate::types::metadata::{FILL, LAYOUT, NAMED, PATH, SPACE, decode_base64, encode_base64, space};
use crate::{Error, Result, attributes_to_metadata};
use hyperchunk::Dataset;
use hyperchunk::codec::Encoder;
use hyperchunk::model::{
    AllocationTime, Dataspace, Datatype, FillTime, FillValue, FillWhen, Filter, Layout, Name,
};
use hyperchunk::write::{DatasetOptions, NewLayout};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Filters that are not applied on import: scale-offset changes values when applied again, and live datasets
/// need their source.
const EXCLUDED_FILTERS: [u16; 2] = [6, 31300];
/// Maximum size in bytes of a chunk for testing whether filters can be applied.
const SAMPLE_BYTES: u64 = 16 << 20;

/// Returns a dataset's metadata other than its values.
pub(super) fn describe(dataset: &Dataset) -> Result<HashMap<String, String>> {
    let object = dataset.object();
    let mut metadata = attributes_to_metadata(object)?;
    let mut add = |key: &str, value: String| metadata.insert(key.to_owned(), value);
    if let Some(path) = object.path() {
        add(PATH, path.to_owned());
    }
    let extent = match dataset.dataspace() {
        Dataspace::Simple { max, .. } => {
            let dims = dataset.dims().to_vec();
            // The maximum of a virtual dataset may be smaller than its extent.
            let bound = |(max, dim): (&Option<u64>, &u64)| max.map(|max| max.max(*dim));
            Dataspace::Simple { max: max.iter().zip(&dims).map(bound).collect(), dims }
        }
        other => other.clone(),
    };
    add(SPACE, space(&extent));
    add(LAYOUT, layout(dataset).to_string());
    let apart = dataset.datatype().has_vlen() || dataset.datatype().has_reference();
    if let FillWhen::User(value) = &dataset.fill().value
        && !apart
        && value.len() as u64 == dataset.datatype().size
    {
        add(FILL, encode_base64(value));
    }
    if let Some(address) = dataset.committed()
        && let Some(path) = object.file().paths()?.find(address)
        && let Ok(path) = String::from_utf8(path)
    {
        add(NAMED, path);
    }
    Ok(metadata)
}

fn layout(dataset: &Dataset) -> Value {
    let mut made = serde_json::Map::new();
    let name = match dataset.layout() {
        Layout::Compact { .. } => "compact",
        Layout::Contiguous { .. } if !dataset.external().is_empty() => "external",
        Layout::Contiguous { .. } => "contiguous",
        Layout::Chunked(_) => "chunked",
        Layout::Virtual { .. } => "virtual",
    };
    made.insert("layout".into(), name.into());
    if let Some(chunked) = dataset.chunked() {
        made.insert("chunk".into(), json!(chunked.dims));
    }
    let filters: Vec<Value> = dataset
        .pipeline()
        .iter()
        .map(|filter| {
            let name = filter.name.as_ref().map(Name::to_string);
            json!({ "id": filter.id, "name": name, "optional": filter.optional, "parameters": filter.parameters })
        })
        .collect();
    if !filters.is_empty() {
        made.insert("filters".into(), filters.into());
    }
    let fill = dataset.fill();
    let allocation = match fill.allocation {
        AllocationTime::Default => None,
        AllocationTime::Early => Some("early"),
        AllocationTime::Late => Some("late"),
        AllocationTime::Incremental => Some("incremental"),
    };
    let time = match fill.time {
        FillTime::Allocation => Some("allocation"),
        FillTime::Never => Some("never"),
        FillTime::IfSet => None,
    };
    for (key, value) in [("allocation", allocation), ("fill_time", time)] {
        if let Some(value) = value {
            made.insert(key.into(), value.into());
        }
    }
    if fill.value == FillWhen::Undefined {
        made.insert("fill".into(), "undefined".into());
    }
    if dataset.object().header().attribute_order_tracked {
        made.insert("track_order".into(), true.into());
    }
    Value::Object(made)
}

/// Returns the options for a dataset of this type and extent from metadata, and a note about properties that
/// cannot be restored.
pub(super) fn options(
    metadata: &HashMap<String, String>,
    datatype: &Datatype,
    dataspace: &Dataspace,
) -> Result<(DatasetOptions, Option<String>)> {
    let mut options = DatasetOptions::new(datatype.clone(), dataspace.clone());
    let text = metadata.get(LAYOUT).map_or("{}", String::as_str);
    let stored: Value = serde_json::from_str(text)
        .map_err(|_| Error::corrupt(format!("the metadata {LAYOUT}: {text:.200}")))?;
    let word = |key: &str| stored.get(key).and_then(Value::as_str);
    let mut note = None;
    let growing = matches!(dataspace, Dataspace::Simple { dims, max }
        if dims.iter().zip(max).any(|(dim, max)| *max != Some(*dim)));
    let chunk = stored.get("chunk").and_then(Value::as_array);
    let chunk: Option<Vec<u64>> = chunk.and_then(|chunk| chunk.iter().map(Value::as_u64).collect());
    let bytes = |chunk: &[u64]| chunk.iter().try_fold(datatype.size, |size, dim| size.checked_mul(*dim));
    let fits = |chunk: &Vec<u64>| {
        chunk.len() == dataspace.dims().len()
            && !chunk.is_empty()
            && !chunk.contains(&0)
            && bytes(chunk).is_some_and(|bytes| bytes <= u64::from(u32::MAX))
            && matches!(dataspace, Dataspace::Simple { max, .. }
                if chunk.iter().zip(max).all(|(chunk, max)| max.is_none_or(|max| *chunk <= max.max(1))))
    };
    if word("layout") == Some("compact")
        && !growing
        && elements(datatype, dataspace).is_some_and(|bytes| bytes < 60_000)
    {
        options.layout = NewLayout::Compact;
    } else if let Some(chunk) = chunk.filter(fits) {
        let pipeline = filters(&stored);
        match usable(&pipeline, bytes(&chunk).unwrap_or(u64::MAX)) {
            Ok(()) => options.pipeline = pipeline,
            Err(why) => note = Some(format!("stored without its filters: {why}")),
        }
        options.layout = NewLayout::Chunked(chunk);
    } else if growing {
        let mut left = ((1 << 20) / datatype.size.max(1)).max(1);
        let mut chunk = vec![1; dataspace.dims().len()];
        for (chunk, dim) in chunk.iter_mut().zip(dataspace.dims()).rev() {
            *chunk = (*dim).clamp(1, left);
            left = (left / *chunk).max(1);
        }
        options.layout = NewLayout::Chunked(chunk);
    }
    options.fill = FillValue {
        value: match metadata.get(FILL) {
            _ if word("fill") == Some("undefined") => FillWhen::Undefined,
            Some(text) => FillWhen::User(decode_base64(FILL, text)?),
            None => FillWhen::Default,
        },
        allocation: AllocationTime::Default,
        time: match word("fill_time") {
            Some("allocation") => FillTime::Allocation,
            Some("never") => FillTime::Never,
            _ => FillTime::IfSet,
        },
    };
    options.track_order = stored.get("track_order").and_then(Value::as_bool).unwrap_or(false);
    Ok((options, note))
}

fn elements(datatype: &Datatype, dataspace: &Dataspace) -> Option<u64> {
    dataspace.elements()?.checked_mul(datatype.size)
}

fn filters(stored: &Value) -> Vec<Filter> {
    let filters = stored.get("filters").and_then(Value::as_array);
    let one = |filter: &Value| {
        let parameters = filter.get("parameters").and_then(Value::as_array);
        let parameters = parameters.map(|all| {
            all.iter().filter_map(Value::as_u64).filter_map(|number| u32::try_from(number).ok()).collect()
        });
        Some(Filter {
            id: filter.get("id").and_then(Value::as_u64).and_then(|id| u16::try_from(id).ok())?,
            optional: filter.get("optional").and_then(Value::as_bool).unwrap_or(false),
            name: filter.get("name").and_then(Value::as_str).map(Name::from),
            parameters: parameters.unwrap_or_default(),
        })
    };
    filters.map_or_else(Vec::new, |filters| filters.iter().filter_map(one).collect())
}

/// Checks that filters can be applied to values that were read through them.
fn usable(pipeline: &[Filter], bytes: u64) -> Result<(), String> {
    if let Some(filter) = pipeline.iter().find(|filter| EXCLUDED_FILTERS.contains(&filter.id)) {
        let name = filter.name.as_ref().map_or_else(|| format!("filter {}", filter.id), Name::to_string);
        return Err(format!("{name} would change its values"));
    }
    if pipeline.is_empty() || bytes > SAMPLE_BYTES {
        return Ok(());
    }
    let zeros = vec![0; usize::try_from(bytes).unwrap_or(0)];
    Encoder::new().encode(pipeline, &zeros).map(drop).map_err(|error| error.to_string())
}
