//! Conversion of pyarrow's filters to predicates, for the filters that are known to have exactly the same
//! meaning.
//!
//! pyarrow serialises an expression (to send it to another process) as an Arrow IPC file: the schema's custom
//! metadata lists key-value pairs in prefix notation, and the literals are the columns of a one-row record
//! batch.

use super::{Comparison, Literal, MAX_DEPTH, MAX_NODES, Predicate};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::FileReader;
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use std::io::Cursor;

/// Maximum size of a serialised expression, in bytes.
const MAX_EXPRESSION_BYTES: usize = 1 << 20;

impl Predicate {
    /// Converts a serialised pyarrow expression about rows of a schema; `None` if it is not known to have the
    /// same meaning as a predicate.
    #[must_use]
    pub fn from_expression(written: &[u8], schema: &Schema) -> Option<Self> {
        if written.len() > MAX_EXPRESSION_BYTES {
            return None;
        }
        let tokens = tokens(written)?;
        let mut reader = FileReader::try_new(Cursor::new(written), None).ok()?;
        let values = reader.next()?.ok()?;
        let mut reader_state =
            ExpressionReader { tokens: tokens.iter(), values, schema, remaining_nodes: MAX_NODES };
        let found = reader_state.truth(MAX_DEPTH)?;
        reader_state.tokens.next().is_none().then_some(found)
    }
}

/// Returns the tokens of an expression: kind and value of each.
fn tokens(written: &[u8]) -> Option<Vec<(&str, &str)>> {
    const MAGIC: &[u8] = b"ARROW1";
    let (rest, length) = written.strip_suffix(MAGIC)?.split_last_chunk::<4>()?;
    let length = usize::try_from(i32::from_le_bytes(*length)).ok()?;
    let footer = rest.get(rest.len().checked_sub(length)?..)?;
    let footer = arrow_ipc::root_as_footer(footer).ok()?;
    let tokens = footer.schema()?.custom_metadata()?;
    tokens.iter().map(|token| Some((token.key()?, token.value()?))).collect()
}

struct ExpressionReader<'a> {
    tokens: std::slice::Iter<'a, (&'a str, &'a str)>,
    values: RecordBatch,
    schema: &'a Schema,
    /// Nodes that may still be parsed; bounds the work.
    remaining_nodes: usize,
}

/// An operand that has a value for each row.
enum Value<'a> {
    Column(&'a Field),
    /// A literal: the index of its column in the record batch.
    Literal(usize),
}

impl<'a> ExpressionReader<'a> {
    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        self.remaining_nodes = self.remaining_nodes.checked_sub(1)?;
        self.tokens.next().copied()
    }

    /// Parses a boolean subexpression.
    fn truth(&mut self, depth: usize) -> Option<Predicate> {
        let depth = depth.checked_sub(1)?;
        let name = match self.next()? {
            ("call", name) => name,
            ("literal", place) => {
                let column = self.values.columns().get(place.parse::<usize>().ok()?)?;
                let truth = column.as_boolean_opt().filter(|column| column.null_count() == 0)?;
                let truth = (truth.len() == 1).then(|| truth.value(0))?;
                return Some(if truth { Predicate::And(Vec::new()) } else { Predicate::Or(Vec::new()) });
            }
            _ => return None,
        };
        let comparison = match name {
            "equal" => Some(Comparison::Equal),
            "not_equal" => Some(Comparison::NotEqual),
            "less" => Some(Comparison::Less),
            "less_equal" => Some(Comparison::LessOrEqual),
            "greater" => Some(Comparison::Greater),
            "greater_equal" => Some(Comparison::GreaterOrEqual),
            _ => None,
        };
        let found = match name {
            "and" | "and_kleene" => Predicate::And(vec![self.truth(depth)?, self.truth(depth)?]),
            "or" | "or_kleene" => Predicate::Or(vec![self.truth(depth)?, self.truth(depth)?]),
            "invert" => Predicate::Not(Box::new(self.truth(depth)?)),
            "is_valid" => Predicate::Not(Box::new(Predicate::IsNull(self.column()?))),
            "is_null" => {
                let name = self.column()?;
                let nan = self.options()?.column_by_name("nan_is_null")?.as_boolean_opt()?.value(0);
                (!nan).then_some(Predicate::IsNull(name))?
            }
            "is_in" => self.among()?,
            _ => match (self.value()?, self.value()?) {
                (Value::Column(field), Value::Literal(place)) => self.compared(field, comparison?, place)?,
                (Value::Literal(place), Value::Column(field)) => {
                    self.compared(field, comparison?.flipped(), place)?
                }
                _ => return None,
            },
        };
        (self.next()? == ("end", name)).then_some(found)
    }

    fn value(&mut self) -> Option<Value<'a>> {
        match self.next()? {
            ("field_ref", name) => self.field(name).map(Value::Column),
            ("literal", place) => place.parse().ok().map(Value::Literal),
            _ => None,
        }
    }

    fn column(&mut self) -> Option<String> {
        match self.value()? {
            Value::Column(field) => Some(field.name().clone()),
            Value::Literal(_) => None,
        }
    }

    /// Returns the only column with a name. Columns of extension types are excluded, since their meaning is
    /// unknown here.
    fn field(&self, name: &str) -> Option<&'a Field> {
        let mut found = self.schema.fields().iter().filter(|field| field.name() == name);
        let field = found.next()?;
        (found.next().is_none() && !field.metadata().contains_key(EXTENSION_TYPE_NAME_KEY)).then_some(field)
    }

    fn options(&mut self) -> Option<arrow_array::StructArray> {
        let ("options", place) = self.next()? else { return None };
        let column = self.values.columns().get(place.parse::<usize>().ok()?)?;
        column.as_struct_opt().filter(|options| options.len() == 1 && options.null_count() == 0).cloned()
    }

    fn compared(&self, field: &Field, comparison: Comparison, place: usize) -> Option<Predicate> {
        let given = self.values.columns().get(place)?;
        if given.len() != 1 {
            return None;
        }
        let literal = literal(given, 0)?;
        fits(field.data_type(), given.data_type(), &literal)
            .then(|| Predicate::Compare(field.name().clone(), comparison, literal))
    }

    fn among(&mut self) -> Option<Predicate> {
        let Value::Column(field) = self.value()? else { return None };
        let options = self.options()?;
        let set = options.column_by_name("value_set")?.as_list_opt::<i32>()?.value(0);
        if set.data_type() != field.data_type() || set.null_count() > 0 {
            return None;
        }
        self.remaining_nodes = self.remaining_nodes.checked_sub(set.len())?;
        let literals = (0..set.len()).map(|place| {
            // pyarrow's `is_in` distinguishes 0.0 from -0.0, and NaN matches NaN. Predicates do neither, so
            // sets with zero or NaN are not converted.
            literal(&set, place).filter(|literal| !matches!(literal, Literal::Real(0.0)))
        });
        Some(Predicate::In(field.name().clone(), literals.collect::<Option<_>>()?))
    }
}

