//! Images that are pasted, dropped or named.

use std::fs;

use ah_testkit::script::says;
use ah_testkit::server::Server;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

/// An image of one pixel.
const PIXEL: &[u8] =
    b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\
    \x00\x00:~\x9bU\x00\x00\x00\x0aIDATx\x9cc\xa8\x07\x00\x00\x81\x00\x80\xd3\x94SJ\x00\x00\
    \x00\x00IEND\xaeB`\x82";

#[test]
fn pictures_are_shown_to_the_model_and_folded_in_the_line() {
    let world = World::new();
    for name in ["my shot.png", "other.png"] {
        fs::write(world.file(name), PIXEL).unwrap();
    }
    world.write("no.png", "This is text.");
    // A clipboard with an image, as one of the usual tools prints it.
    let tool = world.write(
        "bin/wl-paste",
        format!(
            "#!/bin/sh\nexec cat '{}'\n",
            world.file("other.png").display()
        ),
    );
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&tool, mode).unwrap();
    let path = format!(
        "{}:{}",
        tool.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let server = Server::new(["One.", "Two."].map(says));
    let ah = world
        .asking(&server, ["-m", "sonnet"])
        .env("WAYLAND_DISPLAY", "wayland-0")
        .env("PATH", path);
    let mut seat = Seat::take(ah);
    seat.types("compare");
    seat.pastes("./my\\ shot.png");
    seat.sees("> compare [Image #1]");
    seat.types("with\x16");
    seat.sees("> compare [Image #1] with [Image #2]");
    seat.types("and @other.png \r");
    seat.sees("One.");
    seat.sees_no_more("Esc interrupts");
    let kinds = |request: usize| {
        let blocks = crate::interrupted_again_and_again::blocks(&server.requests()[request].body);
        let kinds = blocks
            .iter()
            .map(|(_, block)| match block["type"].as_str() {
                Some("text") => block["text"].as_str().unwrap().to_owned(),
                kind => format!("{} {}", kind.unwrap(), block["source"]["media_type"]),
            });
        kinds.collect::<Vec<_>>()
    };
    let image = "image \"image/png\"";
    let said = "compare [Image #1] with [Image #2] and @other.png";
    assert_eq!(kinds(0), [image, image, image, said]);
    // A file that is not an image is reported, and stays as pasted text.
    seat.pastes("./no.png");
    seat.sees("`./no.png` is not a PNG, JPEG, GIF or WebP picture");
    seat.sees("> ./no.png");
    seat.types("\x15see @no.png \r");
    seat.sees("error: `no.png` is not a PNG");
    seat.says("never mind");
    seat.sees("Two.");
    seat.sees_no_more("Esc interrupts");
    assert_eq!(server.refusals(), Vec::<String>::new());
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn a_prompt_on_the_command_line_shows_pictures_as_well() {
    let world = World::new();
    fs::write(world.file("a.png"), PIXEL).unwrap();
    let server = Server::new([says("One.")]);
    let arguments = ["-m", "sonnet", "what is @a.png, and @b.png?"];
    world.asking(&server, arguments).run().expect(0);
    let blocks = crate::interrupted_again_and_again::blocks(&server.requests()[0].body);
    let kinds: Vec<_> = blocks
        .iter()
        .map(|(_, block)| block["type"].clone())
        .collect();
    assert_eq!(kinds, ["image", "text"]);
}

/// Without a clipboard tool, the error names the supported ones.
#[test]
fn a_clipboard_that_nothing_reads_is_told() {
    let world = World::new();
    let server = Server::new([says("Never.")]);
    let ah = world
        .asking(&server, ["-m", "sonnet"])
        .env("WAYLAND_DISPLAY", "")
        .env("DISPLAY", "");
    let mut seat = Seat::take(ah);
    seat.types("\x16");
    seat.sees("install wl-paste, xclip or pngpaste");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}
