//! Which rows cannot be wanted, by what writers of a sharded store noted of what they wrote: smallest and largest value of
//! each part. Rows that no predicate can be true of are not read.

use crate::flight::predicate::{Comparison, Literal, Predicate};
use hyperchunk::model::{Class, FillWhen};
use hyperchunk::store::{Extreme, Manifest, Statistics, Stored};
use hyperchunk::{Dataset, Object};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

/// Stores of more parts, and parts of more pieces, are read as they are.
const MOST: u64 = 1 << 14;

/// What is known of a column's values in some rows.
#[derive(Debug, Clone, PartialEq)]
struct Zone {
    rows: Range<u64>,
    /// Whether each of the rows was written in this part: then none has the fill value.
    dense: bool,
    /// `None` if nothing is known.
    values: Option<Statistics>,
}

/// A column: what is known of its parts, and whether rows that are in none are zeros.
#[derive(Debug, Clone, PartialEq)]
struct Zones {
    parts: Vec<Zone>,
    fill_is_zero: bool,
}

/// What a predicate may be in some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct May {
    be_true: bool,
    be_false: bool,
}

const UNKNOWN: May = May { be_true: true, be_false: true };

/// The rows, of those given, of which a predicate may be true; in order and apart.
pub(super) fn kept(object: &Object, predicate: &Predicate, rows: &Range<u64>) -> Vec<Range<u64>> {
    let mut columns = BTreeMap::new();
    for name in predicate.columns() {
        if let Some(zones) = zones(object, name) {
            columns.insert(name.to_owned(), zones);
        }
    }
    if columns.is_empty() { vec![rows.clone()] } else { kept_of(&columns, predicate, rows) }
}

fn kept_of(columns: &BTreeMap<String, Zones>, predicate: &Predicate, rows: &Range<u64>) -> Vec<Range<u64>> {
    let ends =
        columns.values().flat_map(|zones| &zones.parts).flat_map(|zone| [zone.rows.start, zone.rows.end]);
    let mut ends: Vec<u64> = ends.filter(|end| rows.start < *end && *end < rows.end).collect();
    ends.extend([rows.start, rows.end]);
    ends.sort_unstable();
    ends.dedup();
    let mut kept: Vec<Range<u64>> = Vec::new();
    for (start, end) in ends.iter().zip(ends.iter().skip(1)) {
        if !may(columns, predicate, *start).be_true {
            continue;
        }
        match kept.last_mut() {
            Some(last) if last.end == *start => last.end = *end,
            _ => kept.push(*start..*end),
        }
    }
    kept
}

/// What is known of a column of a table, if it is a dataset of numbers in a store.
fn zones(object: &Object, name: &str) -> Option<Zones> {
    let dataset = match object.group() {
        Ok(group) => group.get(name.as_bytes()).ok()?.dataset().ok()?,
        Err(_) => object
            .dataset()
            .ok()
            .filter(|dataset| !matches!(dataset.datatype().class, Class::Compound { .. }))?,
    };
    let marker = dataset.store().filter(|marker| marker.epoch > 0 && dataset.dims().len() == 1)?;
    let manifest = Manifest::epoch(dataset.object().file().path()?, marker.epoch).ok()?;
    let stored = manifest.dataset(&marker.dataset)?;
    Some(Zones { parts: parts(stored)?, fill_is_zero: fill_is_zero(&dataset) })
}

fn fill_is_zero(dataset: &Dataset) -> bool {
    match &dataset.fill().value {
        FillWhen::User(bytes) => bytes.iter().all(|byte| *byte == 0),
        _ => true,
    }
}

fn parts(stored: &Stored) -> Option<Vec<Zone>> {
    let few = stored.parts.len() as u64 <= MOST;
    // Where the extent was changed, values may have been forgotten.
    let resized = stored.parts.iter().any(|part| !part.written.extents.is_empty());
    let zones = stored.parts.iter().filter(|part| !part.written.pieces.is_empty()).map(|part| {
        let pieces = &part.written.pieces;
        if pieces.len() > MOST {
            return None;
        }
        let (mut start, mut end, mut dense) = (u64::MAX, 0, !resized);
        for piece in pieces.iter() {
            let (from, count) = (*piece.slab.start.first()?, *piece.slab.count.first()?);
            let to = from.checked_add(count)?;
            dense &= start == u64::MAX || from == end;
            (start, end) = (start.min(from), end.max(to));
        }
        Some(Zone { rows: start..end, dense, values: part.written.statistics })
    });
    zones.collect::<Option<Vec<_>>>().filter(|_| few)
}

