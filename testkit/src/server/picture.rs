//! What a server sees of a picture before it decodes it: its type and its size.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Type and size of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picture {
    /// Media type.
    pub media_type: &'static str,
    /// Width in pixels; 0 if the beginning does not tell.
    pub width: u32,
    /// Height in pixels; 0 if the beginning does not tell.
    pub height: u32,
}

impl Picture {
    /// Returns the longer of both sides.
    pub fn longest_side(self) -> u32 {
        self.width.max(self.height)
    }
}

/// Returns what the beginning of a picture in base64 tells; `None` if it is none.
pub fn picture(base64: &str) -> Option<Picture> {
    // As much as the sizes of all but a JPEG with long remarks need, in whole groups.
    let beginning = base64.get(..base64.len().min(4 * 16_384))?;
    let bytes = STANDARD.decode(beginning).ok()?;
    let (media_type, (width, height)) = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        ("image/png", (big(&bytes, 16), big(&bytes, 20)))
    } else if bytes.starts_with(b"GIF8") {
        ("image/gif", (little(&bytes, 6), little(&bytes, 8)))
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        ("image/jpeg", frame(&bytes))
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        ("image/webp", (0, 0))
    } else {
        return None;
    };
    Some(Picture {
        media_type,
        width,
        height,
    })
}

/// Returns the size in the frame header of a JPEG.
fn frame(bytes: &[u8]) -> (u32, u32) {
    let mut at = 2;
    while let Some(&[0xff, marker, high, low]) = bytes.get(at..at + 4).and_then(|it| it.as_array())
    {
        let is_frame = matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
        if is_frame {
            let side = |at: usize| {
                let side = bytes.get(at..at + 2).unwrap_or(&[0, 0]);
                u32::from(u16::from_be_bytes([side[0], side[1]]))
            };
            return (side(at + 7), side(at + 5));
        }
        at += 2 + usize::from(u16::from_be_bytes([high, low]));
    }
    (0, 0)
}

fn big(bytes: &[u8], at: usize) -> u32 {
    let number = bytes.get(at..at + 4).and_then(|it| it.try_into().ok());
    number.map_or(0, u32::from_be_bytes)
}

fn little(bytes: &[u8], at: usize) -> u32 {
    let number = bytes.get(at..at + 2).and_then(|it| it.try_into().ok());
    number.map_or(0, |number| u32::from(u16::from_le_bytes(number)))
}
