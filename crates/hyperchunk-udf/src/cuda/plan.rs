//! Launch plan: the kernels to launch, their order and their arguments.

use super::expression::{Expression, List, Source};
use super::host::{Argument, Host, Shape, Statement};
use super::types::Number;
use super::value::Value;
use super::{Binding, Dataset, Form, Program, REGION_BYTES, find};
use crate::error::{Result, fail};
use crate::escape::escape;
use crate::stub::MAX_RANK;

/// Shared memory in bytes that every GPU provides a block.
const MAX_SHARED_BYTES: u64 = 48 << 10;

/// Launches of a source, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Launches.
    pub steps: Vec<Step>,
}

/// Launch of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the kernel in the program.
    pub kernel: usize,
    /// Number of blocks.
    pub grid: [u32; 3],
    /// Number of threads of each block.
    pub block: [u32; 3],
    /// Requested shared memory in bytes.
    pub shared: u32,
    /// Arguments of the kernel.
    pub arguments: Vec<KernelArgument>,
    /// Line of the source with the launch.
    pub line: u32,
}

/// Argument of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelArgument {
    /// Address of the elements of the dataset with this index.
    Address(usize),
    /// Number or structure, in the parameter's representation.
    Bytes(Vec<u8>),
}

impl Program {
    /// Returns the launches for blocks of these shapes. The first dataset is the output to compute.
    ///
    /// # Errors
    /// `Syntax`, with the line: a value of the source is undefined, or the launch exceeds a GPU's limits.
    pub fn plan(&self, datasets: &[Dataset<'_>]) -> Result<Plan> {
        let steps = match &self.form {
            Form::Kernel { threads, bindings, line } => {
                vec![plan_kernel(threads, bindings, *line, datasets)?]
            }
            Form::Host(host) => plan_host(host, datasets)?,
        };
        for step in &steps {
            step.check()?;
        }
        Ok(Plan { steps })
    }
}

impl Step {
    fn check(&self) -> Result<()> {
        let line = self.line;
        let threads: u64 = self.block.iter().map(|&n| u64::from(n)).product();
        if threads == 0 || threads > 1024 || self.block[2] > 64 {
            fail!(
                Syntax,
                "line {line}: a block of {:?} threads: a GPU allows 1 to 1024 in a block, and at most 64 along z",
                self.block
            )
        }
        let [x, y, z] = self.grid;
        if [x, y, z].contains(&0) || x > i32::MAX.cast_unsigned() || y > 65535 || z > 65535 {
            fail!(
                Syntax,
                "line {line}: a grid of {:?} blocks: a GPU allows 1 to 2147483647 along x, and 1 to 65535 along y and z; attaching with `--chunks` makes grids smaller",
                self.grid
            )
        }
        if u64::from(self.shared) > MAX_SHARED_BYTES {
            fail!(
                Syntax,
                "line {line}: {} bytes of shared memory are too many: every GPU has {MAX_SHARED_BYTES}",
                self.shared
            )
        }
        Ok(())
    }
}

/// Plans a launch with one thread for each element of the output, in a grid of one dimension or, if `threads`
/// has two or three numbers, over the output's dimensions.
fn plan_kernel(threads: &[u32], bindings: &[Binding], line: u32, datasets: &[Dataset<'_>]) -> Result<Step> {
    let mut outputs = datasets.iter().filter(|d| d.output);
    let Some(output) = outputs.next() else { fail!(Syntax, "line {line}: the kernel has no output") };
    if let Some(other) = outputs.find(|d| d.dims != output.dims) {
        fail!(
            Unsupported,
            "line {line}: the outputs {:?} and {:?} have different shapes; write dynamic_dataset with the launches",
            escape(output.name, 80),
            escape(other.name, 80)
        )
    }
    let count = output.dims.iter().try_fold(1u64, |a, &d| a.checked_mul(d));
    let Some(count) = count else { fail!(Limit, "line {line}: too many elements") };
    let block = |n: usize| threads.get(n).copied().unwrap_or(1);
    let block = [block(0), block(1), block(2)];
    let extents = match threads.len() {
        0 | 1 => [count, 1, 1],
        _ => {
            let mut from_last = output.dims.iter().rev().copied();
            let (Some(x), Some(y)) = (from_last.next(), from_last.next()) else {
                fail!(
                    Syntax,
                    "line {line}: THREADS has {} numbers, and {:?} has one dimension",
                    threads.len(),
                    escape(output.name, 80)
                )
            };
            [x, y, from_last.product()]
        }
    };
    let mut grid = [0; 3];
    for ((to, extent), threads) in grid.iter_mut().zip(extents).zip(block) {
        // A value that does not fit also exceeds the limits of a grid.
        *to = u32::try_from(extent.div_ceil(u64::from(threads.max(1)))).unwrap_or(u32::MAX);
    }
    let arguments = bindings.iter().map(|binding| match binding {
        Binding::Data(name) => Ok(KernelArgument::Address(find(datasets, name)?.0)),
        Binding::Region(name) => Ok(KernelArgument::Bytes(region(find(datasets, name)?.1))),
        Binding::Count(number) => Ok(KernelArgument::Bytes(encode_count(count, *number, line)?)),
    });
    Ok(Step { kernel: 0, grid, block, shared: 0, arguments: arguments.collect::<Result<_>>()?, line })
}

fn encode_count(count: u64, number: Number, line: u32) -> Result<Vec<u8>> {
    let value = Value::integer(Number::UnsignedLong, i128::from(count));
    let fitting = value.to(number, line)?;
    if fitting.whole() != Some(count) {
        fail!(
            Syntax,
            "line {line}: there are {count} elements, too many for `{} count`; write size_t count",
            number.spelling()
        )
    }
    Ok(fitting.bytes())
}

/// Encodes rank, shape and offset as the prelude's structure.
fn region(dataset: &Dataset<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REGION_BYTES);
    bytes.extend_from_slice(&(dataset.dims.len() as u64).to_le_bytes());
    for list in [dataset.dims, dataset.start] {
        for n in 0..MAX_RANK {
            bytes.extend_from_slice(&list.get(n).copied().unwrap_or(0).to_le_bytes());
        }
    }
    bytes
}

/// Values during evaluation of `dynamic_dataset`.
struct Values<'a> {
    datasets: &'a [Dataset<'a>],
    numbers: Vec<Option<Value>>,
    shapes: Vec<Option<[u32; 3]>>,
}

