//! C declarations of the structures that Lua and C++ functions use.

use super::{Compound, Datatype, ElementType, identifiers};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// Returns the structures for slots that are not numbers, in the common subset of C and C++, and the C type
/// of each slot's elements. They do not depend on the order of the slots: `dataset1_t` is always the type of
/// `Dataset1`.
pub fn declarations<'a>(slots: impl IntoIterator<Item = (&'a str, &'a Datatype)>) -> (String, Vec<String>) {
    declare(slots, false)
}

/// Returns the same for compilers with 4-byte addresses (WebAssembly's): a variable-length string takes
/// 8 bytes there, too.
pub(crate) fn declarations_for_wasm<'a>(
    slots: impl IntoIterator<Item = (&'a str, &'a Datatype)>,
) -> (String, Vec<String>) {
    declare(slots, true)
}

fn declare<'a>(
    slots: impl IntoIterator<Item = (&'a str, &'a Datatype)>,
    is_wasm: bool,
) -> (String, Vec<String>) {
    let slots: Vec<_> = slots.into_iter().collect();
    let mut order: Vec<usize> = (0..slots.len()).collect();
    order.sort_by_key(|&n| slots.get(n).map(|s| s.0));
    let sorted: Vec<_> = order.iter().filter_map(|&n| slots.get(n)).collect();
    let names: Vec<String> = identifiers(sorted.iter().map(|s| s.0))
        .into_iter()
        .filter_map(|all| all.into_iter().next())
        .map(|name| format!("{name}_t"))
        .collect();
    let mut writer = Writer { out: String::new(), taken: names.iter().cloned().collect(), is_wasm };
    let mut types = vec![String::new(); slots.len()];
    let mut known: HashMap<Datatype, String> = HashMap::new();
    for ((&(_, datatype), name), &index) in sorted.into_iter().zip(names).zip(&order) {
        let memory = datatype.in_memory();
        let c_type = match (datatype.flat_number(), known.get(&memory), datatype) {
            (Some(number), _, _) => number.c_type().to_owned(),
            // One structure under both names, so that whole elements can be assigned.
            (None, Some(same), _) => {
                writer.put(&format!("typedef {same} {name};"));
                name
            }
            (None, None, Datatype::Compound(compound)) => writer.structure(name, compound),
            (None, None, other) => {
                let (kind, shape) = writer.parts(&name, "value", other);
                writer.put(&format!("typedef struct {{ {kind} value{shape}; }} {name};"));
                name
            }
        };
        if datatype.flat_number().is_none() {
            known.entry(memory).or_insert_with(|| c_type.clone());
        }
        if let Some(to) = types.get_mut(index) {
            *to = c_type;
        }
    }
    (writer.out, types)
}

struct Writer {
    out: String,
    taken: HashSet<String>,
    is_wasm: bool,
}

impl Writer {
    fn put(&mut self, line: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.out, "{line}");
    }

    /// Declares a structure and returns its name.
    fn structure(&mut self, name: String, compound: &Compound) -> String {
        let mut text = "typedef struct {".to_owned();
        let all = identifiers(compound.members().iter().map(|m| m.name.as_str()));
        for (member, names) in compound.members().iter().zip(all) {
            let (Some(first), second) = (names.first(), names.get(1)) else { continue };
            let (kind, shape) = self.parts(&name, first, &member.datatype);
            // Writing to a string does not fail.
            let _ = match second {
                None => write!(text, " {kind} {first}{shape};"),
                // The union's size equals its alignment, so no padding member is needed.
                Some(second) => {
                    let shape = if shape.starts_with(';') { "" } else { &shape };
                    write!(text, " union {{ {kind} {first}{shape}; {kind} {second}{shape}; }};")
                }
            };
        }
        self.put(&format!("{text} }} {name};"));
        name
    }

    /// Returns the text before and after a member's name, and declares the structures that it needs.
    fn parts(&mut self, outer: &str, name: &str, datatype: &Datatype) -> (String, String) {
        match datatype {
            Datatype::Text(size) | Datatype::Utf8(size) => ("char".to_owned(), format!("[{size}]")),
            Datatype::Pointer if self.is_wasm => (
                "__attribute__((aligned(8))) char *".to_owned(),
                format!("; uint32_t hyperchunk_{name}_rest"),
            ),
            Datatype::Pointer => ("char *".to_owned(), String::new()),
            Datatype::Compound(compound) => {
                let stem = format!("{}_{name}", outer.strip_suffix("_t").unwrap_or(outer));
                let mut unique = format!("{stem}_t");
                let mut n = 2;
                while !self.taken.insert(unique.clone()) {
                    unique = format!("{stem}_{n}_t");
                    n += 1;
                }
                (self.structure(unique, compound), String::new())
            }
            Datatype::Array(base, dims) => {
                let (kind, shape) = self.parts(outer, name, base);
                let dims: String = dims.iter().map(|d| format!("[{d}]")).collect();
                (kind, format!("{dims}{shape}"))
            }
            number => (number.number().map_or("", ElementType::c_type).to_owned(), String::new()),
        }
    }
}
