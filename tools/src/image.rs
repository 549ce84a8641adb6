//! Pictures for the Messages API, which limits their pixels, bytes and formats, and refuses broken ones.

use std::io::Cursor;

use ah_conversation::Image;
use base64::Engine as _;
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
