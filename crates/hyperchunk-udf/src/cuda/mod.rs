//! CUDA sources: kernels and their launches.
//!
//! A source is either a single kernel, whose parameters are bound to datasets by their names or by `DATASET`,
//! or has HDF5-UDF's form: kernels and a `dynamic_dataset` that launches them, which is translated and never
//! runs. Both become a [`Plan`], made again from the source for each block. The kernels are compiled to PTX
//! when the function is attached ([`Program::assemble`]); the compiler checks that their parameters are as
//! parsed here.
//!
//! No code of a source runs in this module, and every source ends in a plan or an error: sizes, depths and
//! counts are bounded.

mod cursor;
mod expression;
mod host;
mod kernel;
mod lex;
mod plan;
mod ptx;
#[cfg(test)]
mod tests;
mod types;
mod value;
mod version;

pub use plan::{KernelArgument, Plan, Step};
pub use ptx::{Ptx, is_target, stored, target};

use crate::datatype::{Datatype, declarations};
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::shape::normal_name;
use host::{Host, Instance};
use kernel::{Base, Kernel, Type};
use std::ops::Range;
use types::Number;

/// Text before every source.
const PRELUDE: &str = include_str!("prelude.cuh");
/// Name of the source for the compiler.
pub const SOURCE: &str = "udf.cu";
/// File with the names of the kernels, one a line, in the compiler's folder.
pub const KERNELS: &str = "udf.kernels";
/// Name of the result in the folder.
pub const RESULT: &str = "udf.ptx";
/// Options of the compiler, apart from the architecture. Multiply and add are rounded separately, as on a
/// CPU.
pub const OPTIONS: [&str; 3] = ["--std=c++17", "--fmad=false", "--device-as-default-execution-space"];
/// Size of the prelude's `Region` in bytes.
const REGION_BYTES: usize = (1 + 2 * crate::stub::MAX_RANK) * 8;
/// Size of a kernel's parameters in bytes that every GPU supports.
const MAX_PARAMETER_BYTES: usize = 4096;
/// Default number of threads of a block.
const DEFAULT_THREADS: u32 = 256;

/// Block of a dataset, as a kernel sees it.
#[derive(Clone, Copy, Debug)]
pub struct Dataset<'a> {
    /// Name.
    pub name: &'a str,
    /// Datatype of the elements.
    pub datatype: &'a Datatype,
    /// Shape of the block.
    pub dims: &'a [u64],
    /// Offset of the block in the dataset.
    pub start: &'a [u64],
    /// Set for outputs.
    pub output: bool,
}

/// Parsed source.
#[derive(Clone, Debug)]
pub struct Program {
    form: Form,
    instances: Vec<Instance>,
    names: Vec<String>,
    /// Byte ranges removed for the compiler.
    dropped: Vec<Range<usize>>,
}

#[derive(Clone, Debug)]
enum Form {
    /// Single kernel.
    Kernel { threads: Vec<u32>, bindings: Vec<Binding>, line: u32 },
    /// `dynamic_dataset` with launches.
    Host(Host),
}

/// Binding of a single kernel's parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Binding {
    Data(String),
    Region(String),
    /// Number of elements of the output's block.
    Count(Number),
}

impl Program {
    /// Parses a source.
    ///
    /// # Errors
    /// `Syntax` or `Unsupported`, with the line and what to write instead; `Limit`.
    pub fn parse(source: &str) -> Result<Self> {
        let lexed = lex::lex(source)?;
        let found = kernel::find(&lexed.tokens)?;
        let mut dropped = lexed.dropped;
        let Some(body) = found.host else {
            return Ok(Program { dropped, ..single_kernel_program(&found.kernels)? });
        };
        if let (Some(first), Some(last)) = (body.first(), body.last()) {
            dropped.push(first.start..last.end);
        }
        let host = host::translate(body, &found.kernels)?;
        let (instances, names) = (host.instances.clone(), host.names.clone());
        for instance in &instances {
            check_size(instance)?;
        }
        Ok(Program { form: Form::Host(host), instances, names, dropped })
    }

