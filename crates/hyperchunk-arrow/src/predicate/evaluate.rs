//! Evaluation of a predicate on a batch, for columns of any type, with nulls.

use super::bound::Test;
use super::kernel::{Values, count_words};
use super::{Comparison, Literal, Nan, Plan, Predicate, shortened};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, downcast_dictionary_array};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::{DataType, Schema};
use hyperchunk::{Error, Result};

impl Predicate {
    /// Checks that the predicate can be evaluated on batches of a schema.
    ///
    /// # Errors
    /// Invalid if there is no such column, or its values cannot be compared in this way; Unsupported for
    /// types without an order.
    pub fn check(&self, schema: &Schema) -> Result<()> {
        let batch = RecordBatch::new_empty(schema.clone().into());
        self.evaluate(&batch).map(|_| ())
    }

    /// Returns the matching rows of a batch.
    ///
    /// # Errors
    /// As [`Predicate::check`].
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let fast = Plan::new(self, &batch.schema(), Nan::Unordered).and_then(|plan| plan.bind(batch));
        let yes = fast.map_or_else(|| Ok(self.answer(batch)?.yes), |mut bound| Ok(bound.boolean_buffer()))?;
        Ok(BooleanArray::new(yes, None))
    }

    pub(super) fn answer(&self, batch: &RecordBatch) -> Result<Answer> {
        let rows = batch.num_rows();
        match self {
            Self::And(parts) => parts.iter().try_fold(Answer::all(rows), |so_far, part| {
                let part = part.answer(batch)?;
                Ok(Answer { yes: &so_far.yes & &part.yes, no: &so_far.no | &part.no })
            }),
            Self::Or(parts) => parts.iter().try_fold(Answer::none(rows), |so_far, part| {
                let part = part.answer(batch)?;
                Ok(Answer { yes: &so_far.yes | &part.yes, no: &so_far.no & &part.no })
            }),
            Self::Not(part) => {
                let part = part.answer(batch)?;
                Ok(Answer { yes: part.no, no: part.yes })
            }
            Self::Compare(name, comparison, literal) => {
                let column = column(batch, name)?;
                compare(column, *comparison, literal).map_err(|error| named(name, &error))
            }
            Self::In(name, literals) => {
                let column = column(batch, name)?;
                let start = Answer::of(BooleanBuffer::new_unset(rows), column);
                literals.iter().try_fold(start, |so_far, literal| {
                    let one =
                        compare(column, Comparison::Equal, literal).map_err(|error| named(name, &error))?;
                    Ok(Answer { yes: &so_far.yes | &one.yes, no: &so_far.no & &one.no })
                })
            }
            Self::IsNull(name) => {
                let yes = match column(batch, name)?.logical_nulls() {
                    Some(nulls) => !nulls.inner(),
                    None => BooleanBuffer::new_unset(rows),
                };
                Ok(Answer { no: !&yes, yes })
            }
        }
    }
}

/// The rows for which a predicate is true, and those for which it is false; for nulls it is neither.
pub(super) struct Answer {
    pub(super) yes: BooleanBuffer,
    no: BooleanBuffer,
}

impl Answer {
    fn all(rows: usize) -> Self {
        Self { yes: BooleanBuffer::new_set(rows), no: BooleanBuffer::new_unset(rows) }
    }

    fn none(rows: usize) -> Self {
        Self { yes: BooleanBuffer::new_unset(rows), no: BooleanBuffer::new_set(rows) }
    }

    /// Makes an answer from `yes`, except for null values.
    fn of(yes: BooleanBuffer, column: &dyn Array) -> Self {
        match column.logical_nulls() {
            Some(nulls) => Self { no: &!&yes & nulls.inner(), yes: &yes & nulls.inner() },
            None => Self { no: !&yes, yes },
        }
    }
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| {
        let message = format!("`where` uses the column {:?}, which the table does not have", shortened(name));
        Error::invalid(message)
    })
}

fn named(column: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("column {:?}: {}", shortened(column), error.message()))
}

fn compare(column: &ArrayRef, comparison: Comparison, literal: &Literal) -> Result<Answer> {
    let array: &dyn Array = column;
    let wrong = || {
        let message = format!("{} values cannot be compared with {}", array.data_type(), literal.to_json());
        Err(Error::invalid(message))
    };
    match array.data_type() {
        DataType::Boolean => {
            let Literal::Truth(truth) = literal else { return wrong() };
            let values = array.as_boolean().values();
            let yes = values.iter().map(|value| comparison.holds(Some(value.cmp(truth)))).collect();
            Ok(Answer::of(yes, array))
        }
        DataType::Utf8 => texts(array, comparison, literal, array.as_string::<i32>()).map_or_else(wrong, Ok),
        DataType::LargeUtf8 => {
            texts(array, comparison, literal, array.as_string::<i64>()).map_or_else(wrong, Ok)
        }
        DataType::Utf8View => {
            texts(array, comparison, literal, array.as_string_view()).map_or_else(wrong, Ok)
        }
        DataType::Dictionary(_, _) => downcast_dictionary_array!(
            array => {
                // The result for a dictionary value applies to all rows that have it.
                let values = compare(array.values(), comparison, literal)?;
                let keys = array.keys();
                let of = |mask: &BooleanBuffer| BooleanBuffer::collect_bool(array.len(), |row| {
                    let key = keys.is_valid(row).then(|| array.key(row)).flatten();
                    key.is_some_and(|key| key < mask.len() && mask.value(key))
                });
                Ok(Answer { yes: of(&values.yes), no: of(&values.no) })
            },
            _ => wrong()
        ),
        // Probe with 0: does the type have an order?
        other if Test::new(other, comparison, &Literal::Whole(0), Nan::Unordered).is_some() => {
            let test = Test::new(other, comparison, literal, Nan::Unordered);
            let Some((test, values)) = test.and_then(|test| Some((test, Values::new(array, test)?))) else {
                return wrong();
            };
            let mut words = vec![0_u64; count_words(array.len())];
            values.test(test, 0..array.len(), &mut words);
            Ok(Answer::of(boolean_buffer(words, array.len()), array))
        }
        other => Err(Error::unsupported(format!("values of the type {other} cannot be compared"))),
    }
}

/// Makes a boolean buffer from words of bits.
pub(super) fn boolean_buffer(mut words: Vec<u64>, rows: usize) -> BooleanBuffer {
    words.iter_mut().for_each(|word| *word = word.to_le());
    BooleanBuffer::new(Buffer::from_vec(words), 0, rows)
}

fn texts<'a>(
    array: &dyn Array,
    comparison: Comparison,
    literal: &Literal,
    values: impl IntoIterator<Item = Option<&'a str>>,
) -> Option<Answer> {
    let Literal::Text(text) = literal else { return None };
    let holds =
        |value: Option<&str>| value.is_some_and(|value| comparison.holds(Some(value.cmp(text.as_str()))));
    Some(Answer::of(values.into_iter().map(holds).collect(), array))
}