impl Source for Values<'_> {
    fn list(&self, list: &List) -> Result<&[u64]> {
        let first = self.datasets.first();
        Ok(match list {
            List::Dims(name) => find(self.datasets, name)?.1.dims,
            List::Start(name) => find(self.datasets, name)?.1.start,
            List::Chunk => first.map_or(&[], |d| d.dims),
            List::Offset => first.map_or(&[], |d| d.start),
        })
    }

    fn number(&self, variable: usize) -> Option<Value> {
        self.numbers.get(variable).copied().flatten()
    }

    fn dim3(&self, variable: usize) -> Option<[u32; 3]> {
        self.shapes.get(variable).copied().flatten()
    }
}

impl Values<'_> {
    fn extent(&self, expression: &Expression) -> Result<u32> {
        let line = expression.line();
        let value = expression.value(self)?.to(Number::Long, line)?;
        match value.whole().and_then(|n| u32::try_from(n).ok()) {
            Some(extent) => Ok(extent),
            None => {
                fail!(Syntax, "line {line}: a dim3 has numbers from 0 to 4294967295, got {value:?}")
            }
        }
    }

    fn shape(&self, shape: &Shape, line: u32) -> Result<[u32; 3]> {
        let parts = match shape {
            Shape::Variable(index) => match self.dim3(*index) {
                Some(shape) => return Ok(shape),
                None => fail!(Syntax, "line {line}: a dim3 has no value yet"),
            },
            Shape::Parts(parts) => parts,
        };
        let mut result = [1; 3];
        for (to, part) in result.iter_mut().zip(parts) {
            *to = self.extent(part)?;
        }
        Ok(result)
    }
}

fn plan_host(host: &Host, datasets: &[Dataset<'_>]) -> Result<Vec<Step>> {
    let mut values =
        Values { datasets, numbers: vec![None; host.variables], shapes: vec![None; host.variables] };
    let mut steps = Vec::new();
    for statement in &host.statements {
        match statement {
            Statement::Number(index, expression) => {
                let value = expression.value(&values)?;
                if let Some(to) = values.numbers.get_mut(*index) {
                    *to = Some(value);
                }
            }
            Statement::Dim3(index, shape) => {
                let shape = values.shape(shape, 0)?;
                if let Some(to) = values.shapes.get_mut(*index) {
                    *to = Some(shape);
                }
            }
            Statement::Part(index, part, expression) => {
                let extent = values.extent(expression)?;
                if let Some(to) = values.shapes.get_mut(*index).and_then(Option::as_mut)
                    && let Some(to) = to.get_mut(*part)
                {
                    *to = extent;
                }
            }
            Statement::Launch(launch) => {
                let line = launch.line;
                let shared = match &launch.shared {
                    Some(expression) => values.extent(expression)?,
                    None => 0,
                };
                let arguments = launch.arguments.iter().map(|argument| match argument {
                    Argument::Data(name) => Ok(KernelArgument::Address(find(datasets, name)?.0)),
                    Argument::Number(expression) => {
                        Ok(KernelArgument::Bytes(expression.value(&values)?.bytes()))
                    }
                });
                steps.push(Step {
                    kernel: launch.instance,
                    grid: values.shape(&launch.grid, line)?,
                    block: values.shape(&launch.block, line)?,
                    shared,
                    arguments: arguments.collect::<Result<_>>()?,
                    line,
                });
            }
        }
    }
    Ok(steps)
}
