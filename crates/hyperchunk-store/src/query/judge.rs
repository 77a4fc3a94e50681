//! Evaluation of predicates: on values, and on zones of which only the statistics are known.

use super::elements::Values;
use super::predicate::{Class, Comparison, Number, Predicate, Term};
use crate::{Extreme, Statistics};
use std::cmp::Ordering;

/// Possible outcomes of a predicate on a set of values: whether some may match, and whether some
/// may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcomes {
    pub(crate) yes: bool,
    pub(crate) no: bool,
}

const UNKNOWN: Outcomes = Outcomes { yes: true, no: true };

impl Predicate {
    /// Evaluates the predicate on statistics of elements of `size` bytes. It never excludes an
    /// outcome that some value has.
    pub(crate) fn judge(&self, statistics: &Statistics, size: usize) -> Outcomes {
        if statistics.count == 0 {
            return Outcomes { yes: false, no: false };
        }
        // Inconsistent statistics are ignored.
        if statistics.nan > statistics.count {
            return UNKNOWN;
        }
        judge(&self.term, statistics, size)
    }

    /// Evaluates the predicate on each value.
    pub(crate) fn test(&self, values: &Values, out: &mut Vec<bool>) {
        out.clear();
        out.resize(values.len(), false);
        test(&self.term, values, out);
    }
}

fn judge(term: &Term, statistics: &Statistics, size: usize) -> Outcomes {
    match term {
        Term::Compare(comparison, number) => compare(*comparison, *number, statistics, size),
        Term::Is(class) => is(*class, statistics),
        Term::Not(term) => {
            let Outcomes { yes, no } = judge(term, statistics, size);
            Outcomes { yes: no, no: yes }
        }
        Term::And(terms) => terms.iter().fold(Outcomes { yes: true, no: false }, |all, term| {
            let one = judge(term, statistics, size);
            Outcomes { yes: all.yes && one.yes, no: all.no || one.no }
        }),
        Term::Or(terms) => terms.iter().fold(Outcomes { yes: false, no: true }, |all, term| {
            let one = judge(term, statistics, size);
            Outcomes { yes: all.yes || one.yes, no: all.no && one.no }
        }),
    }
}

fn compare(comparison: Comparison, number: Number, statistics: &Statistics, size: usize) -> Outcomes {
    let mut maybe = Outcomes { yes: false, no: false };
    if statistics.nan > 0 {
        let holds = comparison.holds(None);
        maybe = Outcomes { yes: holds, no: !holds };
    }
    if statistics.nan == statistics.count {
        return maybe;
    }
    let (Some((low, _)), Some((high, _))) = (statistics.min, statistics.max) else { return UNKNOWN };
    let order = |value: Extreme| match value {
        Extreme::Float(value) => value.partial_cmp(&number.rounded(size)),
        Extreme::Signed(value) => number.compared(value.into()),
        Extreme::Unsigned(value) => number.compared(value.into()),
    };
    let (low, high) = (order(low), order(high));
    let (Some(least), Some(most)) = (low, high) else {
        // The number is NaN.
        let holds = comparison.holds(None);
        return Outcomes { yes: maybe.yes || holds, no: maybe.no || !holds };
    };
    let (yes, no) = match comparison {
        Comparison::Less => (least.is_lt(), most.is_ge()),
        Comparison::LessOrEqual => (least.is_le(), most.is_gt()),
        Comparison::Greater => (most.is_gt(), least.is_le()),
        Comparison::GreaterOrEqual => (most.is_ge(), least.is_lt()),
        Comparison::Equal => (least.is_le() && most.is_ge(), least.is_ne() || most.is_ne()),
        Comparison::NotEqual => (least.is_ne() || most.is_ne(), least.is_le() && most.is_ge()),
    };
    Outcomes { yes: maybe.yes || yes, no: maybe.no || no }
}

fn is(class: Class, statistics: &Statistics) -> Outcomes {
    let numbers = statistics.count > statistics.nan;
    let infinite = |extreme: Option<(Extreme, u64)>| matches!(extreme, Some((Extreme::Float(value), _)) if value.is_infinite());
    let (low, high) = (infinite(statistics.min), infinite(statistics.max));
    let some = low || high;
    // Between two different infinities there may be finite numbers; if minimum and maximum are the
    // same infinity, there are no finite numbers.
    let same = statistics.min.map(|(value, _)| value) == statistics.max.map(|(value, _)| value);
    let all = some && same;
    let nan = statistics.nan > 0;
    match class {
        Class::NotANumber => Outcomes { yes: nan, no: numbers },
        Class::Infinite => Outcomes { yes: numbers && some, no: nan || (numbers && !all) },
        Class::Finite => Outcomes { yes: numbers && !all, no: nan || some },
    }
}

