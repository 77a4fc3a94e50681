//! Vectorised computation of Lua loops: a [loop](crate::loops) is checked at run time, and computed here if
//! all its accesses are within the elements of datasets, whose types Lua's numbers can represent.
//!
//! **Invariant:** the written elements get the same bits as from Lua's loop (any NaN for a NaN), or only
//! elements are written that this loop would overwrite.

use super::lua_slots::{Region, Slots};
use crate::expression::{Arithmetic, InputBytes, Kind, Program, Scratch, as_output_bytes};
use crate::loops::{Id, Loop, Offset, Operator, Value};
use std::ops::Range;

/// Bound up to which a few integers can be added without rounding.
const MAX_EXACT_INTEGER: f64 = (1_u64 << 50) as f64;

/// Kinds that a double can represent, with their C types.
const KINDS: [(&str, Kind); 8] = [
    ("float", Kind::Float32),
    ("double", Kind::Float64),
    ("int8_t", Kind::Int8),
    ("uint8_t", Kind::UInt8),
    ("int16_t", Kind::Int16),
    ("uint16_t", Kind::UInt16),
    ("int32_t", Kind::Int32),
    ("uint32_t", Kind::UInt32),
];

/// Source of a program's input: an element of an array, or a loop-invariant value.
#[derive(Debug)]
enum Source {
    Each(Id),
    One(Id),
}

/// Program for one store, for arrays of certain kinds.
#[derive(Debug)]
struct Computation {
    program: Program,
    sources: Vec<Source>,
}

/// Loop, with the programs of its last computation.
#[derive(Debug)]
struct PreparedLoop {
    computes: Loop,
    varying: Vec<bool>,
    kinds: Vec<Kind>,
    programs: Vec<Computation>,
}

/// Loops of a source.
#[derive(Debug)]
pub(super) struct Vectors {
    loops: Vec<PreparedLoop>,
    /// Set if Lua's loops are compiled to machine code.
    jit: bool,
    scratch: Scratch,
}

impl Vectors {
    /// Restricts this to x86_64: elsewhere LuaJIT also computes with integers, which have no -0.
    pub(super) const AS_LUA: bool = cfg!(target_arch = "x86_64");

    pub(super) fn new(loops: impl Iterator<Item = Loop>, jit: bool) -> Self {
        let prepare = |computes: Loop| PreparedLoop {
            varying: computes.varying(),
            computes,
            kinds: Vec::new(),
            programs: Vec::new(),
        };
        Vectors { loops: loops.map(prepare).collect(), jit, scratch: Scratch::default() }
    }

    /// Returns the C types of elements, and the numbers that [`compute`](Vectors::compute) uses for them.
    pub(super) fn kinds() -> impl Iterator<Item = (&'static str, usize)> {
        KINDS.iter().enumerate().map(|(number, (c_type, _))| (*c_type, number))
    }

    /// Computes a loop, given its number, the first and last iteration, the kind and address of each array,
    /// and the scalars. `None` if it was not computed.
    pub(super) fn compute(&mut self, slots: &Slots, given: &[f64]) -> Option<()> {
        let (&[number, first, last], given) = given.split_first_chunk()?;
        let prepared = self.loops.get_mut(usize::try_from(to_integer(number)?).ok()?)?;
        let (arrays, scalars) = given.split_at_checked(prepared.computes.arrays.len() * 2)?;
        if scalars.len() != prepared.computes.scalars.len() {
            return None;
        }
        let mut kinds = Vec::with_capacity(arrays.len() / 2);
        let mut addresses = Vec::with_capacity(arrays.len() / 2);
        for &[kind, address] in arrays.as_chunks().0 {
            kinds.push(KINDS.get(usize::try_from(to_integer(kind)?).ok()?)?.1);
            addresses.push(to_integer(address)?);
        }
        if prepared.programs.is_empty() || prepared.kinds != kinds {
            prepared.make(kinds)?;
        }
        if self.jit && !prepared.is_faster_than_jit() {
            return None;
        }
        let values = prepared.computes.scalar_values(scalars);
        let rounds = LoopInputs {
            slots,
            kinds: &prepared.kinds,
            addresses: &addresses,
            bytes: values.iter().map(|value| value.to_ne_bytes()).collect(),
            values,
            first: to_integer(first)?,
            last: to_integer(last)?,
        };
        prepared.compute(&rounds, &mut self.scratch)
    }
}

