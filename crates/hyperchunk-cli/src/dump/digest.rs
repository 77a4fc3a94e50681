//! `hyperchunk dump --digest`: digests of all values, as JSON.

use super::DumpRequest;
use crate::json::Text;
use hyperchunk::digest::{self, Digest};
use hyperchunk::model::ObjectKind;
use hyperchunk::walk::{Next, Visit, VisitedItem};
use hyperchunk::{Error, Object};
use std::fmt::Write as _;

/// Prints the digests of all objects; returns the number of objects and attributes that failed.
pub(super) fn print(request: &DumpRequest<'_>, max_bytes: u64) -> Result<usize, Error> {
    let mut failures = 0;
    let mut separator = "\n";
    crate::print_text("{\"objects\": {");
    request.file.walk(request.object, request.path, &mut |visit: Visit<'_>| {
        let mut line = String::new();
        match &visit.found {
            VisitedItem::Object(object) => line = entry(object, max_bytes, &mut failures),
            VisitedItem::Broken(error) => {
                failures += 1;
                // If the links of a group cannot be read, the group has an entry already.
                if visit.link.is_some() {
                    let _ = write!(line, "{{\"error\": {}}}", Text(error.to_string().as_bytes()));
                } else {
                    crate::print_message(error);
                }
            }
            VisitedItem::Again(_) | VisitedItem::Link => {}
        }
        if !line.is_empty() {
            crate::print_text(&format!("{separator}{}: {line}", Text(visit.path)));
            separator = ",\n";
        }
        Ok(Next::Enter)
    })?;
    crate::print_text("\n}}\n");
    Ok(failures)
}

/// Returns the entry of an object.
fn entry(object: &Object, max_bytes: u64, failures: &mut usize) -> String {
    let kind = match object.kind() {
        ObjectKind::Group => "group",
        ObjectKind::Dataset => "dataset",
        ObjectKind::Datatype => "type",
    };
    let mut text = format!("{{\"kind\": \"{kind}\"");
    let mut digested = |text: &mut String, result: Result<Digest, Error>| match result {
        Ok(Digest { digest, form, nulls }) => {
            let _ = write!(text, "\"digest\": \"{digest}\", \"form\": \"{form}\"");
            if let Some(nulls) = nulls {
                let _ = write!(text, ", \"nulls\": \"{nulls}\"");
            }
        }
        Err(error) => {
            *failures += 1;
            let _ = write!(text, "\"error\": {}", Text(error.to_string().as_bytes()));
        }
    };
    if object.kind() == ObjectKind::Dataset {
        text.push_str(", ");
        let result = object.dataset().and_then(|dataset| digest::dataset(&dataset, max_bytes));
        digested(&mut text, result);
    }
    match object.attributes() {
        Ok(attributes) => {
            text.push_str(", \"attrs\": {");
            for (number, attribute) in attributes.iter().enumerate() {
                let separator = if number == 0 { "" } else { ", " };
                let _ = write!(text, "{separator}{}: {{", Text(attribute.name.as_bytes()));
                digested(&mut text, digest::attribute(object.file(), attribute));
                text.push('}');
            }
            text.push('}');
        }
        Err(error) => {
            *failures += 1;
            let _ = write!(text, ", \"attrs_error\": {}", Text(error.to_string().as_bytes()));
        }
    }
    text.push('}');
    text
}