/// What a predicate may be at a row, behind which the same is known up to the next end of a part.
fn may(columns: &BTreeMap<String, Zones>, predicate: &Predicate, row: u64) -> May {
    let all = |parts: &[Predicate]| parts.iter().map(|part| may(columns, part, row)).collect::<Vec<_>>();
    match predicate {
        Predicate::And(parts) => {
            let parts = all(parts);
            May {
                be_true: parts.iter().all(|part| part.be_true),
                be_false: parts.iter().any(|part| part.be_false),
            }
        }
        Predicate::Or(parts) => {
            let parts = all(parts);
            May {
                be_true: parts.iter().any(|part| part.be_true),
                be_false: parts.iter().all(|part| part.be_false),
            }
        }
        Predicate::Not(part) => {
            let part = may(columns, part, row);
            May { be_true: part.be_false, be_false: part.be_true }
        }
        Predicate::Compare(name, comparison, literal) => {
            columns.get(name).map_or(UNKNOWN, |zones| zones.may(*comparison, literal, row))
        }
        Predicate::In(name, literals) => {
            let Some(zones) = columns.get(name) else { return UNKNOWN };
            let parts: Vec<May> =
                literals.iter().map(|literal| zones.may(Comparison::Equal, literal, row)).collect();
            May {
                be_true: parts.iter().any(|part| part.be_true),
                be_false: parts.iter().all(|part| part.be_false),
            }
        }
        Predicate::IsNull(_) => UNKNOWN,
    }
}

impl Zones {
    fn may(&self, comparison: Comparison, literal: &Literal, row: u64) -> May {
        let (mut found, mut dense) = (May { be_true: false, be_false: false }, false);
        let mut add = |may: May| {
            found = May { be_true: found.be_true || may.be_true, be_false: found.be_false || may.be_false };
        };
        for zone in self.parts.iter().filter(|zone| zone.rows.contains(&row)) {
            dense |= zone.dense;
            add(zone.values.map_or(UNKNOWN, |values| among(&values, comparison, literal)));
        }
        if !dense {
            // Rows that nobody wrote.
            let zero = Some((Extreme::Unsigned(0), 0));
            let zeros = Statistics { count: 1, nan: 0, min: zero, max: zero, sum: 0.0 };
            add(if self.fill_is_zero { among(&zeros, comparison, literal) } else { UNKNOWN });
        }
        found
    }
}

/// What a comparison may be of values between a smallest and a largest one.
fn among(values: &Statistics, comparison: Comparison, literal: &Literal) -> May {
    // Of what is not a number, all is false but that it differs.
    let of_nan = comparison == Comparison::NotEqual;
    let (mut be_true, mut be_false) = (values.nan > 0 && of_nan, values.nan > 0 && !of_nan);
    if let (Some((min, _)), Some((max, _))) = (values.min, values.max) {
        let (Some(min), Some(max)) = (order(min, literal), order(max, literal)) else { return UNKNOWN };
        // Which ways values may compare with the literal.
        let less = min == Ordering::Less;
        let greater = max == Ordering::Greater;
        let equal = min != Ordering::Greater && max != Ordering::Less;
        for (possible, way) in
            [(less, Ordering::Less), (equal, Ordering::Equal), (greater, Ordering::Greater)]
        {
            let holds = comparison.holds(Some(way));
            be_true |= possible && holds;
            be_false |= possible && !holds;
        }
    }
    May { be_true, be_false }
}

