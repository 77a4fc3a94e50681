//! Resolution of a function's datasets to inputs and outputs.

use super::{GRAMMAR, OutputSpec, check_extent, check_output, is_single, normal_name, resolution};
use crate::datatype::Datatype;
use crate::error::{Result, fail};
use crate::escape::escape;
use crate::expression::output_kind;
use crate::scan::Scan;
use hyperchunk_expression::{Expression, Kind};
use std::collections::{HashMap, HashSet};

/// Dataset that a function reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputInfo {
    /// Name; in [`FunctionDatasets`] as the source spells it.
    pub name: String,
    /// Dimensions.
    pub dims: Vec<u64>,
    /// Element type, as a function sees it.
    pub datatype: Datatype,
    /// Element type in the file, which an output copies.
    pub stored: Datatype,
    /// Name of the attribute, if it is one; the input's name is `object@attribute` then.
    pub attribute: Option<String>,
}

/// Dataset that a function computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputInfo {
    /// Name as the source spells it.
    pub name: String,
    /// Dimensions.
    pub dims: Vec<u64>,
    /// Element type.
    pub datatype: Datatype,
}

/// Datasets of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionDatasets {
    /// Inputs, in the order of the source.
    pub inputs: Vec<InputInfo>,
    /// Outputs: in the order of the descriptions, or of the source if there were none.
    pub outputs: Vec<OutputInfo>,
}

/// Divides the source's datasets into inputs and outputs.
///
/// `lookup` returns the file's dataset of a name, or `None`. An existing dataset is an input unless a
/// description names it. Without any description, the missing ones are the outputs. Dimensions and type come
/// from the description, or else from the inputs if these agree. Spellings that differ only in slashes are
/// one dataset, with the name that the source uses first.
///
/// # Errors
/// - `Syntax`: a dataset that is neither in the file nor described, a description of one that the source does
///   not name or that is given twice, no output, or no inputs to copy dimensions and type from
/// - any error of `lookup`
pub fn resolve(
    scan: &Scan,
    specs: &[OutputSpec],
    lookup: &mut dyn FnMut(&str) -> Result<Option<InputInfo>>,
) -> Result<FunctionDatasets> {
    let described = index(specs)?;
    let mut spelling = HashMap::new();
    let mut inputs = Vec::new();
    let mut missing = Vec::new();
    for name in &scan.names {
        let key = normal_name(name);
        let is_output = described.contains(&key);
        if spelling.contains_key(&key) {
            continue;
        }
        spelling.insert(key, name);
        if is_output {
            continue;
        }
        match lookup(name).map_err(|e| e.about(name))? {
            Some(found) => inputs.push(InputInfo { name: name.clone(), ..found }),
            None => missing.push(name),
        }
    }
    let mut outputs = Vec::new();
    if specs.is_empty() {
        for name in missing {
            outputs.push(output(name, None, None, &inputs)?);
        }
    } else if let Some(name) = missing.first() {
        fail!(
            Syntax,
            "dataset {:?} is neither in the file nor described as output; {GRAMMAR}",
            escape(name, 200)
        )
    }
    for spec in specs {
        // A source that names no dataset, such as one that only prints, can be attached under any name.
        let own = scan.names.is_empty().then_some(spec.name.as_str());
        let Some(name) = spelling.get(&normal_name(&spec.name)).map(|n| n.as_str()).or(own) else {
            fail!(
                Syntax,
                "the source does not use the described dataset {:?}; it uses {}",
                escape(&spec.name, 200),
                list(&scan.names, |n| format!("{:?}", escape(n, 100)))
            )
        };
        outputs.push(output(name, spec.dims.as_deref(), spec.datatype.as_ref(), &inputs)?);
    }
    if outputs.is_empty() {
        no_output(scan)?;
    }
    Ok(FunctionDatasets { inputs, outputs })
}

/// Input of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionInput {
    /// Entry in the record.
    pub info: InputInfo,
    /// Kind of its values in the expression (a bool is stored as an integer); `None` if they are not numbers.
    pub kind: Option<Kind>,
}

