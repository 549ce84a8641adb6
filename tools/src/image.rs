//! Pictures for the Messages API, which limits their pixels, bytes and formats, and refuses broken ones.

use std::io::Cursor;

use ah_conversation::Image;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
pub(crate) use image::ImageFormat;
use image::codecs::jpeg::JpegEncoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder as _, ImageReader, ImageResult, Limits};

/// The longest edge in pixels from which the model still gains anything; the API scales larger ones down itself.
const USEFUL_EDGE: u32 = 1568;
/// The most bytes of a file that come to no more than the API's 5 MiB in base64.
const MAX_BYTES: usize = 5 * 1024 * 1024 / 4 * 3;
/// Limits for decoding: the edges of a picture, and its bytes in memory.
const MAX_EDGE: u32 = 30_000;
const MAX_MEMORY: u64 = 256 << 20;
/// Most bytes of base64 that are decoded.
const MAX_BASE64: usize = 64 << 20;
/// Most bytes of an SVG picture that the model reads.
const MOST_SVG: usize = 30_000;
/// Base64 whose padding may be missing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);
/// Qualities that are tried until the picture is small enough.
const JPEG_QUALITIES: [u8; 3] = [85, 60, 30];

/// A picture for the model.
pub(crate) struct Picture {
    /// The picture as it is sent.
    pub(crate) image: Image,
    /// Width and height before and after scaling; `None` if they are unchanged.
    pub(crate) scaled: Option<[(u32, u32); 2]>,
}

/// Returns the format of a picture that starts with these bytes, if the API takes it.
pub(crate) fn sniff(start: &[u8]) -> Option<ImageFormat> {
    let format = image::guess_format(start).ok()?;
    match format {
        ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::Gif | ImageFormat::WebP => Some(format),
        _ => None,
    }
}

/// Returns a picture that a tool, an editor or a host has sent, as a model takes it: of whatever type it says it is. The error is
/// what the model reads in its place.
///
/// # Errors
///
/// If it cannot be decoded. An SVG picture is text.
pub fn checked_picture(given: &Image) -> Result<Image, String> {
    in_base64(&given.data).map_err(|error| match svg(&given.data) {
        Some(text) => text,
        None => {
            let bytes = given.data.len() / 4 * 3;
            let kind = given
                .media_type
                .chars()
                .filter(|c| !c.is_control())
                .take(100);
            let kind: String = kind.collect();
            format!("[left out: what was sent as `{kind}` ({bytes} bytes) {error}]")
        }
    })
}

/// Returns a picture in base64 as a model takes it.
///
/// # Errors
///
/// As [`picture`].
pub fn in_base64(data: &str) -> Result<Image, String> {
    picture(&decoded(data)?)
}

/// Decodes base64 as programs write it: in lines, with or without padding, in either alphabet, or as a data URL.
fn decoded(data: &str) -> Result<Vec<u8>, String> {
    if data.len() > MAX_BASE64 {
        return Err("cannot be shown: it is too large".to_owned());
    }
    let data = match data.split_once(";base64,") {
        Some((start, data)) if start.trim_start().starts_with("data:") => data,
        _ => data,
    };
    let sign = |byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    };
    let bytes = data.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let bytes: Vec<u8> = bytes.map(sign).collect();
    BASE64
        .decode(bytes)
        .map_err(|error| format!("is not in base64: {error}"))
}

/// Returns the start of an SVG picture.
fn svg(data: &str) -> Option<String> {
    let text = String::from_utf8(decoded(data).ok()?).ok()?;
    let start = text.get(..text.floor_char_boundary(1_000))?;
    let is_svg = text.trim_start().starts_with('<') && start.contains("<svg");
    let end = text.floor_char_boundary(MOST_SVG);
    is_svg.then(|| format!("[an SVG picture, as text]\n{}", &text[..end]))
}

/// Returns the content of a picture file as a model takes it.
///
/// # Errors
///
/// If it is not a picture of a known format. The text continues a sentence that starts with the name of the file.
pub fn picture(content: &[u8]) -> Result<Image, String> {
    let format = sniff(content).ok_or("is not a PNG, JPEG, GIF or WebP picture")?;
    let picture = fit(content, format)
        .map_err(|error| format!("is a picture that cannot be shown: {error}"))?;
    Ok(picture.image)
}