/// How a value compares with a literal, exactly; `None` for those that do not compare.
fn order(value: Extreme, literal: &Literal) -> Option<Ordering> {
    let whole = match value {
        Extreme::Signed(value) => Some(i128::from(value)),
        Extreme::Unsigned(value) => Some(i128::from(value)),
        Extreme::Float(_) => None,
    };
    let number = match literal {
        Literal::Whole(number) => Some(*number),
        Literal::Truth(truth) => Some(i128::from(*truth)),
        Literal::Real(_) => None,
        Literal::Text(_) => return None,
    };
    match (whole, number, value, literal) {
        (Some(value), Some(number), _, _) => Some(value.cmp(&number)),
        (Some(value), None, _, Literal::Real(real)) => beside(value, *real),
        (None, Some(number), Extreme::Float(value), _) => beside(number, value).map(Ordering::reverse),
        (None, None, Extreme::Float(value), Literal::Real(real)) => value.partial_cmp(real),
        _ => None,
    }
}

/// A whole number beside any other.
#[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^100")]
fn beside(whole: i128, real: f64) -> Option<Ordering> {
    if real.is_nan() {
        return None;
    }
    let clamped = real.clamp(-1e30, 1e30);
    let floor = clamped.floor();
    Some(match whole.cmp(&(floor as i128)) {
        Ordering::Equal if floor < clamped => Ordering::Less,
        order => order,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, often of one")]

    use super::*;
    use serde_json::json;

    fn zone(rows: Range<u64>, min: f64, max: f64, nan: u64) -> Zone {
        let extreme = |value| Some((Extreme::Float(value), 0));
        let values = Statistics { count: 10, nan, min: extreme(min), max: extreme(max), sum: 0.0 };
        Zone { rows, dense: true, values: Some(values) }
    }

    #[test]
    fn rows_that_may_be_wanted() {
        let parts = vec![zone(0..10, 1.0, 5.0, 0), zone(10..20, 6.0, 9.0, 1), zone(20..25, 7.0, 7.0, 0)];
        let columns = BTreeMap::from([("x".to_owned(), Zones { parts, fill_is_zero: true })]);
        let check = |predicate: serde_json::Value, expected: &[Range<u64>]| {
            let parsed = Predicate::parse(&predicate).unwrap();
            assert_eq!(kept_of(&columns, &parsed, &(0..30)), expected, "{predicate}");
        };
        check(json!([["x", ">", 5]]), &[10..25]);
        check(json!([["x", ">=", 5]]), &[0..25]);
        check(json!([["x", "<", 0.5]]), &[25..30]);
        check(json!([["x", "==", 7]]), &[10..25]);
        check(json!([["x", "!=", 7]]), &[0..20, 25..30]);
        check(json!({"not": [["x", "<", 8]]}), &[10..20]);
        check(json!({"not": [["x", "!=", 7]]}), &[10..25]);
        check(json!([["x", "in", [2, 100]]]), &[0..10]);
        check(json!({"or": [["x", ">", 8], ["x", "<", 2]]}), &[0..20, 25..30]);
        check(json!([["x", ">", 8], ["y", "<", 2]]), &[10..20]);
        check(json!([["y", "<", 2]]), &[0..30]);
        check(json!([]), &[0..30]);
        check(json!({"or": []}), &[]);
        check(json!([["x", "is null"]]), &[0..30]);
    }

    #[test]
    fn numbers_are_compared_exactly() {
        let check = |value, literal, expected| assert_eq!(order(value, &literal), expected);
        check(Extreme::Signed(-1), Literal::Whole(-1), Some(Ordering::Equal));
        check(Extreme::Unsigned(u64::MAX), Literal::Whole(i128::from(u64::MAX) - 1), Some(Ordering::Greater));
        check(Extreme::Signed(1), Literal::Real(1.5), Some(Ordering::Less));
        check(
            Extreme::Signed((1 << 53) + 1),
            Literal::Real(9_007_199_254_740_992.0),
            Some(Ordering::Greater),
        );
        check(Extreme::Float(1.5), Literal::Whole(1), Some(Ordering::Greater));
        check(Extreme::Float(f64::INFINITY), Literal::Whole(i128::from(u64::MAX)), Some(Ordering::Greater));
        check(Extreme::Float(0.1), Literal::Real(0.1), Some(Ordering::Equal));
        check(Extreme::Float(0.1), Literal::Text("a".into()), None);
    }
}