/// Resolves the datasets of an expression: its one output is the described one; all datasets that it names
/// are inputs.
///
/// Missing parts of the description are inferred: the type from the inputs' types by NumPy's rules, the shape
/// from the inputs with more than one element, which must have one shape.
///
/// # Errors
/// - `Syntax`: not one description, an expression that names its own output or a missing dataset, inputs of
///   different shapes, no inputs to infer the shape from, or an error of [`Expression::infer`]
/// - any error of `lookup`
pub fn resolve_expression(
    expression: &Expression,
    specs: &[OutputSpec],
    lookup: &mut dyn FnMut(&str) -> Result<Option<ExpressionInput>>,
) -> Result<FunctionDatasets> {
    let [spec] = specs else {
        fail!(
            Syntax,
            "an expression computes one dataset; describe exactly one, as in NDVI or NDVI:1000x1000:float"
        )
    };
    let shown = escape(&spec.name, 200);
    let own = normal_name(&spec.name);
    for constant in expression.constants() {
        if lookup(constant)?.is_some() {
            fail!(
                Syntax,
                "{constant} is a number in expressions, and a dataset in this file; write \"{constant}\" in quotes for the \
                 dataset, or a decimal number"
            )
        }
    }
    let mut inputs: Vec<InputInfo> = Vec::new();
    let mut kinds = Vec::new();
    let mut spellings: HashSet<String> = HashSet::new();
    for name in expression.inputs() {
        if normal_name(name) == own {
            fail!(Syntax, "the expression reads {shown:?}, which it computes")
        }
        if !spellings.insert(normal_name(name)) {
            fail!(Syntax, "dataset {:?} is spelt in two ways; use one", escape(name, 200))
        }
        let Some(found) = lookup(name).map_err(|e| e.about(name))? else {
            fail!(Syntax, "there is no dataset {:?} in the file", escape(name, 200))
        };
        let Some(kind) = found.kind else {
            fail!(
                Unsupported,
                "input {:?} is not a number, and expressions compute with numbers",
                escape(name, 100)
            )
        };
        if found.info.attribute.is_some() && !is_single(&found.info.dims) {
            fail!(
                Unsupported,
                "attribute {:?} has {} elements; expressions read attributes of one element",
                escape(name, 100),
                resolution(&found.info.dims)
            )
        }
        kinds.push(kind);
        inputs.push(InputInfo { name: name.clone(), ..found.info });
    }
    let datatype = match &spec.datatype {
        None => expression.infer(&kinds)?.into(),
        Some(datatype) => datatype.clone(),
    };
    let Some(kind) = output_kind(&datatype) else {
        fail!(Unsupported, "dataset {shown:?}: expressions compute numbers, not strings or compounds")
    };
    // Reports expressions that cannot be computed.
    expression.compile(&kinds, kind)?;
    let many: Vec<&InputInfo> = inputs.iter().filter(|i| !is_single(&i.dims)).collect();
    let largest = many
        .first()
        .copied()
        .or(inputs.iter().filter(|i| i.attribute.is_none()).max_by_key(|i| i.dims.len()));
    let dims = match (&spec.dims, largest) {
        (Some(dims), _) => dims.clone(),
        (None, Some(first)) if first.dims.is_empty() => vec![1],
        (None, Some(first)) => first.dims.clone(),
        (None, None) => fail!(
            Syntax,
            "dataset {shown:?} has no inputs to copy dimensions from; describe it as NAME:RESOLUTION:TYPE, for example \
             {shown}:1000x1000:float"
        ),
    };
    if let Some(other) = many.iter().find(|i| i.dims != dims) {
        fail!(
            Syntax,
            "input {:?} has {} elements and the output {}; inputs have the output's shape, or one element",
            escape(&other.name, 100),
            resolution(&other.dims),
            resolution(&dims)
        )
    }
    check_extent(&dims, &datatype).map_err(|e| e.about(&spec.name))?;
    let outputs = vec![OutputInfo { name: spec.name.clone(), dims, datatype }];
    Ok(FunctionDatasets { inputs, outputs })
}

/// Returns the described names.
fn index(specs: &[OutputSpec]) -> Result<HashSet<String>> {
    let mut described = HashSet::new();
    for spec in specs {
        if !described.insert(normal_name(&spec.name)) {
            fail!(Syntax, "dataset {:?} is described twice", escape(&spec.name, 200))
        }
    }
    Ok(described)
}

fn no_output(scan: &Scan) -> Result<()> {
    if scan.names.is_empty() {
        fail!(
            Syntax,
            "the source names no dataset; it needs at least lib.getData of the one that it computes"
        )
    }
    fail!(
        Syntax,
        "there is nothing to compute: every dataset that the source uses ({}) is in the file already; to replace one, \
         give its name as a description",
        list(&scan.names, |n| format!("{:?}", escape(n, 100)))
    )
}

/// Returns an output from its description, with missing parts copied from the inputs.
fn output(
    name: &str,
    dims: Option<&[u64]>,
    datatype: Option<&Datatype>,
    inputs: &[InputInfo],
) -> Result<OutputInfo> {
    let shown = escape(name, 200);
    let (dims, datatype) = match (dims, datatype) {
        (Some(dims), Some(datatype)) => (dims, datatype),
        (dims, datatype) => {
            let describe =
                format!("describe it as NAME:RESOLUTION:TYPE, for example {shown}:1000x1000:float");
            // Attributes do not determine shapes.
            let inputs: Vec<&InputInfo> = inputs.iter().filter(|i| i.attribute.is_none()).collect();
            let Some(first) = inputs.first() else {
                fail!(Syntax, "dataset {shown:?} has no inputs to copy dimensions and type from; {describe}")
            };
            // Floats of 16 and of 32 bits are both floats in memory.
            let alike = |of: fn(&InputInfo) -> &Datatype| {
                inputs.iter().all(|i| i.dims == first.dims && of(i) == of(first)).then(|| of(first))
            };
            let Some(copied) = alike(|i| &i.stored).or_else(|| alike(|i| &i.datatype)) else {
                let all = list(&inputs, |i| {
                    format!(
                        "{}:{}:{}",
                        escape(&i.name, 100),
                        resolution(&i.dims),
                        escape(&i.stored.name(), 200)
                    )
                });
                fail!(
                    Syntax,
                    "the dimensions and type of dataset {shown:?} cannot be copied, since the inputs differ ({all}); \
                     {describe}"
                )
            };
            (dims.unwrap_or(&first.dims), datatype.unwrap_or(copied))
        }
    };
    check_extent(dims, datatype).and_then(|_| check_output(datatype)).map_err(|e| e.about(name))?;
    Ok(OutputInfo { name: name.to_owned(), dims: dims.to_vec(), datatype: datatype.clone() })
}

/// Lists up to 12 items for a message.
fn list<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    let mut text: Vec<_> = items.iter().take(12).map(show).collect();
    if items.len() > text.len() {
        text.push(format!("and {} more", items.len() - text.len()));
    }
    if text.is_empty() { "none".to_owned() } else { text.join(", ") }
}