impl Loop {
    /// Returns the loop-invariant values.
    fn scalar_values(&self, scalars: &[f64]) -> Vec<f64> {
        let mut values: Vec<f64> = Vec::with_capacity(self.values.len());
        for value in &self.values {
            let of = |id: &Id| values.get(*id).copied().unwrap_or(f64::NAN);
            values.push(match value {
                Value::Scalar(number) => scalars.get(*number).copied().unwrap_or(f64::NAN),
                Value::Negative(a) => -of(a),
                Value::Of(Operator::Add, a, b) => of(a) + of(b),
                Value::Of(Operator::Subtract, a, b) => of(a) - of(b),
                Value::Of(Operator::Multiply, a, b) => of(a) * of(b),
                Value::Of(Operator::Divide, a, b) => of(a) / of(b),
                Value::Index | Value::Element(..) => f64::NAN,
            });
        }
        values
    }
}

/// Converts a number that is integral and not too large.
fn to_integer(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "looked at before")]
    (number.fract() == 0.0 && number.abs() <= MAX_EXACT_INTEGER).then_some(number as i64)
}

/// Inputs of a loop's computation.
struct LoopInputs<'a> {
    slots: &'a Slots,
    kinds: &'a [Kind],
    /// Address of each array's element 0.
    addresses: &'a [i64],
    values: Vec<f64>,
    bytes: Vec<[u8; 8]>,
    first: i64,
    last: i64,
}

impl LoopInputs<'_> {
    /// Returns the slot, and the byte range in it, of an array's elements at `offset` from the iterations;
    /// `None` if any is missing.
    fn place(&self, array: usize, offset: &Offset) -> Option<(&Region, Range<usize>)> {
        let kind = *self.kinds.get(array)?;
        let size = i64::try_from(kind.size()).ok()?;
        let mut from = self.first;
        for &(subtracted, id) in offset {
            let part = to_integer(*self.values.get(id)?)?;
            from = from.checked_add(if subtracted { -part } else { part })?;
        }
        let address = from.checked_mul(size)?.checked_add(*self.addresses.get(array)?)?;
        let start = usize::try_from(address).ok()?;
        let bytes = usize::try_from((self.last - self.first).checked_add(1)?.checked_mul(size)?).ok()?;
        self.slots.regions.iter().find_map(|region| {
            let holds = region.datatype.flat_number().map(Kind::from_element) == Some(kind);
            let within = |base: usize, length: usize| {
                let at = start.checked_sub(base)?;
                let fits = holds && at.is_multiple_of(kind.size()) && at.checked_add(bytes)? <= length;
                fits.then_some((region, at..at + bytes))
            };
            within(region.data as usize, region.bytes).or_else(|| {
                // A copy has the same elements.
                let length = if region.copy.is_empty() { 0 } else { region.bytes };
                within(region.copy.as_ptr() as usize, length)
            })
        })
    }
}

impl PreparedLoop {
    fn make(&mut self, kinds: Vec<Kind>) -> Option<()> {
        // Both or neither: programs for only some of the stores must not be mistaken for all.
        self.programs.clear();
        let stores = 0..self.computes.stores.len();
        let programs = stores.map(|at| self.computation(at, &kinds)).collect::<Option<_>>()?;
        (self.programs, self.kinds) = (programs, kinds);
        Some(())
    }

    /// Returns whether this is faster than LuaJIT's code, which computes divisions one at a time but overlaps
    /// everything else with them; here each step is a pass over the elements.
    fn is_faster_than_jit(&self) -> bool {
        let wanted = self.computes.stores.iter().map(|store| store.value).collect();
        let divides =
            |id: &Id| matches!(self.computes.values.get(*id), Some(Value::Of(Operator::Divide, ..)));
        let divisions = self.computes.needed(wanted).iter().filter(|id| divides(id)).count();
        let passes: usize = self.programs.iter().map(|programs| programs.program.passes()).sum();
        passes <= 3 * divisions + 4 * self.programs.len()
    }

