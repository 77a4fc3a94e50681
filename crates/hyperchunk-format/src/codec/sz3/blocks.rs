//! Prediction block by block: Lorenzo, or polynomial regression of degree one or two.

use super::quantizer::{Indices, Quantizer};
use super::{Configuration, check_dims, damaged, huffman};
use crate::codec::error_bounded::grid::{Block, Grid, Lorenzo, MAX_AXES};
use crate::codec::error_bounded::value::Value;
use crate::codec::filled;
use crate::{Cursor, Error, Result};

pub(super) fn decode<T: Value>(
    cursor: &mut Cursor<'_>,
    configuration: &Configuration,
    output: &mut Vec<u8>,
) -> Result<()> {
    let dims = &configuration.dims;
    let rank = dims.len();
    check_dims(cursor, dims)?;
    let size = cursor.u32()? as usize;
    let layers = if configuration.lorenzo2 && rank < 4 { 2 } else { 1 };
    if size < layers {
        return Err(damaged(format!("blocks of {size} elements")));
    }
    let mut grid = Grid::<T>::new(dims, layers)?;
    let blocks = dims.iter().fold(1, |product: usize, side| product.saturating_mul(side.div_ceil(size)));

    let steps: Vec<_> = (0..rank).map(|axis| grid.distance(&unit(axis, rank))).collect();
    let simple = Predictor::Lorenzo(Lorenzo::new(&steps, 1));
    let mut predictors = Vec::new();
    if configuration.lorenzo {
        cursor.skip(1)?;
        predictors.push(Predictor::Lorenzo(Lorenzo::new(&steps, 1)));
    }
    if configuration.lorenzo2 {
        cursor.skip(1)?;
        predictors.push(Predictor::Lorenzo(Lorenzo::new(&steps, layers)));
    }
    if configuration.regression {
        predictors.push(Predictor::Plane(Coefficients::read(cursor, rank, 1, blocks)?));
    }
    if configuration.regression2 {
        if rank == 4 {
            return Err(Error::unsupported("an SZ3 chunk of four axes with regression of degree two"));
        }
        predictors.push(Predictor::Quadric(Coefficients::read(cursor, rank, 2, blocks)?));
    }
    let mut selection = Vec::new();
    if predictors.len() > 1 {
        let count = usize::try_from(cursor.u64()?).ok().filter(|count| *count <= blocks);
        let count = count.ok_or_else(|| damaged("more choices than blocks"))?;
        if count != 0 {
            selection = huffman(cursor, count)?;
        }
    } else {
        selection = filled(0, blocks)?;
    }
    let mut quantizer = Quantizer::read::<T>(cursor)?;
    let mut indices = Indices::read(cursor, dims.iter().product())?;

    let mut selection = selection.into_iter();
    for block in grid.blocks(size) {
        let chosen = selection.next().and_then(|number| usize::try_from(number).ok());
        let chosen = chosen.and_then(|number| predictors.get_mut(number));
        let predictor = chosen.ok_or_else(|| damaged("an unknown prediction"))?;
        let predictor = if predictor.prepare(&block, rank)? { &*predictor } else { &simple };
        grid.each(block, |data, index, place| {
            let prediction = predictor.predict(data, index, place, rank);
            quantizer.recover(prediction, indices.next())
        });
    }
    quantizer.check()?;
    T::write(&grid.values()?, output)
}

/// Returns one step along an axis.
fn unit(axis: usize, rank: usize) -> Vec<usize> {
    (0..rank).map(|other| usize::from(other == axis)).collect()
}

/// Predictor for the elements of a block.
enum Predictor<'a, T> {
    Lorenzo(Lorenzo),
    /// Regression of degree one: the last coefficient is the constant.
    Plane(Coefficients<'a, T>),
    /// Regression of degree two: constant, linear and quadratic coefficients.
    Quadric(Coefficients<'a, T>),
}

impl<T: Value> Predictor<'_, T> {
    /// Prepares for a block; returns false if it is too small for this predictor.
    fn prepare(&mut self, block: &Block, rank: usize) -> Result<bool> {
        let (coefficients, smallest) = match self {
            Self::Lorenzo(_) => return Ok(true),
            Self::Plane(coefficients) => (coefficients, 2),
            Self::Quadric(coefficients) => (coefficients, 3),
        };
        if block.sides.iter().rev().take(rank).any(|side| *side < smallest) {
            return Ok(false);
        }
        coefficients.next_block()?;
        Ok(true)
    }

    #[inline]
    fn predict(&self, data: &[T], index: usize, place: [usize; MAX_AXES], rank: usize) -> T {
        let place = || place.into_iter().skip(MAX_AXES.saturating_sub(rank));
        match self {
            Self::Lorenzo(lorenzo) => lorenzo.predict(data, index),
            Self::Plane(coefficients) => {
                let factors = place().chain([1]);
                let terms = coefficients.current.iter().zip(factors);
                terms.fold(T::default(), |sum, (coefficient, factor)| sum.plus_product(*coefficient, factor))
            }
            Self::Quadric(coefficients) => {
                let linear = || place().map(|at| at as f64);
                let squares =
                    linear().enumerate().flat_map(|(axis, a)| linear().skip(axis).map(move |b| a * b));
                let factors = [1.0].into_iter().chain(linear()).chain(squares);
                let terms = coefficients.current.iter().zip(factors);
                terms.fold(T::default(), |sum, (coefficient, factor)| {
                    T::from_f64(sum.to_f64() + factor * coefficient.to_f64())
                })
            }
        }
    }
}

/// Coefficients of a polynomial, stored as differences between blocks.
struct Coefficients<'a, T> {
    current: Vec<T>,
    /// Quantizer of each coefficient: for the constant, the linear or the quadratic terms.
    kinds: Vec<usize>,
    quantizers: Vec<Quantizer<'a>>,
    indices: std::vec::IntoIter<i32>,
}

impl<'a, T: Value> Coefficients<'a, T> {
    fn read(cursor: &mut Cursor<'a>, rank: usize, degree: usize, blocks: usize) -> Result<Self> {
        let kinds = if degree == 1 {
            [vec![1; rank], vec![0]].concat()
        } else {
            let squares = rank.saturating_mul(rank.saturating_add(1)) / 2;
            [vec![0], vec![1; rank], vec![2; squares]].concat()
        };
        cursor.skip(1)?;
        let count = usize::try_from(cursor.u64()?).ok();
        let count = count.filter(|count| *count <= blocks.saturating_mul(kinds.len()));
        let count = count.ok_or_else(|| damaged("more coefficients than blocks have"))?;
        let (mut quantizers, mut indices) = (Vec::new(), Vec::new());
        if count != 0 {
            for _ in 0..=degree {
                quantizers.push(Quantizer::read::<T>(cursor)?);
            }
            indices = huffman(cursor, count)?;
        }
        Ok(Self { current: vec![T::default(); kinds.len()], kinds, quantizers, indices: indices.into_iter() })
    }

    fn next_block(&mut self) -> Result<()> {
        for (coefficient, kind) in self.current.iter_mut().zip(&self.kinds) {
            let (Some(index), Some(quantizer)) = (self.indices.next(), self.quantizers.get_mut(*kind)) else {
                return Err(damaged("its coefficients end early"));
            };
            *coefficient = quantizer.recover(*coefficient, index);
            quantizer.check()?;
        }
        Ok(())
    }
}
