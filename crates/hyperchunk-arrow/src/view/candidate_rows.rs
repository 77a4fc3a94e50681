//! Zone pruning: finds rows that cannot match, by the statistics that a store's writers or
//! `hyperchunk analyze` recorded. These rows are not read.

use super::{Table, Zones};
use crate::predicate::{Comparison, Literal, Nan, Predicate, compare_real_to_integer};
use hyperchunk::Result;
use hyperchunk_store::Extreme;
use hyperchunk_store::query::Bounds;
use std::cmp::Ordering;
use std::ops::Range;

/// The possible results of a predicate in some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PossibleResults {
    be_true: bool,
    be_false: bool,
}

const EITHER: PossibleResults = PossibleResults { be_true: true, be_false: true };

impl Predicate {
    /// Returns the row ranges of a table in which it may be true; sorted and disjoint.
    ///
    /// # Errors
    /// Errors of reading the statistics.
    pub fn candidate_rows(&self, table: &Table) -> Result<Vec<Range<u64>>> {
        let columns: Vec<&str> = self.columns().into_iter().collect();
        let known = table.zones(&columns)?;
        let all = || std::iter::once(0..table.rows()).collect();
        Ok(known.map_or_else(all, |zones| self.candidate_rows_in(&zones)))
    }

    fn candidate_rows_in(&self, zones: &Zones) -> Vec<Range<u64>> {
        let mut candidate_rows: Vec<Range<u64>> = Vec::new();
        let mut start = 0;
        for (possible_results, end) in self.may_be_true(zones, Nan::Unordered).into_iter().zip(&zones.ends) {
            if possible_results {
                match candidate_rows.last_mut() {
                    Some(last) if last.end == start => last.end = *end,
                    _ => candidate_rows.push(start..*end),
                }
            }
            start = *end;
        }
        candidate_rows
    }

    /// Returns for each zone of rows whether it may be true for one of them.
    #[must_use]
    pub fn may_be_true(&self, zones: &Zones, nan: Nan) -> Vec<bool> {
        (0..zones.ends.len()).map(|place| possible_results(zones, self, place, nan).be_true).collect()
    }
}

/// Returns the possible results of a predicate in a zone.
fn possible_results(zones: &Zones, predicate: &Predicate, place: usize, nan: Nan) -> PossibleResults {
    let of = |name: &str| {
        let column = zones.columns.iter().find(|column| column.name == name);
        column.and_then(|column| column.bounds.get(place).copied().flatten())
    };
    let compared = |name: &str, comparison, literal: &Literal| {
        of(name).map_or(EITHER, |bounds| compare_bounds(&bounds, comparison, literal, nan))
    };
    let each = |parts: &[Predicate]| {
        parts.iter().map(|part| possible_results(zones, part, place, nan)).collect::<Vec<_>>()
    };
    match predicate {
        Predicate::And(parts) => all(&each(parts)),
        Predicate::Or(parts) => any(&each(parts)),
        Predicate::Not(part) => possible_results(zones, part, place, nan).negated(),
        Predicate::Compare(name, comparison, literal) => compared(name, *comparison, literal),
        Predicate::In(name, literals) => {
            let equal = literals.iter().map(|literal| compared(name, Comparison::Equal, literal));
            any(&equal.collect::<Vec<_>>())
        }
        Predicate::IsNull(_) => EITHER,
    }
}

fn all(parts: &[PossibleResults]) -> PossibleResults {
    PossibleResults {
        be_true: parts.iter().all(|part| part.be_true),
        be_false: parts.iter().any(|part| part.be_false),
    }
}

fn any(parts: &[PossibleResults]) -> PossibleResults {
    PossibleResults {
        be_true: parts.iter().any(|part| part.be_true),
        be_false: parts.iter().all(|part| part.be_false),
    }
}

impl PossibleResults {
    fn negated(self) -> Self {
        Self { be_true: self.be_false, be_false: self.be_true }
    }
}

