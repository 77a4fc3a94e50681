//! Requests for a table of a file, or for a part of the table. A descriptor's command and a ticket use the
//! same JSON. The format: `docs/formats/flight.md`.

use super::names::shortened;
use crate::predicate::Predicate;
use crate::view::{Table, TableOptions};
use crate::{Cells, Compounds, ConversionOptions, Enums, Half, Strings};
use arrow_flight::FlightDescriptor;
use arrow_flight::flight_descriptor::DescriptorType;
use hyperchunk::{Error, ErrorKind, File, Object, Result};
use serde_json::{Map, Value, json};

/// The version of tickets and commands.
const VERSION: u64 = 1;
/// Maximum size of a command or ticket, in bytes.
const MAX_QUERY_BYTES: usize = 1 << 20;
/// Maximum number of named columns.
const MAX_COLUMNS: usize = 1 << 16;

/// Conversion options: names and values as in `docs/formats/flight.md`.
const CONVERSION_OPTIONS: [(&str, &[&str]); 5] = [
    ("cells", &["tensor", "list"]),
    ("strings", &["text", "stored"]),
    ("half", &["float16", "float32"]),
    ("enums", &["values", "dictionary"]),
    ("compounds", &["columns", "struct"]),
];

/// A table of a file, with a selection of columns and rows.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Query {
    /// The name under which the file is served.
    pub file: String,
    /// The path of the dataset or group in the file; the root group if it is empty.
    pub table: String,
    /// The columns and their order; all if `None`.
    pub columns: Option<Vec<String>>,
    /// The first row, and the end (exclusive), which may be missing.
    pub rows: Option<(u64, Option<u64>)>,
    /// A filter that is applied to these rows.
    pub predicate: Option<Predicate>,
    /// Conversion options that differ from the default.
    pub conversion: Vec<(&'static str, &'static str)>,
    /// The epoch of a sharded store; the newest if it is `None`.
    pub epoch: Option<u64>,
    /// The expected version of the file; a different version is an error.
    pub version: Option<String>,
    /// Maximum number of rows in a batch.
    pub batch_rows: Option<u64>,
}

fn bad(what: impl std::fmt::Display) -> Error {
    Error::invalid(format!("invalid request: {what}"))
}

/// Parses a JSON text of bounded size as an object.
pub(super) fn object(bytes: &[u8]) -> Result<Map<String, Value>> {
    if bytes.len() > MAX_QUERY_BYTES {
        return Err(Error::new(ErrorKind::Limit, format!("a request of more than {MAX_QUERY_BYTES} bytes")));
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(bad("expected a JSON object")),
        Err(error) => Err(bad(format_args!("it is not JSON: {error}"))),
    }
}

/// Removes a string member of a request and returns it.
pub(super) fn text(object: &mut Map<String, Value>, name: &str) -> Result<Option<String>> {
    match object.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(bad(format_args!("`{name}` must be a string"))),
    }
}

/// Removes a number member of a request and returns it.
pub(super) fn number(object: &mut Map<String, Value>, name: &str) -> Result<Option<u64>> {
    match object.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(bad(format_args!("`{name}` must be a whole number, 0 or more"))),
        },
    }
}

/// Fails if members remain: ignoring an unknown one would answer a different request.
pub(super) fn nothing_else(object: &Map<String, Value>) -> Result<()> {
    match object.keys().next() {
        None => Ok(()),
        Some(name) => Err(bad(format_args!("unknown member {:?}", shortened(name)))),
    }
}

/// Checks the version of a message.
pub(super) fn check_version(object: &mut Map<String, Value>) -> Result<()> {
    match number(object, "v")? {
        None | Some(VERSION) => Ok(()),
        Some(other) => {
            Err(Error::unsupported(format!("request of version {other}: expected version {VERSION}")))
        }
    }
}

impl Query {
    /// Makes a query for all of a table.
    #[must_use]
    pub fn new(file: &str, table: &str) -> Self {
        Self { file: file.to_owned(), table: table.to_owned(), ..Self::default() }
    }

