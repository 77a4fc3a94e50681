//! Predicates over numeric columns without nulls, evaluated block by block.

use super::bound::Test;
use super::evaluate::boolean_buffer;
use super::kernel::{Values, WORD_BITS, all, count_words};
use super::{Comparison, Literal, Nan, Predicate};
use arrow_array::{Array, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Schema};
use std::ops::Range;

/// Number of rows in a block: their values and result bits fit into the processor's cache.
pub(crate) const BLOCK_ROWS: usize = 16 << 10;

/// A predicate compiled for a schema.
#[derive(Debug, Clone)]
pub(crate) struct Plan(Tree<usize>);

/// A tree of tests of columns. `C` is the number of a column in the schema or, once bound, its values.
#[derive(Debug, Clone)]
enum Tree<C> {
    And(Vec<Tree<C>>),
    Or(Vec<Tree<C>>),
    Not(Box<Tree<C>>),
    Test(C, Test),
    Always(bool),
}

/// A plan bound to the values of a batch.
#[derive(Debug)]
pub(crate) struct BoundPlan {
    tree: Tree<Values>,
    rows: usize,
    /// Buffers for partial results, to be reused.
    spare_words: Vec<Vec<u64>>,
}

impl Plan {
    /// Compiles a predicate; `None` if one of its columns may have nulls, or is not numeric.
    pub(crate) fn new(predicate: &Predicate, schema: &Schema, nan: Nan) -> Option<Self> {
        Tree::new(predicate, schema, nan).map(Self)
    }

    /// Binds it to a batch with these columns; `None` if the batch has nulls.
    pub(crate) fn bind(&self, batch: &RecordBatch) -> Option<BoundPlan> {
        Some(BoundPlan { tree: self.0.bind(batch)?, rows: batch.num_rows(), spare_words: Vec::new() })
    }
}

impl Tree<usize> {
    fn new(predicate: &Predicate, schema: &Schema, nan: Nan) -> Option<Self> {
        let all = |parts: &[Predicate]| {
            parts.iter().map(|part| Self::new(part, schema, nan)).collect::<Option<Vec<_>>>()
        };
        let column = |name: &str| {
            let (place, field) = schema.fields().find(name)?;
            (!field.is_nullable()).then(|| (place, field.data_type()))
        };
        let test = |(place, of): (usize, &DataType), comparison, literal: &Literal| {
            Test::new(of, comparison, literal, nan).map(|test| Self::Test(place, test))
        };
        Some(match predicate {
            Predicate::And(parts) => Self::And(all(parts)?),
            Predicate::Or(parts) => Self::Or(all(parts)?),
            Predicate::Not(part) => Self::Not(Box::new(Self::new(part, schema, nan)?)),
            Predicate::Compare(name, comparison, literal) => test(column(name)?, *comparison, literal)?,
            Predicate::In(name, literals) => {
                let column = column(name)?;
                let equal = literals.iter().map(|literal| test(column, Comparison::Equal, literal));
                Self::Or(equal.collect::<Option<_>>()?)
            }
            Predicate::IsNull(name) => {
                column(name)?;
                Self::Always(false)
            }
        })
    }

    fn bind(&self, batch: &RecordBatch) -> Option<Tree<Values>> {
        let all = |parts: &[Self]| parts.iter().map(|part| part.bind(batch)).collect::<Option<Vec<_>>>();
        Some(match self {
            Self::And(parts) => Tree::And(all(parts)?),
            Self::Or(parts) => Tree::Or(all(parts)?),
            Self::Not(part) => Tree::Not(Box::new(part.bind(batch)?)),
            Self::Test(place, test) => {
                let column = batch.columns().get(*place).filter(|column| column.null_count() == 0)?;
                Tree::Test(Values::new(column, *test)?, *test)
            }
            Self::Always(truth) => Tree::Always(*truth),
        })
    }
}

impl BoundPlan {
    /// Returns the number of rows in the batch.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Evaluates some rows to bits, 64 in a word, the lowest first; false after the last. `out` has no more
    /// words than needed.
    pub(crate) fn test(&mut self, rows: Range<usize>, out: &mut [u64]) {
        self.tree.test(rows, out, &mut self.spare_words);
    }