impl Comparison {
    /// Returns the same comparison with its sides exchanged.
    fn flipped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }
}

/// Returns whether pyarrow compares a column of type `column` exactly with a literal of type `given`: it does
/// not cast the column, or casts it to a type that represents all its values.
fn fits(column: &DataType, given: &DataType, literal: &Literal) -> bool {
    fn has<T: TryFrom<i128>>(whole: i128) -> bool {
        T::try_from(whole).is_ok()
    }
    match (column, literal) {
        (DataType::Int8, Literal::Whole(whole)) if given.is_integer() => has::<i8>(*whole),
        (DataType::Int16, Literal::Whole(whole)) if given.is_integer() => has::<i16>(*whole),
        (DataType::Int32, Literal::Whole(whole)) if given.is_integer() => has::<i32>(*whole),
        (DataType::Int64, Literal::Whole(whole)) if given.is_integer() => has::<i64>(*whole),
        (DataType::UInt8, Literal::Whole(whole)) if given.is_integer() => has::<u8>(*whole),
        (DataType::UInt16, Literal::Whole(whole)) if given.is_integer() => has::<u16>(*whole),
        (DataType::UInt32, Literal::Whole(whole)) if given.is_integer() => has::<u32>(*whole),
        (DataType::UInt64, Literal::Whole(whole)) if given.is_integer() => has::<u64>(*whole),
        // Integers within the range that the floating-point type represents exactly.
        (DataType::Float32, Literal::Whole(whole)) if given.is_integer() => whole.unsigned_abs() <= 1 << 24,
        (DataType::Float64, Literal::Whole(whole)) if given.is_integer() => whole.unsigned_abs() <= 1 << 53,
        (DataType::Float32 | DataType::Float64, Literal::Real(_)) => true,
        (
            DataType::Timestamp(_, _) | DataType::Duration(_) | DataType::Date32 | DataType::Date64,
            Literal::Whole(_),
        ) => column == given,
        _ => false,
    }
}

/// Returns a value as a number; `None` for null, NaN and other types.
fn literal(values: &dyn Array, place: usize) -> Option<Literal> {
    if place >= values.len() || values.is_null(place) {
        return None;
    }
    macro_rules! whole {
        ($type:ty) => {
            Literal::Whole(values.as_primitive_opt::<$type>()?.value(place).into())
        };
    }
    let real = |real: f64| (!real.is_nan()).then_some(Literal::Real(real));
    Some(match values.data_type() {
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => whole!(UInt64Type),
        DataType::Date32 => whole!(Date32Type),
        DataType::Date64 => whole!(Date64Type),
        DataType::Timestamp(TimeUnit::Second, _) => whole!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => whole!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => whole!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => whole!(TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => whole!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => whole!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => whole!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => whole!(DurationNanosecondType),
        DataType::Float32 => real(values.as_primitive_opt::<Float32Type>()?.value(place).into())?,
        DataType::Float64 => real(values.as_primitive_opt::<Float64Type>()?.value(place))?,
        _ => return None,
    })
}
