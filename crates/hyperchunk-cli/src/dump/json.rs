//! `hyperchunk dump --json`: a file as one JSON object, `{"objects": {PATH: {…}}}`.

use super::value::{Printer, Style};
use super::{DumpRequest, Values};
use crate::describe;
use crate::json::Text;
use hyperchunk::model::{Attribute, Dataspace, LinkTarget, ObjectKind};
use hyperchunk::walk::{Next, Visit, VisitedItem};
use hyperchunk::{Dataset, Error, Object};
use std::fmt::Write as _;

/// Prints an object and everything below it; returns the number of failures.
pub(crate) fn print(request: &DumpRequest<'_>) -> Result<usize, Error> {
    let mut failures = 0;
    let mut separator = "\n";
    crate::print_text(&format!("{{\"file\": {}, \"objects\": {{", Text(request.target.as_bytes())));
    request.file.walk(request.object, request.path, &mut |visit: Visit<'_>| {
        let entry = match &visit.found {
            VisitedItem::Object(object) => entry(object, request),
            VisitedItem::Again(first) => {
                Ok(format!("{{\"kind\": \"hard link\", \"target\": {}}}", Text(first)))
            }
            VisitedItem::Link => Ok(link(visit.link.map(|link| &link.target))),
            VisitedItem::Broken(error) => Err(error.clone()),
        };
        let entry = entry.unwrap_or_else(|error| {
            failures += 1;
            format!("{{\"error\": {}}}", Text(error.to_string().as_bytes()))
        });
        // A group whose links cannot be read has an entry already; a second key would hide that.
        let key = if matches!(visit.found, VisitedItem::Broken(_)) && visit.link.is_none() {
            [visit.path, b" (links)"].concat()
        } else {
            visit.path.to_vec()
        };
        crate::print_text(&format!("{separator}{}: {entry}", Text(&key)));
        separator = ",\n";
        let top = visit.path == request.path && visit.link.is_none();
        Ok(if request.recursive || top { Next::Enter } else { Next::Skip })
    })?;
    crate::print_text("\n}}\n");
    Ok(failures)
}

fn link(target: Option<&LinkTarget>) -> String {
    match target {
        Some(LinkTarget::Soft(path)) => {
            format!("{{\"kind\": \"soft link\", \"target\": {}}}", Text(path.as_bytes()))
        }
        Some(LinkTarget::External { file, path }) => format!(
            "{{\"kind\": \"external link\", \"file\": {}, \"target\": {}}}",
            Text(file.as_bytes()),
            Text(path.as_bytes())
        ),
        Some(LinkTarget::User { class, .. }) => {
            format!("{{\"kind\": \"user-defined link\", \"class\": {class}}}")
        }
        _ => "null".into(),
    }
}

fn entry(object: &Object, request: &DumpRequest<'_>) -> Result<String, Error> {
    let mut text = String::new();
    match object.kind() {
        ObjectKind::Group => {
            let _ = write!(text, "{{\"kind\": \"group\", \"members\": {}", object.group()?.len()?);
        }
        ObjectKind::Datatype => {
            let datatype = describe::datatype(&object.datatype()?);
            let _ = write!(text, "{{\"kind\": \"datatype\", \"type\": {}", Text(datatype.as_bytes()));
        }
        ObjectKind::Dataset => {
            let dataset = object.dataset()?;
            let datatype = describe::datatype(dataset.datatype());
            let _ = write!(text, "{{\"kind\": \"dataset\", \"type\": {}", Text(datatype.as_bytes()));
            let _ = write!(text, ", \"shape\": {}", shape(dataset.dataspace(), dataset.dims()));
            let _ = write!(text, ", \"layout\": {}", Text(describe::layout(&dataset).as_bytes()));
            storage(&dataset, &mut text)?;
            if let Values::UpTo(max_bytes) = request.values {
                let part = request.part.as_deref();
                let counts = part.map(|axes| axes.iter().map(|axis| axis.count).collect::<Vec<_>>());
                let mut nested =
                    NestedListWriter::new(dataset.dataspace(), counts.as_deref().unwrap_or(dataset.dims()));
                text.push_str(", \"value\": ");
                super::each_slab(&dataset, Style::Json, (max_bytes, part), &mut |elements| {
                    elements.iter().for_each(|element| nested.add(element, &mut text));
                })?;
                nested.close(&mut text);
            }
        }
    }
    text.push_str(", \"attributes\": {");
    for (number, attribute) in object.attributes()?.iter().enumerate() {
        if number > 0 {
            text.push_str(", ");
        }
        let _ = write!(text, "{}: ", Text(attribute.name.as_bytes()));
        self::attribute(object, attribute, &mut text)?;
    }
    text.push_str("}}");
    Ok(text)
}