    /// Returns the names of its datasets, in order of first use.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the kernels, as named in the source.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.instances.iter().map(|instance| instance.expression.as_str())
    }

    /// Checks that the elements have the types that the source assumes.
    ///
    /// # Errors
    /// `Syntax`, with the line and both types; `Unsupported` for types that a GPU cannot get.
    pub fn check(&self, datasets: &[Dataset<'_>]) -> Result<()> {
        if let Some(dataset) = datasets.iter().find(|d| d.datatype.has_pointers()) {
            fail!(
                Unsupported,
                "{:?} has strings of variable length, which cannot go to a GPU; read it in another language",
                escape(dataset.name, 80)
            )
        }
        let (_, types) = declarations(datasets.iter().map(|d| (d.name, d.datatype)));
        let one = |name: &str, base: &Base, line: u32| -> Result<usize> {
            let (index, dataset) = find(datasets, name)?;
            let declared = types.get(index).map_or("", String::as_str);
            let fits = match (base, dataset.datatype.flat_number()) {
                (Base::Number(Number::Bool), _) => *dataset.datatype == Datatype::Bool,
                (Base::Number(number), Some(element)) => number.element() == Some(element),
                (Base::Named(name), None) => name == declared,
                _ => false,
            };
            if !fits {
                fail!(
                    Syntax,
                    "line {line}: {:?} has elements of type {} ({declared} in C++), but the source declares {}",
                    escape(name, 80),
                    escape(&dataset.datatype.name(), 200),
                    escape(&base.spelling(), 80)
                )
            }
            Ok(index)
        };
        match &self.form {
            Form::Host(host) => {
                for (name, base, line) in &host.data {
                    one(name, base, *line)?;
                }
            }
            Form::Kernel { bindings, line, .. } => {
                let parameters = self.instances.iter().flat_map(|i| &i.parameters);
                for (binding, parameter) in bindings.iter().zip(parameters) {
                    let Binding::Data(name) = binding else { continue };
                    let index = one(name, &parameter.base, *line)?;
                    let output = datasets.get(index).is_some_and(|d| d.output);
                    let shown = escape(name, 80);
                    match (output, parameter.constant) {
                        (true, true) => fail!(
                            Syntax,
                            "line {line}: {shown:?} is an output, and `{}` cannot be written: leave out const, or is the name of an input misspelled?",
                            parameter.spelling()
                        ),
                        (false, false) => fail!(
                            Syntax,
                            "line {line}: {shown:?} is an input: write `const {}`",
                            parameter.spelling()
                        ),
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the text to compile for `source`, from which this program was parsed, with these datasets.
    pub fn assemble<'a>(
        &self,
        source: &str,
        slots: impl IntoIterator<Item = (&'a str, &'a Datatype)>,
    ) -> String {
        let slots: Vec<_> = slots.into_iter().collect();
        let structures = crate::cpp::with_sizes(&slots, declarations(slots.iter().copied()));
        let mut text = format!("{PRELUDE}\n{structures}\n#line 1 \"{SOURCE}\"\n");
        let mut at = 0;
        for range in &self.sorted() {
            text.push_str(source.get(at..range.start).unwrap_or_default());
            // The rest keeps its line numbers.
            let inside = source.get(range.clone()).unwrap_or_default();
            text.push_str(if inside.starts_with('{') { ";" } else { "" });
            text.extend(inside.chars().filter(|&c| c == '\n'));
            at = range.end;
        }
        text.push_str(source.get(at..).unwrap_or_default());
        text.push_str("\n#line 1 \"hyperchunk\"\n");
        for instance in &self.instances {
            let parameters: Vec<_> = instance.parameters.iter().map(Type::spelling).collect();
            text.push_str(&format!(
                "static_assert(hyperchunk::same<decltype(&{}), void (*)({})>::value, \"the compiler sees other parameters of a kernel: write their types without macros and names of your own\");\n",
                instance.expression,
                parameters.join(", ")
            ));
        }
        text
    }

    fn sorted(&self) -> Vec<Range<usize>> {
        let mut ranges = self.dropped.clone();
        ranges.sort_by_key(|r| r.start);
        // Headers within a range that is removed anyway.
        let mut end = 0;
        ranges.retain(|r| {
            let outside = r.start >= end;
            end = end.max(r.end);
            outside
        });
        ranges
    }
}

/// Returns the dataset called `name`, and its index.
fn find<'d, 'a>(datasets: &'d [Dataset<'a>], name: &str) -> Result<(usize, &'d Dataset<'a>)> {
    let wanted = normal_name(name);
    let found = datasets.iter().enumerate().find(|(_, d)| normal_name(d.name) == wanted);
    found.ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            format!("the source uses {:?}, which is not in the record", escape(name, 80)),
        )
    })
}