fn test(term: &Term, values: &Values, out: &mut [bool]) {
    match term {
        Term::Compare(comparison, number) => match values {
            Values::Floats(values, size) => {
                let number = number.rounded(*size);
                each(values, out, |value| comparison.holds(value.partial_cmp(&number)));
            }
            Values::Integers(values) => each(values, out, |value| comparison.holds(number.compared(*value))),
        },
        Term::Is(class) => match values {
            Values::Floats(values, _) => each(values, out, |value| match class {
                Class::NotANumber => value.is_nan(),
                Class::Infinite => value.is_infinite(),
                Class::Finite => value.is_finite(),
            }),
            Values::Integers(_) => out.fill(*class == Class::Finite),
        },
        Term::Not(term) => {
            test(term, values, out);
            out.iter_mut().for_each(|held| *held = !*held);
        }
        Term::And(terms) | Term::Or(terms) => {
            let and = matches!(term, Term::And(_));
            out.fill(and);
            let mut one = vec![false; out.len()];
            for term in terms {
                test(term, values, &mut one);
                for (held, one) in out.iter_mut().zip(&one) {
                    *held = if and { *held && *one } else { *held || *one };
                }
            }
        }
    }
}

fn each<T>(values: &[T], out: &mut [bool], holds: impl Fn(&T) -> bool) {
    out.iter_mut().zip(values).for_each(|(out, value)| *out = holds(value));
}

/// Compares two extremes of one dataset.
pub(crate) fn order(one: Extreme, other: Extreme) -> Ordering {
    match (one, other) {
        (Extreme::Signed(one), Extreme::Signed(other)) => one.cmp(&other),
        (Extreme::Unsigned(one), Extreme::Unsigned(other)) => one.cmp(&other),
        (one, other) => one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Elements;
    use hyperchunk::model::{ByteOrder, Datatype};

    /// Checks that the evaluation on statistics never contradicts the evaluation on values.
    #[track_caller]
    fn check(datatype: &Datatype, bytes: &[u8], texts: &[&str]) {
        let elements = Elements::from_datatype(datatype).unwrap();
        let statistics = elements.statistics(bytes);
        let (values, mut held) = (elements.values(bytes), Vec::new());
        for text in texts {
            let predicate: Predicate = text.parse().unwrap();
            predicate.test(&values, &mut held);
            let maybe = predicate.judge(&statistics, elements.size());
            assert!(maybe.yes || !held.contains(&true), "{text}: {statistics:?}");
            assert!(maybe.no || !held.contains(&false), "{text}: {statistics:?}");
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "numbers of 32 bits are wanted")]
    fn nothing_that_may_be_there_is_judged_away() {
        let texts = [
            "value > 1",
            "value >= 1",
            "value < 1",
            "value <= 1",
            "value == 1",
            "value != 1",
            "value == 0.5",
            "value > nan",
            "value != nan",
            "not value > 1",
            "not (value < 1 or value > 2)",
            "0 < value < 2",
            "isnan(value)",
            "isinf(value)",
            "isfinite(value)",
            "not isnan(value)",
            "not isfinite(value)",
            "value == -0.0",
            "value < inf",
            "value <= -inf",
            "value > 1 and not value > 1.5",
            "value == 0.1",
            "value > 9223372036854775806",
            "value == 18446744073709551615",
            "value < -9223372036854775807",
            "value > 9.3e18",
            "value != 9223372036854775807",
        ];
        let floats: [&[f64]; 10] = [
            &[],
            &[1.0],
            &[1.0, 1.0],
            &[0.0, -0.0],
            &[f64::NAN],
            &[f64::NAN, 1.0],
            &[f64::INFINITY],
            &[f64::INFINITY, f64::NEG_INFINITY],
            &[f64::INFINITY, f64::NAN, 0.1],
            &[0.5, 1.5, 2.5],
        ];
        for values in floats {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let of = |little: Vec<u8>| {
                    if order == ByteOrder::Big { little.into_iter().rev().collect() } else { little }
                };
                let bytes: Vec<u8> =
                    values.iter().flat_map(|value| of(value.to_le_bytes().to_vec())).collect();
                check(&Datatype::ieee(8, order), &bytes, &texts);
                let bytes: Vec<u8> =
                    values.iter().flat_map(|value| of((*value as f32).to_le_bytes().to_vec())).collect();
                check(&Datatype::ieee(4, order), &bytes, &texts);
            }
        }
        for values in [[i64::MIN, i64::MAX], [i64::MAX - 1, i64::MAX], [1, 1], [0, 2], [-1, 0]] {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            check(&Datatype::integer(8, true, ByteOrder::Little), &bytes, &texts);
            check(&Datatype::integer(8, false, ByteOrder::Little), &bytes, &texts);
            check(&Datatype::integer(1, true, ByteOrder::Little), &bytes, &texts);
        }
    }

    #[test]
    fn zones_are_judged_sharply() {
        let of = |values: &[f64]| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            Elements::from_datatype(&Datatype::ieee(8, ByteOrder::Little)).unwrap().statistics(&bytes)
        };
        let may = |text: &str, values: &[f64]| text.parse::<Predicate>().unwrap().judge(&of(values), 8).yes;
        assert!(!may("value > 12", &[1.0, 12.0, f64::NAN]));
        assert!(!may("not value <= 12", &[1.0, 12.0]));
        assert!(may("not value <= 12", &[1.0, f64::NAN]));
        assert!(!may("value != 5", &[5.0, 5.0]));
        assert!(!may("isnan(value) or value < 0", &[0.0, 3.0]));
        assert!(!may("value == 2 and value == 3", &[2.0, 2.5]));
        assert!(!may("isfinite(value)", &[f64::INFINITY, f64::NAN]));
    }
}
