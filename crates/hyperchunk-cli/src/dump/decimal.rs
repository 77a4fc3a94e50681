//! The shortest decimal number from which a binary one can be read back, for mantissas of up to 128 bits. Source:
//! Steele and White, *How to Print Floating-Point Numbers Accurately* (1990), with free format.

use std::cmp::Ordering;

/// Maximum magnitude of a binary exponent. Beyond it, the digits would take too long.
pub(super) const MAX_EXPONENT: i64 = 20_000;

/// Decimal number `0.DIGITS × 10^point`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    /// The digits; the first one is not 0.
    pub(super) digits: String,
    /// Position of the decimal point, counted from the first digit.
    pub(super) point: i64,
}

impl Decimal {
    /// Converts `mantissa × 2^exponent`. Its neighbours are at a distance of `2^exponent`; if `narrow_below`,
    /// the lower one is at half of that. `None` for 0, and for exponents beyond [`MAX_EXPONENT`].
    pub(super) fn new(mantissa: u128, exponent: i64, narrow_below: bool) -> Option<Self> {
        let shift = |count: i64| u32::try_from(count).unwrap_or(0);
        if mantissa == 0 || !(-MAX_EXPONENT..=MAX_EXPONENT).contains(&exponent) {
            return None;
        }
        // The number is `number / scale`, and the halves of its distances `above / scale` and `below / scale`.
        let extra = 1 + i64::from(narrow_below);
        let mut number = Big::new(mantissa).shifted(shift(exponent.max(0) + extra));
        let mut scale = Big::new(1).shifted(shift((-exponent).max(0) + extra));
        let mut below = Big::new(1).shifted(shift(exponent.max(0)));
        let mut above = Big::new(1).shifted(shift(exponent.max(0) + extra - 1));
        let length = i64::from(u128::BITS - mantissa.leading_zeros());
        let mut point = floor_log10_of_power(exponent + length - 1) + 1;
        match u32::try_from(point) {
            Ok(point) => scale.raise(point),
            Err(_) => {
                let count = shift(-point);
                [&mut number, &mut below, &mut above].into_iter().for_each(|part| part.raise(count));
            }
        }
        // A tie is read back as the number with an even mantissa.
        let is_even = mantissa.is_multiple_of(2);
        let exceeds = |number: &Big, above: &Big, scale: &Big| match number.plus(above).compare(scale) {
            Ordering::Greater => true,
            Ordering::Equal => is_even,
            Ordering::Less => false,
        };
        if exceeds(&number, &above, &scale) {
            point += 1;
        } else {
            [&mut number, &mut below, &mut above].into_iter().for_each(|part| part.multiply(10));
        }
        let mut digits = String::new();
        loop {
            let mut digit = 0_u8;
            while digit < 9 && number.compare(&scale) != Ordering::Less {
                number.subtract(&scale);
                digit += 1;
            }
            let low = match number.compare(&below) {
                Ordering::Less => true,
                Ordering::Equal => is_even,
                Ordering::Greater => false,
            };
            let high = exceeds(&number, &above, &scale);
            let up = match (low, high) {
                (false, false) => {
                    digits.push(char::from(b'0' + digit));
                    [&mut number, &mut below, &mut above].into_iter().for_each(|part| part.multiply(10));
                    continue;
                }
                (true, false) => false,
                (false, true) => true,
                (true, true) => number.plus(&number).compare(&scale) != Ordering::Less,
            };
            digits.push(char::from(b'0' + digit + u8::from(up)));
            return Some(Self { digits, point });
        }
    }

    /// Returns the number without a sign: with an exponent, as Rust writes it, or without one if `is_plain`.
    pub(super) fn text(&self, is_plain: bool) -> String {
        let Self { digits, point } = self;
        let (first, rest) = digits.split_at_checked(1).unwrap_or((digits, ""));
        if !is_plain {
            let dot = if rest.is_empty() { "" } else { "." };
            return format!("{first}{dot}{rest}e{}", point - 1);
        }
        match usize::try_from(*point) {
            Ok(whole @ 1..) => match digits.split_at_checked(whole) {
                Some((whole, "")) => whole.to_owned(),
                Some((whole, fraction)) => format!("{whole}.{fraction}"),
                None => format!("{digits}{}", "0".repeat(whole - digits.len())),
            },
            _ => {
                let zeros = usize::try_from(point.unsigned_abs()).unwrap_or(0);
                format!("0.{}{digits}", "0".repeat(zeros))
            }
        }
    }
}