    fn computation(&self, store: usize, kinds: &[Kind]) -> Option<Computation> {
        let store = self.computes.stores.get(store)?;
        let output = *kinds.get(store.array)?;
        if !output.is_float() {
            return None;
        }
        let mut arithmetic = Arithmetic::default();
        let mut sources = Vec::new();
        let mut programs: Vec<Option<usize>> = vec![None; self.computes.values.len()];
        let needed = self.computes.needed(vec![store.value]);
        for &id in &needed {
            if !*self.varying.get(id)? {
                continue;
            }
            let mut of = |id: Id, arithmetic: &mut Arithmetic| -> Option<usize> {
                let slot = programs.get_mut(id)?;
                if slot.is_none() {
                    // A loop-invariant value: varying ones come before the values that depend on them.
                    sources.push(Source::One(id));
                    *slot = Some(arithmetic.input(Kind::Float64));
                }
                *slot
            };
            let value = match self.computes.values.get(id)? {
                Value::Element(array, _) => {
                    let value = arithmetic.input(*kinds.get(*array)?);
                    sources.push(Source::Each(id));
                    value
                }
                Value::Negative(a) => {
                    let a = of(*a, &mut arithmetic)?;
                    arithmetic.negative(a)
                }
                Value::Of(operator, a, b) => {
                    let (a, b) = (of(*a, &mut arithmetic)?, of(*b, &mut arithmetic)?);
                    arithmetic.apply(*operator, a, b)
                }
                Value::Scalar(_) | Value::Index => return None,
            };
            *programs.get_mut(id)? = Some(value);
        }
        let result = match programs.get(store.value)? {
            Some(result) => *result,
            None => {
                sources.push(Source::One(store.value));
                arithmetic.input(Kind::Float64)
            }
        };
        Some(Computation { program: arithmetic.finish(result, output), sources })
    }

    /// Returns the inputs of a store; `None` if one of them overlaps any written range.
    fn inputs<'a>(
        &self,
        programs: &Computation,
        rounds: &'a LoopInputs<'_>,
        written: &[Range<usize>],
    ) -> Option<Vec<InputBytes<'a>>> {
        let mut inputs = Vec::with_capacity(programs.sources.len());
        for source in &programs.sources {
            inputs.push(match source {
                Source::One(id) => InputBytes::One(rounds.bytes.get(*id)?),
                Source::Each(id) => {
                    let Value::Element(array, offset) = self.computes.values.get(*id)? else { return None };
                    let (region, place) = rounds.place(*array, offset)?;
                    let place = addresses(region, &place);
                    if written.iter().any(|other| overlap(&place, other)) {
                        return None;
                    }
                    let pointer = std::ptr::with_exposed_provenance::<u8>(place.start);
                    // SAFETY: within the elements of a slot, which do not change while the call runs, except
                    // outputs, of which this range overlaps no written part.
                    InputBytes::Each(unsafe { std::slice::from_raw_parts(pointer, place.len()) })
                }
            });
        }
        Some(inputs)
    }

    fn compute(&self, rounds: &LoopInputs<'_>, scratch: &mut Scratch) -> Option<()> {
        let mut written: Vec<Range<usize>> = Vec::new();
        for store in &self.computes.stores {
            let (region, place) = rounds.place(store.array, &store.offset)?;
            if !region.output {
                return None;
            }
            written.push(addresses(region, &place));
        }
        for (at, place) in written.iter().enumerate() {
            if written.iter().skip(at + 1).any(|other| overlap(place, other)) {
                return None;
            }
        }
        let mut inputs = Vec::with_capacity(self.programs.len());
        for programs in &self.programs {
            inputs.push(self.inputs(programs, rounds, &written)?);
        }
        for ((programs, inputs), place) in self.programs.iter().zip(&inputs).zip(written) {
            let pointer = std::ptr::with_exposed_provenance_mut::<u8>(place.start);
            // SAFETY: within an output, which is mapped writable while the call runs, and to which there is
            // no other reference: no input overlaps it.
            let out = unsafe { std::slice::from_raw_parts_mut(pointer, place.len()) };
            programs.program.evaluate_into(inputs, as_output_bytes(out), scratch).ok()?;
        }
        Some(())
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

fn addresses(region: &Region, place: &Range<usize>) -> Range<usize> {
    let base = region.data.expose_provenance();
    base + place.start..base + place.end
}
