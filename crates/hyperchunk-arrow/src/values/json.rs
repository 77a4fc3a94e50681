//! Values as readable JSON: values that JSON lacks are strings, and long lists are truncated.

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use serde_json::Value;

/// Maximum number of list elements shown.
const MAX_ITEMS: usize = 100;
/// Maximum length of a string, in bytes.
const MAX_STRING_BYTES: usize = 1000;
/// Maximum depth of shown values.
const MAX_DEPTH: usize = 8;

/// Returns the value of a row.
pub(crate) fn value(array: &ArrayRef, row: usize) -> Value {
    value_at(array, row, 0)
}

fn value_at(array: &ArrayRef, row: usize, depth: usize) -> Value {
    if depth > MAX_DEPTH || row >= array.len() || array.is_null(row) {
        return Value::Null;
    }
    let float = |number: f64| {
        serde_json::Number::from_f64(number).map_or_else(|| Value::from(number.to_string()), Value::Number)
    };
    macro_rules! numbers {
        ($($kind:ident $type:ident;)*) => {
            match array.data_type() {
                $(DataType::$kind => {
                    array.as_primitive_opt::<arrow_array::types::$type>().map_or(Value::Null, |array| array.value(row).into())
                })*
                DataType::Float16 => array
                    .as_primitive_opt::<arrow_array::types::Float16Type>()
                    .map_or(Value::Null, |array| float(array.value(row).to_f64())),
                DataType::Float32 => array
                    .as_primitive_opt::<arrow_array::types::Float32Type>()
                    .map_or(Value::Null, |array| float(array.value(row).to_string().parse().unwrap_or(f64::NAN))),
                DataType::Float64 => array
                    .as_primitive_opt::<arrow_array::types::Float64Type>()
                    .map_or(Value::Null, |array| float(array.value(row))),
                DataType::LargeUtf8 => array.as_string_opt::<i64>().map_or(Value::Null, |array| text(array.value(row).as_bytes())),
                DataType::Utf8 => array.as_string_opt::<i32>().map_or(Value::Null, |array| text(array.value(row).as_bytes())),
                DataType::LargeBinary => array.as_binary_opt::<i64>().map_or(Value::Null, |array| bytes(array.value(row))),
                DataType::Binary => array.as_binary_opt::<i32>().map_or(Value::Null, |array| bytes(array.value(row))),
                DataType::FixedSizeBinary(_) => array.as_fixed_size_binary_opt().map_or(Value::Null, |array| bytes(array.value(row))),
                DataType::FixedSizeList(..) => array.as_fixed_size_list_opt().map_or(Value::Null, |array| list(&array.value(row), depth)),
                DataType::LargeList(_) => array.as_list_opt::<i64>().map_or(Value::Null, |array| list(&array.value(row), depth)),
                DataType::Struct(fields) => {
                    let columns = array.as_struct_opt().map_or(&[][..], |parts| parts.columns());
                    let members = fields.iter().zip(columns).take(MAX_ITEMS);
                    Value::Object(members.map(|(field, column)| (field.name().clone(), value_at(column, row, depth + 1))).collect())
                }
                other => Value::from(format!("({other})")),
            }
        };
    }
    numbers! {
        Int8 Int8Type;
        Int16 Int16Type;
        Int32 Int32Type;
        Int64 Int64Type;
        UInt8 UInt8Type;
        UInt16 UInt16Type;
        UInt32 UInt32Type;
        UInt64 UInt64Type;
    }
}

fn list(items: &ArrayRef, depth: usize) -> Value {
    let mut all: Vec<Value> =
        (0..items.len().min(MAX_ITEMS)).map(|row| value_at(items, row, depth + 1)).collect();
    if items.len() > MAX_ITEMS {
        all.push(Value::from(format!("… {} more", items.len() - MAX_ITEMS)));
    }
    Value::Array(all)
}

fn text(bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    let cut: String = text.chars().take(MAX_STRING_BYTES).collect();
    Value::from(if cut.len() < text.len() { format!("{cut}…") } else { cut })
}

fn bytes(bytes: &[u8]) -> Value {
    if std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0) {
        return text(bytes);
    }
    let cut = bytes.iter().take(MAX_ITEMS).map(|byte| format!("{byte:02x}")).collect::<String>();
    Value::from(if bytes.len() > MAX_ITEMS { format!("0x{cut}…") } else { format!("0x{cut}") })
}