/// Returns the largest integer that is not greater than `log10(2^power)`. The factor is accurate enough for all
/// powers up to 100,000.
fn floor_log10_of_power(power: i64) -> i64 {
    power.saturating_mul(30_102_999_566_398).div_euclid(100_000_000_000_000)
}

/// Natural number of any size: 32 bits in each part, the least significant part first, and no zero at the end.
#[derive(Debug, Clone)]
struct Big(Vec<u32>);

impl Big {
    fn new(value: u128) -> Self {
        let bytes = value.to_le_bytes();
        let parts = bytes
            .chunks_exact(4)
            .map(|part| part.iter().rev().fold(0, |value: u32, byte| value << 8 | u32::from(*byte)));
        Self(parts.collect()).trimmed()
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    /// Returns the lower and the upper 32 bits.
    fn halves(value: u64) -> (u32, u32) {
        let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
        (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
    }

    fn multiply(&mut self, factor: u32) {
        let mut carry = 0;
        for part in &mut self.0 {
            let product = u64::from(*part) * u64::from(factor) + u64::from(carry);
            (*part, carry) = Self::halves(product);
        }
        if carry > 0 {
            self.0.push(carry);
        }
    }

    /// Multiplies by a power of ten.
    fn raise(&mut self, mut power: u32) {
        while power >= 9 {
            self.multiply(1_000_000_000);
            power -= 9;
        }
        self.multiply(10_u32.pow(power));
    }

    fn shifted(mut self, bits: u32) -> Self {
        self.multiply(1 << (bits % 32));
        let zeros = usize::try_from(bits / 32).unwrap_or(0);
        self.0.splice(0..0, std::iter::repeat_n(0, zeros));
        self.trimmed()
    }

    fn plus(&self, other: &Self) -> Self {
        let length = self.0.len().max(other.0.len());
        let mut sum = Vec::with_capacity(length + 1);
        let mut carry = 0;
        for at in 0..length {
            let part = |number: &Self| u64::from(number.0.get(at).copied().unwrap_or(0));
            let (low, high) = Self::halves(part(self) + part(other) + u64::from(carry));
            sum.push(low);
            carry = high;
        }
        if carry > 0 {
            sum.push(carry);
        }
        Self(sum)
    }

    /// Subtracts a number that is not greater.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (at, part) in self.0.iter_mut().enumerate() {
            let (less, first) = part.overflowing_sub(other.0.get(at).copied().unwrap_or(0));
            let (less, second) = less.overflowing_sub(u32::from(borrow));
            (*part, borrow) = (less, first || second);
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        let lengths = self.0.len().cmp(&other.0.len());
        lengths.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts a finite, positive double.
    fn of_double(value: f64) -> Decimal {
        let bits = value.to_bits();
        let (raw, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
        let exponent = i64::try_from(raw.max(1)).unwrap() - 1075;
        let mantissa = u128::from(if raw == 0 { fraction } else { fraction | 1 << 52 });
        Decimal::new(mantissa, exponent, fraction == 0 && raw > 1).unwrap()
    }

    #[test]
    fn test_doubles_are_as_rust_prints_them() {
        let mut bits = 1_u64;
        let edges = [1.0, 10.0, 0.1, 1e23, 9.5e-5, 5e-324, f64::MIN_POSITIVE, f64::MAX, 9007199254740993.0];
        let random = std::iter::repeat_with(|| {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from_bits(bits >> 1)
        });
        let powers = (-1074..1024).map(|power| 2_f64.powi(power)).filter(|power| *power > 0.0);
        let random = random.filter(|value| value.is_finite() && *value > 0.0).take(5000);
        for value in edges.into_iter().chain(powers).chain(random) {
            assert_eq!(of_double(value).text(false), format!("{value:e}"));
            assert_eq!(of_double(value).text(true), format!("{value}"));
        }
    }

    #[test]
    fn test_numbers_beyond_doubles() {
        let text = |mantissa, exponent| Decimal::new(mantissa, exponent, false).unwrap().text(false);
        // The 80-bit numbers that are nearest to 1e4000, 1e-4000 and 1/3.
        assert_eq!(text(0xd1ba_8323_fe55_8c61, 13_224), "1e4000");
        assert_eq!(text(0x9c3d_7386_4f38_05c0, -13_351), "1e-4000");
        assert_eq!(text(0xaaaa_aaaa_aaaa_aaab, -65), "3.3333333333333333334e-1");
        assert_eq!(text(u64::MAX.into(), 0), "1.8446744073709551615e19");
        assert_eq!(Decimal::new(0, 0, false), None);
        assert_eq!(Decimal::new(1, MAX_EXPONENT + 1, false), None);
    }
}
