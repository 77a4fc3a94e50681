//! `hyperchunk dump`: objects in the format of `h5dump`.

use super::value::{Printer, Style};
use super::{DumpRequest, Values};
use crate::describe;
use hyperchunk::model::{
    ByteOrder, CharacterSet, Class, Dataspace, Datatype, Layout, LinkTarget, ObjectKind, ReferenceKind,
    StringPadding,
};
use hyperchunk::slabs::Steps;
use hyperchunk::walk::{Next, Visit, VisitedItem};
use hyperchunk::{Dataset, Error, Object};
use std::fmt::Write as _;

/// Prints an object and everything below it; returns the number of failures.
pub(super) fn print(request: &DumpRequest<'_>) -> Result<usize, Error> {
    let mut failures = 0;
    // Paths of the groups whose closing brace is not printed yet.
    let mut open: Vec<Vec<u8>> = Vec::new();
    crate::print_text(&format!("HDF5 \"{}\" {{\n", describe::name(request.target.as_bytes())));
    request.file.walk(request.object, request.path, &mut |visit: Visit<'_>| {
        let is_root = visit.link.is_none();
        while !is_root && open.last().is_some_and(|group| !is_below(visit.path, group)) {
            open.pop();
            crate::print_text(&format!("{}}}\n", "   ".repeat(open.len())));
        }
        let indent = "   ".repeat(open.len());
        let name = if is_root { visit.path } else { last_name(visit.path) };
        let name = describe::name(name);
        match &visit.found {
            VisitedItem::Object(object) => {
                let mut text = String::new();
                let result = match object.kind() {
                    ObjectKind::Group => {
                        let _ = writeln!(text, "{indent}GROUP \"{name}\" {{");
                        open.push(visit.path.to_vec());
                        attributes(object, &format!("{indent}   "), &mut text)
                    }
                    ObjectKind::Dataset => dataset(object, &name, &indent, &mut text, request),
                    ObjectKind::Datatype => object.datatype().and_then(|datatype| {
                        let _ =
                            writeln!(text, "{indent}DATATYPE \"{name}\" {}", type_text(&datatype, &indent));
                        attributes(object, &indent, &mut text)
                    }),
                };
                crate::print_text(&text);
                if let Err(error) = result {
                    failures += 1;
                    crate::print_message(&error);
                }
            }
            VisitedItem::Again(first) => {
                crate::print_text(&format!("{indent}HARDLINK \"{name}\" \"{}\"\n", describe::name(first)));
            }
            VisitedItem::Link => {
                crate::print_text(&link(&name, &indent, visit.link.map(|link| &link.target)))
            }
            VisitedItem::Broken(error) => {
                failures += 1;
                crate::print_message(error);
            }
        }
        Ok(Next::Enter)
    })?;
    while open.pop().is_some() {
        crate::print_text(&format!("{}}}\n", "   ".repeat(open.len())));
    }
    crate::print_text("}\n");
    Ok(failures)
}

fn is_below(path: &[u8], group: &[u8]) -> bool {
    group == b"/" || path.strip_prefix(group).is_some_and(|rest| rest.starts_with(b"/"))
}

fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

fn link(name: &str, indent: &str, target: Option<&LinkTarget>) -> String {
    match target {
        Some(LinkTarget::Soft(path)) => {
            format!("{indent}SOFTLINK \"{name}\" {{ LINKTARGET \"{}\" }}\n", describe::name(path.as_bytes()))
        }
        Some(LinkTarget::External { file, path }) => format!(
            "{indent}EXTERNAL_LINK \"{name}\" {{ TARGETFILE \"{}\" TARGETPATH \"{}\" }}\n",
            describe::name(file.as_bytes()),
            describe::name(path.as_bytes())
        ),
        Some(LinkTarget::User { class, .. }) => {
            format!("{indent}USERDEFINED_LINK \"{name}\" {{ LINKCLASS {class} }}\n")
        }
        _ => String::new(),
    }
}

fn attributes(object: &Object, indent: &str, text: &mut String) -> Result<(), Error> {
    for attribute in object.attributes()? {
        let _ = writeln!(text, "{indent}ATTRIBUTE \"{}\" {{", describe::name(attribute.name.as_bytes()));
        let _ =
            writeln!(text, "{indent}   DATATYPE {}", type_text(&attribute.datatype, &format!("{indent}   ")));
        let dims = attribute.dataspace.dims();
        let _ = writeln!(text, "{indent}   DATASPACE {}", space_text(&attribute.dataspace, dims));
        let mut printer = Printer::new(object.file(), &attribute.datatype, Style::Ddl)?;
        let elements = printer.elements(&attribute.data)?;
        let _ = writeln!(text, "{indent}   DATA {{");
        Rows::new(dims, None, &format!("{indent}   ")).add(&elements, text);
        let _ = writeln!(text, "{indent}   }}");
        let _ = writeln!(text, "{indent}}}");
    }
    Ok(())
}