/// Returns the size of a kernel's parameter in bytes.
fn parameter_bytes(parameter: &Type) -> usize {
    match (&parameter.base, parameter.pointer) {
        (_, true) => 8,
        (Base::Number(number), false) => number.size(),
        (Base::Region, false) => REGION_BYTES,
        // Rejected by the parser.
        (Base::Named(_), false) => 0,
    }
}

fn check_size(instance: &Instance) -> Result<()> {
    let name = escape(&instance.expression, 80);
    // Each may need padding for its alignment.
    let bytes: usize = instance.parameters.iter().map(|p| parameter_bytes(p).next_multiple_of(8)).sum();
    if bytes > MAX_PARAMETER_BYTES {
        fail!(
            Limit,
            "line {}: the parameters of {name} have {bytes} bytes, over the limit of {MAX_PARAMETER_BYTES}; a Region has {REGION_BYTES}",
            instance.line
        )
    }
    Ok(())
}

/// Makes the program of a source without `dynamic_dataset`: its kernel with the bindings.
fn single_kernel_program(kernels: &[Kernel]) -> Result<Program> {
    let kernel = match kernels {
        [kernel] => kernel,
        [] => fail!(
            Syntax,
            "the source has no kernel: write `__global__ void ndvi(const float *Red, const float *NIR, float *NDVI, size_t count) {{ … }}`, or dynamic_dataset with launches"
        ),
        [first, second, ..] => fail!(
            Syntax,
            "line {}: expected one kernel in a source without dynamic_dataset, got {} and {}; make functions that a kernel calls `__device__`, or write dynamic_dataset with the launches",
            second.line,
            escape(&first.name, 80),
            escape(&second.name, 80)
        ),
    };
    let name = escape(&kernel.name, 80);
    if !kernel.template.is_empty() {
        fail!(
            Syntax,
            "line {}: {name} is a template without arguments; write its types, or dynamic_dataset with the launch",
            kernel.line
        )
    }
    let (mut bindings, mut names) = (Vec::new(), Vec::<String>::new());
    for parameter in &kernel.parameters {
        let line = parameter.line;
        let own = parameter.name.as_deref();
        let dataset = |own: Option<&str>| match (&parameter.dataset, own) {
            (Some(name), _) => Ok(name.clone()),
            (None, Some(name)) => Ok(name.to_owned()),
            (None, None) => fail!(
                Syntax,
                "line {line}: a parameter of {name} has no name; give it that of a dataset, or write DATASET(\"bands/NIR\") before it"
            ),
        };
        let binding = match (&parameter.datatype.base, parameter.datatype.pointer) {
            (Base::Number(_) | Base::Named(_), true) => Binding::Data(dataset(own)?),
            (Base::Region, false) => {
                let of = own.and_then(|name| name.strip_suffix("_region"));
                if of.is_none() && parameter.dataset.is_none() {
                    fail!(
                        Syntax,
                        "line {line}: call the Region of NIR NIR_region, or write DATASET(\"NIR\") before it"
                    )
                }
                Binding::Region(dataset(of)?)
            }
            (Base::Number(number), false) if own == Some("count") && !number.is_float() => {
                Binding::Count(*number)
            }
            _ => fail!(
                Syntax,
                "line {line}: {} of {name} is bound to no dataset: a parameter is `const float *NIR` (an input), `float *NDVI` (an output), `size_t count` or `Region NIR_region`; other numbers need dynamic_dataset",
                own.map_or("a parameter".to_owned(), |own| escape(own, 80))
            ),
        };
        if let Binding::Data(name) | Binding::Region(name) = &binding
            && !names.contains(name)
        {
            names.push(name.clone());
        }
        bindings.push(binding);
    }
    let instance = Instance {
        expression: kernel.name.clone(),
        parameters: kernel.parameters.iter().map(|p| p.datatype.clone()).collect(),
        line: kernel.line,
    };
    check_size(&instance)?;
    let threads = if kernel.threads.is_empty() { vec![DEFAULT_THREADS] } else { kernel.threads.clone() };
    let form = Form::Kernel { threads, bindings, line: instance.line };
    Ok(Program { form, instances: vec![instance], names, dropped: Vec::new() })
}
