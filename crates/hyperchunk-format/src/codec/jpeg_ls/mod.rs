//! JPEG-LS: markers of an image. Source: ITU-T T.87 (ISO/IEC 14495-1), annexes C and D; T.870 for the refused
//! features.

mod bits;
mod scan;

use crate::codec::filled;
use crate::{Cursor, Error, ErrorKind, Result};
use bits::Bits;
use scan::{Coding, Scan};

/// Interleaving of the components in a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interleave {
    /// One scan for each component.
    None,
    /// Line by line.
    Line,
    /// Sample by sample.
    Sample,
}

/// Image whose scans are not decoded yet.
#[derive(Debug)]
pub(super) struct Image<'a> {
    width: usize,
    height: usize,
    /// Number of components.
    components: usize,
    /// Bits in a sample.
    precision: u32,
    /// Coding parameters before the first scan; 0 for defaults.
    preset: [u16; 5],
    /// Markers from the first scan on.
    rest: Cursor<'a>,
}

impl<'a> Image<'a> {
    /// Parses the headers of a JPEG-LS stream.
    pub(super) fn parse(input: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(input, "JPEG-LS image", 0);
        if cursor.take(2)? != b"\xff\xd8" {
            return Err(damaged("the data are not a JPEG-LS image"));
        }
        let mut frame = None;
        let mut preset = [0; 5];
        let rest = loop {
            let before = cursor.clone();
            match segment(&mut cursor)? {
                (0xda, _) => break before,
                (0xf7, mut segment) => frame = Some(parse_frame(&mut segment)?),
                (0xf8, mut segment) => preset = parse_preset(&mut segment)?,
                (0xd9, _) => return Err(damaged("a JPEG-LS image without scans")),
                (marker, segment) => refuse(marker, &segment)?,
            }
        };
        let Some((precision, height, width, components)) = frame else {
            return Err(damaged("a JPEG-LS scan before its frame"));
        };
        Ok(Self { width, height, components, precision, preset, rest })
    }

    /// Returns the decoded size in bytes. Samples of more than eight bits take two bytes, little-endian.
    pub(super) fn size(&self) -> u64 {
        let size = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let samples =
            size(self.width).saturating_mul(size(self.height)).saturating_mul(size(self.components));
        samples.saturating_mul(size(self.sample_size()))
    }

    fn sample_size(&self) -> usize {
        if self.precision > 8 { 2 } else { 1 }
    }

    /// Decodes the image to `output`, which must have its decoded size. Components of one scan are
    /// interleaved by sample, components of different scans are concatenated.
    pub(super) fn decode(&self, output: &mut [u8]) -> Result<()> {
        let mut cursor = self.rest.clone();
        let mut preset = self.preset;
        let mut done = 0_usize;
        let plane = output.len().checked_div(self.components).unwrap_or(0);
        while done < self.components {
            let (marker, mut segment) = segment(&mut cursor)?;
            match marker {
                0xda => {
                    let (count, near, interleave) = parse_scan(&mut segment)?;
                    if count != 1 && count != self.components {
                        return Err(Error::unsupported("JPEG-LS scans of several but not all components"));
                    }
                    let start = done.saturating_mul(plane);
                    let size = plane.saturating_mul(count);
                    let Some(output) = output.get_mut(start..start.saturating_add(size)) else {
                        return Err(damaged("too many JPEG-LS scans"));
                    };
                    let coding = Coding::new(self.precision, preset, near)?;
                    let mut scan = Scan::new(coding, Bits::new(cursor.rest()));
                    self.decode_scan(&mut scan, count, interleave, output)?;
                    cursor.skip(scan.end())?;
                    done = done.saturating_add(count);
                }
                0xf8 => preset = parse_preset(&mut segment)?,
                0xd9 => return Err(damaged("too few JPEG-LS scans")),
                marker => refuse(marker, &segment)?,
            }
        }
        Ok(())
    }