/// Adds an attribute: type, shape and value.
pub(crate) fn attribute(object: &Object, attribute: &Attribute, text: &mut String) -> Result<(), Error> {
    let datatype = describe::datatype(&attribute.datatype);
    let dims = attribute.dataspace.dims();
    let shape = shape(&attribute.dataspace, dims);
    let _ = write!(text, "{{\"type\": {}, \"shape\": {shape}, \"value\": ", Text(datatype.as_bytes()));
    attribute_value(object, attribute, text)?;
    text.push('}');
    Ok(())
}

/// Adds the value of an attribute.
pub(crate) fn attribute_value(
    object: &Object,
    attribute: &Attribute,
    text: &mut String,
) -> Result<(), Error> {
    let mut nested = NestedListWriter::new(&attribute.dataspace, attribute.dataspace.dims());
    let elements =
        Printer::new(object.file(), &attribute.datatype, Style::Json)?.elements(&attribute.data)?;
    elements.iter().for_each(|element| nested.add(element, text));
    nested.close(text);
    Ok(())
}

/// Adds the maximum extent of a dataset, and its chunk shape and stored size if it is chunked.
fn storage(dataset: &Dataset, text: &mut String) -> Result<(), Error> {
    if let Dataspace::Simple { max, .. } = dataset.dataspace() {
        let max: Vec<String> =
            max.iter().map(|max| max.map_or_else(|| "null".into(), |max| max.to_string())).collect();
        let _ = write!(text, ", \"max_shape\": [{}]", max.join(", "));
    }
    if let Some(chunked) = dataset.chunked().filter(|_| dataset.store().is_none()) {
        let chunks = dataset.chunks()?;
        let stored: u64 = chunks.iter().map(|chunk| chunk.size).fold(0, u64::saturating_add);
        let whole = dataset.elements()?.saturating_mul(dataset.datatype().size);
        let extent: Vec<String> = chunked.dims.iter().map(u64::to_string).collect();
        let _ = write!(
            text,
            ", \"chunk\": [{}], \"chunks\": {}, \"stored_bytes\": {stored}, \"bytes\": {whole}",
            extent.join(", "),
            chunks.len()
        );
    }
    Ok(())
}

fn shape(space: &Dataspace, dims: &[u64]) -> String {
    match space {
        Dataspace::Null => "null".into(),
        _ => format!("[{}]", dims.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Writer of elements in row-major order as nested lists.
struct NestedListWriter {
    dims: Vec<u64>,
    null: bool,
    next: u64,
}

impl NestedListWriter {
    fn new(space: &Dataspace, dims: &[u64]) -> Self {
        Self { dims: dims.to_vec(), null: *space == Dataspace::Null, next: 0 }
    }

    fn add(&mut self, element: &str, text: &mut String) {
        let mut size = 1_u64;
        let mut opened = 0;
        for dim in self.dims.iter().rev() {
            size = size.saturating_mul(*dim);
            opened += usize::from(self.next.is_multiple_of(size));
        }
        if self.next > 0 {
            text.push_str(&"]".repeat(opened));
            text.push_str(", ");
        }
        text.push_str(&"[".repeat(opened));
        text.push_str(element);
        self.next += 1;
    }

    fn close(&self, text: &mut String) {
        if self.null {
            text.push_str("null");
        } else if self.next == 0 {
            text.push_str("[]");
        } else {
            text.push_str(&"]".repeat(self.dims.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_lists() {
        let check = |dims: &[u64], expected: &str| {
            let mut nested = NestedListWriter { dims: dims.to_vec(), null: false, next: 0 };
            let mut text = String::new();
            (0..dims.iter().product::<u64>()).for_each(|n| nested.add(&n.to_string(), &mut text));
            nested.close(&mut text);
            assert_eq!(text, expected);
        };
        check(&[], "0");
        check(&[3], "[0, 1, 2]");
        check(&[2, 1, 2], "[[[0, 1]], [[2, 3]]]");
        check(&[2, 0], "[]");
    }
}
