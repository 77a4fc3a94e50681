//! The four number types, and the integers as which they are coded.

/// Two's complement integer.
pub(super) trait Integer: Copy + Default {
    /// Number of bits, and number of bits needed to store a bit count.
    const BITS: u32;
    const COUNT_BITS: u32;

    /// Converts from negabinary (base -2).
    fn from_negabinary(digits: u64) -> Self;
    /// Sum, difference and half, wrapping.
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn half(self) -> Self;
}

impl Integer for i32 {
    const BITS: u32 = 32;
    const COUNT_BITS: u32 = 5;

    #[inline]
    fn from_negabinary(digits: u64) -> Self {
        let [a, b, c, d, ..] = digits.to_le_bytes();
        (u32::from_le_bytes([a, b, c, d]) ^ 0xaaaa_aaaa).wrapping_sub(0xaaaa_aaaa).cast_signed()
    }

    #[inline]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    #[inline]
    fn half(self) -> Self {
        self >> 1
    }
}

impl Integer for i64 {
    const BITS: u32 = 64;
    const COUNT_BITS: u32 = 6;

    #[inline]
    fn from_negabinary(digits: u64) -> Self {
        (digits ^ 0xaaaa_aaaa_aaaa_aaaa).wrapping_sub(0xaaaa_aaaa_aaaa_aaaa).cast_signed()
    }

    #[inline]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    #[inline]
    fn half(self) -> Self {
        self >> 1
    }
}

/// Element of an array.
pub(super) trait Value: Copy + Default {
    /// Integer type of its coding.
    type Integer: Integer;
    /// Number of exponent bits; 0 for integers.
    const EXPONENT_BITS: u32;

    /// Returns the weight of an integer unit in a block whose values are all below 2 to the power of
    /// `exponent`. 1 for integers.
    fn scale(exponent: i32) -> Self;
    /// Returns an integer times its weight.
    fn scaled(integer: Self::Integer, scale: Self) -> Self;
    /// Reinterprets the integer's bits as a number; for negative ones all bits except the sign are inverted.
    fn from_integer(integer: Self::Integer) -> Self;
    /// Writes the value.
    fn write(self, swapped: bool, to: &mut [u8]);
}

impl Value for i32 {
    type Integer = Self;
    const EXPONENT_BITS: u32 = 0;

    fn scale(_: i32) -> Self {
        1
    }

    #[inline]
    fn scaled(integer: Self, _: Self) -> Self {
        integer
    }

    #[inline]
    fn from_integer(integer: Self) -> Self {
        integer
    }

    #[inline]
    fn write(self, swapped: bool, to: &mut [u8]) {
        write(if swapped { self.to_be_bytes() } else { self.to_le_bytes() }, to);
    }
}

impl Value for i64 {
    type Integer = Self;
    const EXPONENT_BITS: u32 = 0;

    fn scale(_: i32) -> Self {
        1
    }

    #[inline]
    fn scaled(integer: Self, _: Self) -> Self {
        integer
    }

    #[inline]
    fn from_integer(integer: Self) -> Self {
        integer
    }

    #[inline]
    fn write(self, swapped: bool, to: &mut [u8]) {
        write(if swapped { self.to_be_bytes() } else { self.to_le_bytes() }, to);
    }
}

impl Value for f32 {
    type Integer = i32;
    const EXPONENT_BITS: u32 = 8;

    #[expect(clippy::cast_possible_truncation, reason = "powers of two within its range are exact")]
    fn scale(exponent: i32) -> Self {
        power_of_two(exponent.saturating_sub(30), -149) as Self
    }

    #[inline]
    fn scaled(integer: i32, scale: Self) -> Self {
        integer as Self * scale
    }

    #[inline]
    fn from_integer(integer: i32) -> Self {
        Self::from_bits((if integer < 0 { integer ^ i32::MAX } else { integer }).cast_unsigned())
    }

    #[inline]
    fn write(self, swapped: bool, to: &mut [u8]) {
        write(if swapped { self.to_be_bytes() } else { self.to_le_bytes() }, to);
    }
}

impl Value for f64 {
    type Integer = i64;
    const EXPONENT_BITS: u32 = 11;

    fn scale(exponent: i32) -> Self {
        power_of_two(exponent.saturating_sub(62), -1074)
    }

    #[inline]
    fn scaled(integer: i64, scale: Self) -> Self {
        integer as Self * scale
    }

    #[inline]
    fn from_integer(integer: i64) -> Self {
        Self::from_bits((if integer < 0 { integer ^ i64::MAX } else { integer }).cast_unsigned())
    }

    #[inline]
    fn write(self, swapped: bool, to: &mut [u8]) {
        write(if swapped { self.to_be_bytes() } else { self.to_le_bytes() }, to);
    }
}

/// Returns 2 to a power below 1024; 0 below the least one.
fn power_of_two(exponent: i32, least: i32) -> f64 {
    if exponent < least {
        return 0.0;
    }
    match u64::try_from(exponent.saturating_add(1023)) {
        Ok(biased @ 1..) => f64::from_bits(biased << 52),
        _ => f64::from_bits(1_u64.unbounded_shl(exponent.saturating_add(1074).unsigned_abs())),
    }
}

#[inline]
fn write<const SIZE: usize>(bytes: [u8; SIZE], to: &mut [u8]) {
    if let Some(to) = to.first_chunk_mut() {
        *to = bytes;
    }
}