fn dataset(
    object: &Object,
    name: &str,
    indent: &str,
    text: &mut String,
    request: &DumpRequest<'_>,
) -> Result<(), Error> {
    let dataset = object.dataset()?;
    let inner = format!("{indent}   ");
    let _ = writeln!(text, "{indent}DATASET \"{name}\" {{");
    let _ = writeln!(text, "{inner}DATATYPE {}", type_text(dataset.datatype(), &inner));
    let _ = writeln!(text, "{inner}DATASPACE {}", space_text(dataset.dataspace(), dataset.dims()));
    storage(&dataset, &inner, text);
    if let Values::UpTo(max_bytes) = request.values {
        let part = request.part.as_deref();
        let deeper = if part.is_some() { format!("{inner}   ") } else { inner.clone() };
        if let Some(axes) = part {
            let list = |name: &str, number: &dyn Fn(&Steps) -> u64| {
                let numbers: Vec<String> = axes.iter().map(|axis| number(axis).to_string()).collect();
                format!("{deeper}{name} ( {} );\n", numbers.join(", "))
            };
            let _ = writeln!(text, "{inner}SUBSET {{");
            text.push_str(&list("START", &|axis| axis.start));
            text.push_str(&list("STRIDE", &|axis| axis.step));
            text.push_str(&list("COUNT", &|axis| axis.count));
            text.push_str(&list("BLOCK", &|_| 1));
        }
        let _ = writeln!(text, "{deeper}DATA {{");
        crate::print_text(&std::mem::take(text));
        let mut rows = Rows::new(dataset.dims(), part, &deeper);
        super::each_slab(&dataset, Style::Ddl, (max_bytes, part), &mut |elements| {
            let mut lines = String::new();
            rows.add(elements, &mut lines);
            crate::print_text(&lines);
        })?;
        let _ = writeln!(text, "{deeper}}}");
        if part.is_some() {
            let _ = writeln!(text, "{inner}}}");
        }
    }
    attributes(object, &inner, text)?;
    let _ = writeln!(text, "{indent}}}");
    Ok(())
}

fn storage(dataset: &Dataset, indent: &str, text: &mut String) {
    if matches!(dataset.layout(), Layout::Contiguous { .. }) && dataset.external().is_empty() {
        return;
    }
    let _ = writeln!(text, "{indent}STORAGE_LAYOUT {{ {} }}", describe::layout(dataset));
}

/// Printer of elements in rows along the last axis, each row after the coordinates of its first element, as
/// `h5dump` prints them.
struct Rows<'a> {
    /// Number of elements along each axis.
    dims: Vec<u64>,
    /// Printed part of the dataset; `None` for the whole.
    part: Option<&'a [Steps]>,
    indent: &'a str,
    next: u64,
}

impl<'a> Rows<'a> {
    fn new(dims: &[u64], part: Option<&'a [Steps]>, indent: &'a str) -> Self {
        let dims = match part {
            Some(axes) => axes.iter().map(|axis| axis.count).collect(),
            None => dims.to_vec(),
        };
        Self { dims, part, indent, next: 0 }
    }

    fn add(&mut self, elements: &[String], text: &mut String) {
        let row = self.dims.last().copied().unwrap_or(1).clamp(1, 16);
        let mut left = elements;
        while !left.is_empty() {
            let in_row = self.next % self.dims.last().copied().unwrap_or(1).max(1);
            let until_end = self.dims.last().copied().unwrap_or(1).max(1) - in_row;
            let taken = usize::try_from(row.min(until_end)).unwrap_or(1).min(left.len());
            let (now, later) = left.split_at(taken);
            let _ = writeln!(
                text,
                "{}({}): {}{}",
                self.indent,
                self.place(),
                now.join(", "),
                if later.is_empty() { "" } else { "," }
            );
            self.next += taken as u64;
            left = later;
        }
    }

    /// Returns the coordinates of the next element.
    fn place(&self) -> String {
        if self.dims.is_empty() {
            return "0".into();
        }
        let mut rest = self.next;
        let mut place: Vec<String> = self
            .dims
            .iter()
            .enumerate()
            .rev()
            .map(|(axis, dim)| {
                let here = rest % dim.max(&1);
                rest /= dim.max(&1);
                match self.part.and_then(|axes| axes.get(axis)) {
                    Some(steps) => (steps.start + here * steps.step).to_string(),
                    None => here.to_string(),
                }
            })
            .collect();
        place.reverse();
        place.join(",")
    }
}

