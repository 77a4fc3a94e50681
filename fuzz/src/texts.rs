//! What is fuzzed of live datasets: texts of strangers that are understood in the reading process.

use hyperchunk_expression::{ErrorKind, Expression, InputBytes, Kind, MAX_INPUTS, Scratch};
use hyperchunk_udf::cuda::{Dataset, KernelArgument, Program};
use hyperchunk_udf::datatype::{Datatype, ElementType};
use hyperchunk_udf::record::Record;
use hyperchunk_udf::spec::OutputSpec;
use std::collections::HashSet;

/// A function that is fuzzed.
type Target = fn(&[u8]);

/// All of them by name.
pub const TEXTS: &[(&str, Target)] =
    &[("expression", expression), ("datatype", datatype), ("record", record), ("cuda", cuda)];

/// The most elements that are computed.
const MAX_ELEMENTS: usize = 5000;

/// An expression, and behind a zero how it is computed: the kind of the output, how many elements, then a byte for each input (its kind,
/// and whether it has one element), then what the inputs hold.
///
/// Whatever is understood computes, or fails with an error that is for that; and the same elements come out however they are
/// cut into pieces and wherever they lie.
pub fn expression(data: &[u8]) {
    let (text, rest) = data.iter().position(|&b| b == 0).map_or((data, &[][..]), |at| data.split_at(at));
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(expression) = Expression::parse(text) else { return };
    let names: HashSet<_> = expression.inputs().iter().collect();
    assert!(names.len() == expression.inputs().len() && names.len() <= MAX_INPUTS, "names");
    let byte = |at: usize| usize::from(rest.get(at + 1).copied().unwrap_or(at as u8));
    let kinds: Vec<Kind> = (0..names.len()).map(|n| Kind::ALL[byte(n + 2) / 2 % Kind::ALL.len()]).collect();
    let output = Kind::ALL[byte(0) % Kind::ALL.len()];
    let inferred = expression.infer(&kinds);
    let compiled = expression.compile(&kinds, output);
    // A type that nobody asked for is refused only with the expression.
    assert_eq!(inferred.is_ok(), compiled.is_ok(), "{text:?}");
    let Ok(program) = compiled else { return };
    let count = (byte(1) * 23 + 1) % MAX_ELEMENTS;
    let content = rest.get(2 + names.len()..).filter(|c| !c.is_empty()).unwrap_or(&[7, 0, 255, 128]);
    let stored: Vec<Vec<u8>> = kinds
        .iter()
        .enumerate()
        .map(|(n, kind)| content.iter().copied().cycle().skip(n).take(kind.size() * count).collect())
        .collect();
    let single = |n: usize| byte(n + 2) % 2 == 1;
    // The elements from `first` on, in memory that begins `skip` bytes behind a multiple of 8.
    let compute = |first: usize, count: usize, skip: usize| {
        let moved: Vec<Vec<u8>> = stored
            .iter()
            .zip(&kinds)
            .map(|(all, kind)| {
                let part = &all[first * kind.size()..(first + count) * kind.size()];
                std::iter::repeat_n(0, skip).chain(part.iter().copied()).collect()
            })
            .collect();
        let inputs: Vec<InputBytes<'_>> = kinds
            .iter()
            .enumerate()
            .map(|(n, kind)| match single(n) {
                true => InputBytes::One(&stored[n][..kind.size()]),
                false => InputBytes::Each(&moved[n][skip..]),
            })
            .collect();
        let mut out = vec![0xa5; skip + count * output.size()];
        match program.evaluate(&inputs, &mut out[skip..], &mut Scratch::default()) {
            Ok(()) => Some(out.split_off(skip)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Failed, "{text:?}: {error}");
                None
            }
        }
    };
    let whole = compute(0, count, 0);
    let half = count / 2;
    let parts = compute(0, half, 3).zip(compute(half, count - half, 1)).map(|(a, b)| [a, b].concat());
    assert_eq!(whole, parts, "{text:?} {kinds:?} -> {output:?}, {count} elements");
    if output == Kind::Bool {
        assert!(whole.is_none_or(|all| all.iter().all(|&b| b < 2)), "{text:?}: bools are 0 and 1");
    }
}

/// A type, or the description of an output: what is understood has one way to be written, and stores.
pub fn datatype(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(spec) = OutputSpec::parse(text) {
        assert!(spec.dims.is_none_or(|dims| !dims.contains(&0)));
    }
    let Ok(datatype) = Datatype::parse(text) else { return };
    let name = datatype.name();
    assert_eq!(Datatype::parse(&name).ok().as_ref(), Some(&datatype), "{text:?} is {name:?}");
    let (size, stored) = (datatype.size(), datatype.stored_size());
    assert!(size > 0 && stored > 0 && stored <= size, "{name}");
    if size <= 1 << 16 {
        let from: Vec<u8> = (0..2 * size).map(|n| (n % 251) as u8).collect();
        let mut to = vec![0; 2 * stored];
        datatype.store(&from, &mut to);
        assert!(datatype.is_converted() || to == from, "{name}");
    }
    assert!(datatype.pointers().iter().all(|at| at + 8 <= size), "{name}");
}

/// The record of a live dataset, as JSON: what is understood is written as it was read.
pub fn record(data: &[u8]) {
    let Ok(record) = Record::parse(data) else { return };
    let Ok(bytes) = record.encode() else { return };
    assert_eq!(Record::parse(&bytes).ok().as_ref(), Some(&record));
    let _ = hyperchunk_udf::signature::verify(&record);
    let first = vec![0; record.chunk.len()];
    if let Ok((offset, shape)) = record.block(&first) {
        assert_eq!(record.parts(&offset, &shape).count(), record.slots().count());
    }
}

/// A CUDA source: what is understood has a plan that a GPU can launch, of datasets that there are, or an error; and the compiler gets a text
/// with as many lines.
pub fn cuda(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(program) = Program::parse(text) else { return };
    let datatype = Datatype::Number(ElementType::Float32);
    let dims = [30, 7];
    let one = |(n, name): (usize, &'_ String)| (n == 0, name.clone());
    let names: Vec<_> = program.names().iter().enumerate().map(one).collect();
    let datasets: Vec<_> = names
        .iter()
        .map(|(output, name)| Dataset {
            name,
            datatype: &datatype,
            dims: &dims,
            start: &[4, 0],
            output: *output,
        })
        .collect();
    let _ = program.check(&datasets);
    if let Ok(plan) = program.plan(&datasets) {
        for step in &plan.steps {
            assert!(step.kernel < program.kernels().count());
            let threads: u32 = step.block.iter().product();
            assert!((1..=1024).contains(&threads) && !step.grid.contains(&0), "{step:?}");
            for argument in &step.arguments {
                match argument {
                    KernelArgument::Address(slot) => assert!(*slot < datasets.len()),
                    KernelArgument::Bytes(bytes) => assert!((1..=520).contains(&bytes.len())),
                }
            }
        }
    }
    let assembled = program.assemble(text, datasets.iter().map(|d| (d.name, d.datatype)));
    let lines = assembled.split_once("#line 1 \"udf.cu\"\n").map_or("", |(_, rest)| rest);
    let lines = lines.rsplit_once("\n#line 1 \"hyperchunk\"\n").map_or("", |(source, _)| source);
    assert_eq!(lines.matches('\n').count(), text.matches('\n').count(), "{text:?}");
}
