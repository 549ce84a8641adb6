//! Images in results of `read`.

use std::io::Cursor;

use ah_conversation::{Content, Image, Interface, Output, ResultBlock};
use ah_tools::Read;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};
use serde_json::json;

use crate::folder::{Folder, run, text};

fn read(folder: &Folder, path: &str) -> Output {
    run(
        &Read::new(folder.workspace(), Interface::Native),
        json!({"path": path}),
    )
}

fn encode(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    picture
        .write_to(&mut Cursor::new(&mut bytes), format)
        .unwrap();
    bytes
}

/// Returns an image that cannot be compressed.
fn noise(width: u32, height: u32) -> DynamicImage {
    let mut state = 1_u32;
    let picture = RgbImage::from_fn(width, height, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [a, b, c, _] = state.to_be_bytes();
        Rgb([a, b, c])
    });
    picture.into()
}

fn image(output: &Output) -> &Image {
    match &output.content {
        Content::Blocks(blocks) => match blocks.last() {
            Some(ResultBlock::Image(image)) => image,
            other => panic!("no picture: {other:?}"),
        },
        other => panic!("no blocks: {other:?}"),
    }
}

#[test]
fn small_pictures_are_sent_as_they_are_whatever_their_name() {
    let folder = Folder::new();
    let picture = DynamicImage::from(RgbImage::from_pixel(20, 10, Rgb([9, 99, 199])));
    for (format, media_type) in [
        (ImageFormat::Png, "image/png"),
        (ImageFormat::Jpeg, "image/jpeg"),
        (ImageFormat::Gif, "image/gif"),
        (ImageFormat::WebP, "image/webp"),
    ] {
        let bytes = encode(&picture, format);
        folder.put("picture.txt", &bytes);
        let output = read(&folder, "picture.txt");
        assert_eq!(text(&output), format!("[{media_type}]"));
        assert_eq!(BASE64_STANDARD.decode(&image(&output).data).unwrap(), bytes);
        let path = folder.workspace().cwd().join("picture.txt");
        let file = json!({
            "filePath": path, "base64": BASE64_STANDARD.encode(&bytes), "type": media_type, "originalSize": bytes.len(),
        });
        assert_eq!(
            output.details.unwrap(),
            json!({"type": "image", "file": file})
        );
    }
}

#[test]
fn large_pictures_are_scaled_down() {
    let folder = Folder::new();
    let see_through = RgbaImage::from_pixel(3136, 64, Rgba([1, 2, 3, 100])).into();
    let photo = DynamicImage::from(RgbImage::from_pixel(64, 3136, Rgb([9, 99, 199])));
    for (picture, format, expected, size) in [
        (
            &see_through,
            ImageFormat::Png,
            "[scaled from 3136x64 to 1568x32 pixels]\n[image/png]",
            (1568, 32),
        ),
        (
            &see_through,
            ImageFormat::WebP,
            "[scaled from 3136x64 to 1568x32 pixels]\n[image/png]",
            (1568, 32),
        ),
        (
            &photo,
            ImageFormat::Jpeg,
            "[scaled from 64x3136 to 32x1568 pixels]\n[image/jpeg]",
            (32, 1568),
        ),
        (
            &photo,
            ImageFormat::WebP,
            "[scaled from 64x3136 to 32x1568 pixels]\n[image/jpeg]",
            (32, 1568),
        ),
        (
            &noise(1200, 1200),
            ImageFormat::Png,
            "[image/jpeg]",
            (1200, 1200),
        ),
    ] {
        folder.put("picture", encode(picture, format));
        let output = read(&folder, "picture");
        assert_eq!(text(&output), expected);
        let data = &image(&output).data;
        assert!(
            data.len() <= 5 * 1024 * 1024,
            "{} bytes of base64",
            data.len()
        );
        let shown = image::load_from_memory(&BASE64_STANDARD.decode(data).unwrap()).unwrap();
        assert_eq!((shown.width(), shown.height()), size);
    }
}

#[test]
fn a_picture_taken_sideways_is_turned_when_it_is_scaled() {
    let folder = Folder::new();
    let jpeg = encode(&RgbImage::new(3136, 64).into(), ImageFormat::Jpeg);
    // Orientation 6: the camera was held upright.
    let exif = b"\xff\xe1\x00\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    folder.put("photo.jpg", [&jpeg[..2], exif, &jpeg[2..]].concat());
    assert_eq!(
        text(&read(&folder, "photo.jpg")),
        "[scaled from 3136x64 to 32x1568 pixels]\n[image/jpeg]"
    );
}

#[test]
fn broken_pictures_are_refused() {
    let folder = Folder::new();
    let png = encode(&noise(50, 50), ImageFormat::Png);
    let mut bomb = png.clone();
    // The header claims 20,000 by 20,000 pixels, and the checksum matches.
    bomb[16..24].copy_from_slice(&[0, 0, 0x4e, 0x20, 0, 0, 0x4e, 0x20]);
    let sum = crc32(&bomb[12..29]).to_be_bytes();
    bomb[29..33].copy_from_slice(&sum);
    for (name, content) in [
        ("cut.png", &png[..png.len() / 2]),
        ("header.png", &png[..16]),
        ("empty.gif", b"GIF89a"),
        ("bomb.png", &bomb),
    ] {
        folder.put(name, content);
        let told = text(&read(&folder, name));
        assert!(
            told.starts_with(&format!(
                "error: `{name}` is not a picture that can be shown: "
            )),
            "{told}"
        );
    }
    // A pointer file of version control in the place of an image is text.
    folder.put("pointer.png", "version 1\n");
    assert_eq!(text(&read(&folder, "pointer.png")), "1\tversion 1");
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| {
        if crc & 1 == 1 {
            (crc >> 1) ^ 0xedb8_8320
        } else {
            crc >> 1
        }
    };
    let add = |crc, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), step);
    !bytes.iter().fold(u32::MAX, add)
}

/// Models that do not hear read the first block.
#[test]
fn sound_is_recognized_by_its_content() {
    let folder = Folder::new();
    for (content, expected) in [
        (
            &b"RIFF\x04\0\0\0WAVEfmt "[..],
            "[audio/wav, 16 bytes]\n<audio/wav>",
        ),
        (b"ID3\x04\0\0", "[audio/mpeg, 6 bytes]\n<audio/mpeg>"),
        (b"\xff\xfb\x90\x64", "[audio/mpeg, 4 bytes]\n<audio/mpeg>"),
        (b"ID3 tags are text.\n", "1\tID3 tags are text."),
        (b"RIFF\0\0\0\0AVI ", "error: `a.bin` is a binary file"),
    ] {
        folder.put("a.bin", content);
        let shown = text(&read(&folder, "a.bin"));
        assert!(shown.starts_with(expected), "{shown}");
    }
}