fn space_text(space: &Dataspace, dims: &[u64]) -> String {
    let list = |numbers: Vec<String>| format!("( {} )", numbers.join(", "));
    match space {
        Dataspace::Null => "NULL".into(),
        Dataspace::Scalar => "SCALAR".into(),
        Dataspace::Simple { max, .. } => {
            let max = max.iter().map(|max| max.map_or_else(|| "H5S_UNLIMITED".into(), |max| max.to_string()));
            format!(
                "SIMPLE {{ {} / {} }}",
                list(dims.iter().map(u64::to_string).collect()),
                list(max.collect())
            )
        }
    }
}

fn type_text(datatype: &Datatype, indent: &str) -> String {
    let bits = datatype.size.saturating_mul(8);
    let order = |order: ByteOrder| match order {
        ByteOrder::Little => "LE",
        ByteOrder::Big => "BE",
        ByteOrder::Vax => "VAX",
    };
    let inner = format!("{indent}   ");
    match &datatype.class {
        Class::Integer { order: o, signed, offset: 0, precision } if u64::from(*precision) == bits => {
            format!("H5T_STD_{}{bits}{}", if *signed { "I" } else { "U" }, order(*o))
        }
        Class::Bitfield { order: o, offset: 0, precision } if u64::from(*precision) == bits => {
            format!("H5T_STD_B{bits}{}", order(*o))
        }
        Class::Float(float)
            if *datatype == Datatype::ieee(u16::try_from(datatype.size).unwrap_or(0), float.order) =>
        {
            format!("H5T_IEEE_F{bits}{}", order(float.order))
        }
        Class::Integer { .. } | Class::Bitfield { .. } | Class::Float(_) => describe::datatype(datatype),
        Class::Time { order: o, .. } => format!("H5T_UNIX_D{bits}{}", order(*o)),
        Class::String { padding, charset } => string_text(&datatype.size.to_string(), *padding, *charset),
        Class::VlenString { padding, charset } => string_text("H5T_VARIABLE", *padding, *charset),
        Class::Opaque { tag } => {
            format!("H5T_OPAQUE {{ OPAQUE_TAG \"{}\"; }}", describe::name(tag.as_bytes()))
        }
        Class::Compound { members } => {
            let mut text = "H5T_COMPOUND {\n".to_owned();
            for member in members {
                let name = describe::name(member.name.as_bytes());
                let _ = writeln!(text, "{inner}{} \"{name}\";", type_text(&member.datatype, &inner));
            }
            text + indent + "}"
        }
        Class::Reference(kind) => {
            let kind = match kind {
                ReferenceKind::Object1 => "H5T_STD_REF_OBJECT",
                ReferenceKind::Region1 => "H5T_STD_REF_DSETREG",
                _ => "H5T_STD_REF",
            };
            format!("H5T_REFERENCE {{ {kind} }}")
        }
        Class::Enum { base, members } => {
            let mut text = format!("H5T_ENUM {{\n{inner}{};\n", type_text(base, &inner));
            for member in members {
                let hex: String = member.value.iter().map(|byte| format!("{byte:02x}")).collect();
                let value = describe::small_integer(base, &member.value).unwrap_or(hex);
                let _ = writeln!(text, "{inner}\"{}\" {value};", describe::name(member.name.as_bytes()));
            }
            text + indent + "}"
        }
        Class::Vlen { base } => format!("H5T_VLEN {{ {} }}", type_text(base, indent)),
        Class::Array { dims, base } => {
            let dims: String = dims.iter().map(|dim| format!("[{dim}]")).collect();
            format!("H5T_ARRAY {{ {dims} {} }}", type_text(base, indent))
        }
        Class::Complex { base } => format!("H5T_COMPLEX {{ {} }}", type_text(base, indent)),
    }
}

fn string_text(size: &str, padding: StringPadding, charset: CharacterSet) -> String {
    let padding = match padding {
        StringPadding::NullTerminated => "NULLTERM",
        StringPadding::NullPadded => "NULLPAD",
        StringPadding::SpacePadded => "SPACEPAD",
    };
    let charset = match charset {
        CharacterSet::Ascii => "ASCII",
        CharacterSet::Utf8 => "UTF8",
    };
    format!(
        "H5T_STRING {{ STRSIZE {size}; STRPAD H5T_STR_{padding}; CSET H5T_CSET_{charset}; CTYPE H5T_C_S1; }}"
    )
}