    /// Parses a descriptor: `[file, part of the path in it, …]`, or a command.
    ///
    /// # Errors
    /// Invalid, Limit or Unsupported for an invalid request.
    pub fn from_descriptor(descriptor: &FlightDescriptor) -> Result<Self> {
        match descriptor.r#type() {
            DescriptorType::Cmd => Self::parse(&descriptor.cmd),
            DescriptorType::Path => {
                let mut parts = descriptor.path.iter();
                let file = parts.next().ok_or_else(|| bad("the path is empty"))?;
                let table = parts.map(|part| part.trim_matches('/')).collect::<Vec<_>>().join("/");
                if file.len() + table.len() > MAX_QUERY_BYTES {
                    return Err(Error::limit("the path is too long"));
                }
                Ok(Self::new(file, &table))
            }
            DescriptorType::Unknown => Err(bad("the descriptor must be a path or a command")),
        }
    }

    /// Parses a command or a ticket.
    ///
    /// # Errors
    /// Invalid, Limit or Unsupported for an invalid request.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut object = object(bytes)?;
        check_version(&mut object)?;
        let file = text(&mut object, "file")?.ok_or_else(|| bad("`file` is missing"))?;
        let table = text(&mut object, "table")?.unwrap_or_default();
        let columns = object.remove("columns").map(columns).transpose()?.flatten();
        let rows = object.remove("rows").map(rows).transpose()?.flatten();
        let predicate = match object.remove("where") {
            None | Some(Value::Null) => None,
            Some(value) => Some(Predicate::parse(&value)?),
        };
        let mut conversion = Vec::new();
        for (name, values) in CONVERSION_OPTIONS {
            let Some(given) = text(&mut object, name)? else { continue };
            let value = values.iter().find(|value| **value == given);
            let value =
                value.ok_or_else(|| bad(format_args!("`{name}` must be one of {}", values.join(", "))))?;
            conversion.push((name, *value));
        }
        let query = Self {
            file,
            table,
            columns,
            rows,
            predicate,
            conversion,
            epoch: number(&mut object, "epoch")?,
            version: text(&mut object, "version")?,
            batch_rows: number(&mut object, "batch_rows")?,
        };
        if query.batch_rows == Some(0) {
            return Err(bad("`batch_rows` must be 1 or more"));
        }
        nothing_else(&object)?;
        Ok(query)
    }

    /// Opens the requested object in its file.
    pub(super) fn object(&self, file: &File) -> Result<Object> {
        let root = file.root()?.named("/");
        match self.table.trim_matches('/') {
            "" => Ok(root),
            path => root.group()?.get(format!("/{path}").as_bytes()),
        }
    }

    /// Returns the table options, without the rows.
    pub(super) fn options(&self) -> TableOptions {
        let mut conversion = ConversionOptions::default();
        for (name, value) in &self.conversion {
            match (*name, *value) {
                ("cells", "list") => conversion.cells = Cells::List,
                ("strings", "stored") => conversion.strings = Strings::Stored,
                ("half", "float32") => conversion.half = Half::Float32,
                ("enums", "dictionary") => conversion.enums = Enums::Dictionary,
                ("compounds", "struct") => conversion.compounds = Compounds::Struct,
                _ => {}
            }
        }
        TableOptions {
            conversion,
            columns: self.columns.clone(),
            batch_rows: self.batch_rows,
            ..TableOptions::default()
        }
    }

    /// Selects the requested rows of a table.
    pub(super) fn select_rows(&self, table: &Table) -> Result<Table> {
        match self.rows {
            Some((start, end)) => table.slice(start..end.unwrap_or_else(|| table.rows().max(start))),
            None => Ok(table.clone()),
        }
    }

    /// Returns the query as a command or a ticket.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("v".into(), json!(VERSION));
        object.insert("file".into(), json!(self.file));
        object.insert("table".into(), json!(self.table));
        if let Some(columns) = &self.columns {
            object.insert("columns".into(), json!(columns));
        }
        if let Some((start, end)) = self.rows {
            object.insert("rows".into(), json!([start, end]));
        }
        if let Some(predicate) = &self.predicate {
            object.insert("where".into(), predicate.to_json());
        }
        for (name, value) in &self.conversion {
            object.insert((*name).into(), json!(value));
        }
        if let Some(epoch) = self.epoch {
            object.insert("epoch".into(), json!(epoch));
        }
        if let Some(version) = &self.version {
            object.insert("version".into(), json!(version));
        }
        if let Some(rows) = self.batch_rows {
            object.insert("batch_rows".into(), json!(rows));
        }
        Value::Object(object)
    }
}