    /// Evaluates all rows.
    pub(crate) fn boolean_buffer(&mut self) -> BooleanBuffer {
        let mut words = vec![0; count_words(self.rows)];
        for (place, words) in words.chunks_mut(BLOCK_ROWS / WORD_BITS).enumerate() {
            let start = place * BLOCK_ROWS;
            self.test(start..(start + BLOCK_ROWS).min(self.rows), words);
        }
        boolean_buffer(words, self.rows)
    }
}

impl Tree<Values> {
    fn test(&self, rows: Range<usize>, out: &mut [u64], spare_words: &mut Vec<Vec<u64>>) {
        match self {
            Self::Always(false) => out.fill(0),
            Self::Always(true) => all(rows.len(), out),
            Self::Test(values, test) => values.test(*test, rows, out),
            Self::Not(part) => {
                part.test(rows.clone(), out, spare_words);
                out.iter_mut().for_each(|word| *word = !*word);
                if let Some(last) = out.last_mut()
                    && !rows.len().is_multiple_of(WORD_BITS)
                {
                    *last &= (1 << (rows.len() % WORD_BITS)) - 1;
                }
            }
            Self::And(parts) | Self::Or(parts) => {
                let and = matches!(self, Self::And(_));
                let Some((first, others)) = parts.split_first() else {
                    return Self::Always(and).test(rows, out, spare_words);
                };
                first.test(rows.clone(), out, spare_words);
                for part in others {
                    // Other parts of an AND cannot change zeros.
                    if and && out.iter().all(|word| *word == 0) {
                        return;
                    }
                    let mut words = spare_words.pop().unwrap_or_default();
                    words.resize(out.len(), 0);
                    part.test(rows.clone(), &mut words, spare_words);
                    for (word, other) in out.iter_mut().zip(&words) {
                        *word = if and { *word & *other } else { *word | *other };
                    }
                    spare_words.push(words);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{
        ArrayRef, Float32Array, Float64Array, Int16Array, TimestampNanosecondArray, UInt64Array,
    };
    use arrow_schema::Field;
    use serde_json::{Value, json};
    use std::sync::Arc;

    const ROWS: u16 = 40_000;

    fn batch() -> RecordBatch {
        let rows = || 0..ROWS;
        let real = |row: u16| if row.is_multiple_of(7) { f32::NAN } else { f32::from(row % 100) - 50.0 };
        let columns: [(&str, ArrayRef); 5] = [
            ("f", Arc::new(Float32Array::from_iter_values(rows().map(real)))),
            ("d", Arc::new(Float64Array::from_iter_values(rows().map(|row| f64::from(row) / 8.0)))),
            ("i", Arc::new(Int16Array::from_iter_values(rows().map(|row| (row % 300).cast_signed() - 150)))),
            ("u", Arc::new(UInt64Array::from_iter_values(rows().map(|row| u64::MAX - u64::from(row))))),
            ("t", Arc::new(TimestampNanosecondArray::from_iter_values(rows().map(i64::from)))),
        ];
        let fields =
            columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), false));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        RecordBatch::try_new(schema.into(), columns.into_iter().map(|(_, column)| column).collect()).unwrap()
    }

    fn count(batch: &RecordBatch, predicate: &Value, nan: Nan) -> Option<usize> {
        let parsed = Predicate::parse(predicate).unwrap();
        Plan::new(&parsed, &batch.schema(), nan)
            .map(|plan| plan.bind(batch).unwrap().boolean_buffer().count_set_bits())
    }

    #[test]
    fn what_is_true() {
        let batch = batch();
        let nans = (0..ROWS).filter(|row| row % 7 == 0).count();
        let rows = usize::from(ROWS);
        let check = |predicate: Value, expected: usize| {
            assert_eq!(count(&batch, &predicate, Nan::Unordered), Some(expected), "{predicate}");
        };
        let f = |holds: fn(u16) -> bool| (0..ROWS).filter(|row| row % 7 != 0 && holds(row % 100)).count();
        check(json!([["f", ">", 0]]), f(|value| value > 50));
        check(json!([["f", ">", 0.1]]), f(|value| value > 50));
        check(json!([["f", "==", 0.1]]), 0);
        check(json!([["f", "!=", 0.1]]), rows);
        check(json!([["f", "<=", {"float": "inf"}]]), rows - nans);
        check(json!({"not": ["f", "<=", {"float": "inf"}]}), nans);
        check(json!([["f", "in", [1, 2, 2, 0.5]]]), f(|value| value == 51 || value == 52));
        check(json!([["d", ">=", 100], ["d", "<", 200]]), 800);
        check(json!({"or": [["d", "<", 100], ["d", ">=", 4900]]}), 1600);
        check(json!([["u", ">", 18_446_744_073_709_551_610_u64]]), 5);
        check(json!([["u", ">", -1]]), rows);
        check(json!([["i", "<", 1e300]]), rows);
        check(json!([["i", "==", 100_000]]), 0);
        check(json!([["t", "<", 10]]), 10);
        check(json!([["t", "is null"]]), 0);
        check(json!([]), rows);
        check(json!({"or": []}), 0);
        // Compare with the general evaluation.
        for predicate in [
            json!([["f", ">", 0.1], ["i", "<=", 2.5]]),
            json!({"not": {"or": [["u", "<", 2], ["f", ">=", 3]]}}),
        ] {
            let parsed = Predicate::parse(&predicate).unwrap();
            let slow = parsed.answer(&batch).unwrap().yes.count_set_bits();
            check(predicate, slow);
        }
    }

    #[test]
    fn nan_as_the_largest() {
        let batch = batch();
        let rows = usize::from(ROWS);
        let is = |predicate: Value| count(&batch, &predicate, Nan::Largest).unwrap();
        let not = |predicate: Value| rows - is(predicate);
        for bound in
            [json!(0), json!(-50), json!(49), json!(0.1), json!({"float": "inf"}), json!({"float": "-inf"})]
        {
            assert_eq!(is(json!([["f", ">", bound]])), not(json!([["f", "<=", bound]])), "{bound}");
            assert_eq!(is(json!([["f", ">=", bound]])), not(json!([["f", "<", bound]])), "{bound}");
            assert_eq!(is(json!([["f", "!=", bound]])), not(json!([["f", "==", bound]])), "{bound}");
        }
        assert_eq!(is(json!([["f", ">", {"float": "inf"}]])), (0..ROWS).filter(|row| row % 7 == 0).count());
    }

    #[test]
    fn what_it_is_not_for() {
        let field = |of: DataType, nullable| Schema::new(vec![Field::new("x", of, nullable)]);
        let has = |schema: &Schema, predicate: Value| {
            Plan::new(&Predicate::parse(&predicate).unwrap(), schema, Nan::Unordered).is_some()
        };
        assert!(has(&field(DataType::Int8, false), json!([["x", "<", 1]])));
        assert!(!has(&field(DataType::Int8, true), json!([["x", "<", 1]])));
        assert!(!has(&field(DataType::Utf8, false), json!([["x", "<", "a"]])));
        assert!(!has(&field(DataType::Int8, false), json!([["x", "<", "a"]])));
        assert!(!has(&field(DataType::Boolean, false), json!([["x", "==", true]])));
        assert!(!has(&field(DataType::Int8, false), json!([["y", "<", 1]])));
    }

    #[test]
    fn numbers_are_read_back() {
        for real in
            [0.1, 1e300, 5e-324, -123.456e-78, f64::MAX, 1.0 / 3.0, 9_007_199_254_740_993.0, f64::INFINITY]
        {
            let predicate = Predicate::Compare("x".into(), Comparison::Less, Literal::Real(real));
            let text = predicate.to_json().to_string();
            assert_eq!(Predicate::parse(&serde_json::from_str(&text).unwrap()).unwrap(), predicate, "{text}");
        }
        assert!(Predicate::parse(&json!(["x", "<", {"float": "nan"}])).is_err());
    }
}