    fn decode_scan(
        &self,
        scan: &mut Scan<'_>,
        components: usize,
        interleave: Interleave,
        output: &mut [u8],
    ) -> Result<()> {
        let length = self.width.saturating_add(2);
        let new = || (0..components).map(|_| filled(0_i32, length)).collect::<Result<Vec<_>>>();
        let (mut lines, mut before) = (new()?, new()?);
        let mut runs = vec![0_usize; components];
        let size = self.sample_size();
        let row = self.width.saturating_mul(components).saturating_mul(size);
        for to in output.chunks_exact_mut(row.max(1)) {
            std::mem::swap(&mut lines, &mut before);
            for (before, line) in before.iter_mut().zip(&mut lines) {
                edges(before, line);
            }
            if interleave == Interleave::Sample && components > 1 {
                scan.lines(&before, &mut lines, runs.first_mut().unwrap_or(&mut 0))?;
            } else {
                for ((before, line), run) in before.iter().zip(&mut lines).zip(&mut runs) {
                    scan.line(before, line, run)?;
                }
            }
            for (number, line) in lines.iter().enumerate() {
                let samples = line.iter().skip(1).take(self.width);
                let to = to.chunks_exact_mut(size).skip(number).step_by(components);
                for (to, sample) in to.zip(samples) {
                    to.iter_mut().zip(sample.to_le_bytes()).for_each(|(to, from)| *to = from);
                }
            }
        }
        Ok(())
    }
}

/// Sets the samples outside the image that prediction uses.
fn edges(before: &mut [i32], line: &mut [i32]) {
    if let [.., last, after] = before {
        *after = *last;
    }
    if let ([_, above, ..], [first, ..]) = (&*before, line) {
        *first = *above;
    }
}

/// Reads the next marker and its segment.
fn segment<'a>(cursor: &mut Cursor<'a>) -> Result<(u8, Cursor<'a>)> {
    if cursor.u8()? != 0xff {
        return Err(cursor.error("no JPEG-LS marker".into()));
    }
    let mut marker = cursor.u8()?;
    while marker == 0xff {
        marker = cursor.u8()?;
    }
    if marker == 0xd9 {
        return Ok((marker, Cursor::new(&[], "JPEG-LS segment", 0)));
    }
    let length = usize::from(u16::from_be_bytes(cursor.array()?)).saturating_sub(2);
    Ok((marker, Cursor::new(cursor.take(length)?, "JPEG-LS segment", cursor.offset())))
}

/// Refuses a segment with an unsupported meaning.
fn refuse(marker: u8, segment: &Cursor<'_>) -> Result<()> {
    match marker {
        0xe8 if segment.rest().starts_with(b"mrfx") && segment.rest().get(4) != Some(&0) => {
            Err(Error::unsupported("a JPEG-LS image with a colour transformation"))
        }
        // Application data and comments.
        0xe0..=0xef | 0xfe => Ok(()),
        0xdd if segment.rest().iter().all(|byte| *byte == 0) => Ok(()),
        0xdd => Err(Error::unsupported("a JPEG-LS image with restart intervals")),
        _ => Err(Error::unsupported(format!("the marker {marker:#04x} in a JPEG-LS image"))),
    }
}

/// Reads precision, height, width and the number of components.
fn parse_frame(segment: &mut Cursor<'_>) -> Result<(u32, usize, usize, usize)> {
    let precision = u32::from(segment.u8()?);
    let height = usize::from(u16::from_be_bytes(segment.array()?));
    let width = usize::from(u16::from_be_bytes(segment.array()?));
    let components = usize::from(segment.u8()?);
    if height == 0 || width == 0 {
        return Err(Error::unsupported("a JPEG-LS image without its size in its frame"));
    }
    if !(2..=16).contains(&precision) || components == 0 {
        return Err(damaged(&format!("a JPEG-LS image of {components} components with {precision} bits")));
    }
    Ok((precision, height, width, components))
}

/// Reads the largest sample, three thresholds, and the reset interval of the counters.
fn parse_preset(segment: &mut Cursor<'_>) -> Result<[u16; 5]> {
    let kind = segment.u8()?;
    if kind != 1 {
        return Err(Error::unsupported(format!("JPEG-LS parameters of kind {kind}")));
    }
    let mut preset = [0; 5];
    for value in &mut preset {
        *value = u16::from_be_bytes(segment.array()?);
    }
    Ok(preset)
}

/// Reads the number of components, the allowed error of samples, and the interleaving.
fn parse_scan(segment: &mut Cursor<'_>) -> Result<(usize, u8, Interleave)> {
    let count = usize::from(segment.u8()?);
    for _ in 0..count {
        let [_, table] = segment.array()?;
        if table != 0 {
            return Err(Error::unsupported("a JPEG-LS image with mapping tables"));
        }
    }
    let [near, interleave, transform] = segment.array()?;
    if transform & 0x0f != 0 {
        return Err(Error::unsupported("a JPEG-LS image with a point transformation"));
    }
    let interleave = match interleave {
        0 if count == 1 => Interleave::None,
        1 => Interleave::Line,
        2 => Interleave::Sample,
        _ => return Err(damaged(&format!("JPEG-LS interleaving {interleave} of {count} components"))),
    };
    Ok((count, near, interleave))
}

#[cold]
fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::Filter, message)
}