/// Returns the possible results of a comparison with values within bounds.
fn compare_bounds(bounds: &Bounds, comparison: Comparison, literal: &Literal, nan: Nan) -> PossibleResults {
    let of_nan = comparison.holds(match nan {
        Nan::Unordered => None,
        Nan::Largest => Some(Ordering::Greater),
    });
    let (mut be_true, mut be_false) = (bounds.nan && of_nan, bounds.nan && !of_nan);
    if let Some((min, max)) = bounds.numbers {
        let (Some(min), Some(max)) = (order(min, literal), order(max, literal)) else { return EITHER };
        // The possible orders of values and the literal.
        let less = min == Ordering::Less;
        let greater = max == Ordering::Greater;
        let equal = min != Ordering::Greater && max != Ordering::Less;
        for (possible, ordering) in
            [(less, Ordering::Less), (equal, Ordering::Equal), (greater, Ordering::Greater)]
        {
            let holds = comparison.holds(Some(ordering));
            be_true |= possible && holds;
            be_false |= possible && !holds;
        }
    }
    PossibleResults { be_true, be_false }
}

/// Compares a value with a literal, exactly; `None` if they are not comparable.
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
        (Some(value), None, _, Literal::Real(real)) if !real.is_nan() => {
            Some(compare_real_to_integer(*real, value).reverse())
        }
        (None, Some(number), Extreme::Float(value), _) if !value.is_nan() => {
            Some(compare_real_to_integer(value, number))
        }
        (None, None, Extreme::Float(value), Literal::Real(real)) => value.partial_cmp(real),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, often of one")]

    use super::*;
    use crate::view::ZonedColumn;
    use serde_json::json;

    fn bounds(low: f64, high: f64, nan: bool) -> Option<Bounds> {
        Some(Bounds::new(Some((Extreme::Float(low), Extreme::Float(high))), nan))
    }

    #[test]
    fn rows_that_may_be_wanted() {
        let zero = bounds(0.0, 0.0, false);
        let parts = [bounds(1.0, 5.0, false), bounds(6.0, 9.0, true), bounds(7.0, 7.0, false), zero, None];
        let column = ZonedColumn { name: "x".to_owned(), bounds: parts.to_vec() };
        let zones = Zones { ends: vec![10, 20, 25, 30, 40], columns: vec![column], bytes_scanned: 0 };
        let check = |predicate: serde_json::Value, expected: &[Range<u64>]| {
            let parsed = Predicate::parse(&predicate).unwrap();
            assert_eq!(parsed.candidate_rows_in(&zones), expected, "{predicate}");
        };
        check(json!([["x", ">", 5]]), &[10..25, 30..40]);
        check(json!([["x", ">=", 5]]), &[0..25, 30..40]);
        check(json!([["x", "<", 0.5]]), &[25..40]);
        check(json!([["x", "==", 7]]), &[10..25, 30..40]);
        check(json!([["x", "!=", 7]]), &[0..20, 25..40]);
        check(json!({"not": [["x", "<", 8]]}), &[10..20, 30..40]);
        check(json!({"not": [["x", "!=", 7]]}), &[10..25, 30..40]);
        check(json!([["x", "in", [2, 100]]]), &[0..10, 30..40]);
        check(json!({"or": [["x", ">", 8], ["x", "<", 2]]}), &[0..20, 25..40]);
        check(json!([["x", ">", 8], ["y", "<", 2]]), &[10..20, 30..40]);
        check(json!([["y", "<", 2]]), &[0..40]);
        check(json!([]), &[0..40]);
        check(json!({"or": []}), &[]);
        check(json!([["x", "is null"]]), &[0..40]);
        let large = Predicate::parse(&json!([["x", ">", 100]])).unwrap();
        assert_eq!(large.may_be_true(&zones, Nan::Unordered), [false, false, false, false, true]);
        assert_eq!(large.may_be_true(&zones, Nan::Largest), [false, true, false, false, true]);
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
        check(Extreme::Signed(1), Literal::Real(f64::NAN), None);
        check(Extreme::Float(f64::NAN), Literal::Whole(1), None);
        check(Extreme::Signed(1), Literal::Real(f64::NEG_INFINITY), Some(Ordering::Greater));
    }
}