/// Scales a picture to the API's limits. Every picture is decoded, since the API refuses a whole conversation for one
/// broken picture in it.
pub(crate) fn fit(content: &[u8], format: ImageFormat) -> ImageResult<Picture> {
    let (picture, orientation) = decode(content, format)?;
    let size = |picture: &DynamicImage| (picture.width(), picture.height());
    let (width, height) = size(&picture);
    if width.max(height) <= USEFUL_EDGE && content.len() <= MAX_BYTES {
        return Ok(encoded(content, format, None));
    }
    let mut small = if width.max(height) > USEFUL_EDGE {
        picture.thumbnail(USEFUL_EDGE, USEFUL_EDGE)
    } else {
        picture
    };
    // The metadata with the orientation is not kept.
    small.apply_orientation(orientation);
    let scaled = Some([(width, height), size(&small)]).filter(|[from, to]| from != to);
    let is_drawn = matches!(format, ImageFormat::Png | ImageFormat::Gif);
    if is_drawn || small.color().has_alpha() {
        let mut png = Vec::new();
        small.write_to(&mut Cursor::new(&mut png), ImageFormat::Png)?;
        if png.len() <= MAX_BYTES {
            return Ok(encoded(&png, ImageFormat::Png, scaled));
        }
    }
    let small = small.into_rgb8();
    let mut jpeg = Vec::new();
    for quality in JPEG_QUALITIES {
        jpeg.clear();
        JpegEncoder::new_with_quality(&mut jpeg, quality).encode_image(&small)?;
        if jpeg.len() <= MAX_BYTES {
            break;
        }
    }
    Ok(encoded(&jpeg, ImageFormat::Jpeg, scaled))
}

fn decode(content: &[u8], format: ImageFormat) -> ImageResult<(DynamicImage, Orientation)> {
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_EDGE);
    limits.max_image_height = Some(MAX_EDGE);
    limits.max_alloc = Some(MAX_MEMORY);
    let mut reader = ImageReader::with_format(Cursor::new(content), format);
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder()?;
    limits.reserve(decoder.total_bytes())?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok((DynamicImage::from_decoder(decoder)?, orientation))
}

fn encoded(content: &[u8], format: ImageFormat, scaled: Option<[(u32, u32); 2]>) -> Picture {
    Picture {
        image: Image {
            media_type: format.to_mime_type().into(),
            data: BASE64_STANDARD.encode(content),
        },
        scaled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(format: ImageFormat) -> String {
        let mut content = Vec::new();
        let picture = DynamicImage::new_rgb8(2, 2);
        let written = picture.write_to(&mut Cursor::new(&mut content), format);
        written.expect("in memory");
        BASE64_STANDARD.encode(content)
    }

    /// Returns the type as that the model sees a picture, or the text in its place.
    fn seen(media_type: &str, data: &str) -> String {
        let given = Image {
            media_type: media_type.to_owned(),
            data: data.to_owned(),
        };
        match checked_picture(&given) {
            Ok(image) => {
                let content = BASE64_STANDARD.decode(&image.data).expect("base64");
                let format = image::guess_format(&content).expect("a picture");
                assert_eq!(format.to_mime_type(), image.media_type);
                image.media_type
            }
            Err(text) => text,
        }
    }

    #[test]
    fn a_picture_is_what_its_bytes_are() {
        let (png, jpeg) = (encoded(ImageFormat::Png), encoded(ImageFormat::Jpeg));
        let lines = format!(" {}\r\n{}\n", &png[..20], &png[20..]);
        for (media_type, data, expected) in [
            ("image/png", png.as_str(), "image/png"),
            ("image/PNG; q=1", &png, "image/png"),
            ("", &png, "image/png"),
            ("application/octet-stream", &png, "image/png"),
            ("image/jpg", &jpeg, "image/jpeg"),
            ("image/png", &jpeg, "image/jpeg"),
            ("image/png", &encoded(ImageFormat::Gif), "image/gif"),
            ("image/png", &encoded(ImageFormat::WebP), "image/webp"),
            ("image/png", &lines, "image/png"),
            (
                "image/png",
                &format!("data:image/png;base64,{png}"),
                "image/png",
            ),
            ("image/png", png.trim_end_matches('='), "image/png"),
            (
                "image/png",
                &png.replace('+', "-").replace('/', "_"),
                "image/png",
            ),
            // `<svg/>`
            (
                "image/svg+xml",
                "PHN2Zy8+",
                "[an SVG picture, as text]\n<svg/>",
            ),
        ] {
            assert_eq!(seen(media_type, data), expected, "{media_type} {data}");
        }
    }

    #[test]
    fn what_cannot_be_decoded_becomes_a_text_that_says_so() {
        let zeros = [b"\x89PNG\r\n\x1a\n".as_slice(), &[0; 100]].concat();
        let cut = encoded(ImageFormat::Jpeg);
        for (media_type, data, expected) in [
            (
                "image/png",
                BASE64_STANDARD.encode(zeros),
                "is a picture that cannot be shown",
            ),
            (
                "image/jpeg",
                cut[..cut.len() / 2].to_owned(),
                "is a picture that cannot be shown",
            ),
            (
                "image/png",
                "PGh0bWw+".to_owned(),
                "is not a PNG, JPEG, GIF or WebP picture",
            ),
            (
                "image/png",
                String::new(),
                "is not a PNG, JPEG, GIF or WebP picture",
            ),
            ("image/png", "no base64!".to_owned(), "is not in base64"),
            ("image/png", "A".repeat(MAX_BASE64 + 1), "it is too large"),
        ] {
            let seen = seen(media_type, &data);
            let start = format!("[left out: what was sent as `{media_type}` (");
            assert!(
                seen.starts_with(&start) && seen.contains(expected),
                "{seen}"
            );
        }
    }
}