fn columns(value: Value) -> Result<Option<Vec<String>>> {
    let wrong = || bad("`columns` must be a list of names");
    match value {
        Value::Null => Ok(None),
        Value::Array(names) if names.len() > MAX_COLUMNS => {
            Err(Error::limit(format!("more than {MAX_COLUMNS} columns")))
        }
        Value::Array(names) => {
            let names = names.into_iter().map(|name| match name {
                Value::String(name) => Ok(name),
                _ => Err(wrong()),
            });
            names.collect::<Result<Vec<_>>>().map(Some)
        }
        _ => Err(wrong()),
    }
}

fn rows(value: Value) -> Result<Option<(u64, Option<u64>)>> {
    let wrong = || bad("`rows` must be [start, end]: whole numbers, 0 or more, in order, or null");
    let pair = match value {
        Value::Null => return Ok(None),
        Value::Array(pair) => pair,
        _ => return Err(wrong()),
    };
    let [start, end] = pair.as_slice() else { return Err(wrong()) };
    let take = |value: &Value| match value {
        Value::Null => Ok(None),
        value => value.as_u64().map(Some).ok_or_else(wrong),
    };
    let (start, end) = (take(start)?.unwrap_or(0), take(end)?);
    if end.is_some_and(|end| end < start) {
        return Err(wrong());
    }
    Ok(Some((start, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_come_back() {
        let check = |text: &str| {
            let query = Query::parse(text.as_bytes()).unwrap();
            let again = Query::parse(query.to_json().to_string().as_bytes()).unwrap();
            assert_eq!(query, again);
            query
        };
        check(r#"{"file": "a.h5"}"#);
        let query = check(
            r#"{"v": 1, "file": "a.h5", "table": "/g", "columns": ["x"], "rows": [1, null], "epoch": 3,
               "where": [["x", ">", 1.5]], "cells": "list", "version": "time:1", "batch_rows": 5}"#,
        );
        assert_eq!(query.rows, Some((1, None)));
        assert_eq!(query.conversion, [("cells", "list")]);
    }

    #[test]
    fn test_query_invalid_is_refused() {
        let deep = format!(r#"{{"file": "a", "where": {}1{}}}"#, "[".repeat(5000), "]".repeat(5000));
        let long = format!(r#"{{"file": "{}"}}"#, "x".repeat(2 << 20));
        for text in [
            "",
            "{",
            "[]",
            "1",
            "{}",
            r#"{"file": 1}"#,
            r#"{"file": "a", "fiel": 1}"#,
            r#"{"file": "a", "v": 2}"#,
            r#"{"file": "a", "rows": [-1, 2]}"#,
            r#"{"file": "a", "rows": [3, 2]}"#,
            r#"{"file": "a", "rows": [1]}"#,
            r#"{"file": "a", "rows": [1, 1e300]}"#,
            r#"{"file": "a", "rows": [0, 99999999999999999999999]}"#,
            r#"{"file": "a", "columns": "x"}"#,
            r#"{"file": "a", "columns": [1]}"#,
            r#"{"file": "a", "cells": "x"}"#,
            r#"{"file": "a", "batch_rows": 0}"#,
            r#"{"file": "a", "epoch": -1}"#,
            r#"{"file": "a", "where": 1}"#,
            &deep,
            &long,
        ] {
            assert!(Query::parse(text.as_bytes()).is_err(), "{}", shortened(text));
        }
        assert!(Query::from_descriptor(&FlightDescriptor::default()).is_err());
        assert!(Query::from_descriptor(&FlightDescriptor::new_path(Vec::new())).is_err());
        let path = vec!["a.h5".into(), "/g/".into(), "x".into()];
        assert_eq!(
            Query::from_descriptor(&FlightDescriptor::new_path(path)).unwrap(),
            Query::new("a.h5", "g/x")
        );
    }
}
