//! The text of PDFs in results of `read`.

use ah_conversation::Interface;
use ah_tools::Read;
use lopdf::{
    Dictionary, Document, EncryptionState, EncryptionVersion, Object, Permissions, Stream,
    dictionary,
};
use serde_json::{Value, json};

use crate::folder::{Folder, run, text};

fn read(folder: &Folder, input: Value) -> String {
    text(&run(
        &Read::new(folder.workspace(), Interface::Native),
        input,
    ))
}

/// Returns a document whose pages are drawn by these operations, in a font with letters half as wide as high.
fn document(pages: &[String]) -> Document {
    let mut document = Document::with_version("1.5");
    let parent = document.new_object_id();
    let font = document.add_object(dictionary! {
        "Type" => "Font", "Subtype" => "Type1", "BaseFont" => "Courier", "Encoding" => "WinAnsiEncoding",
        "FirstChar" => 0, "Widths" => vec![Object::Integer(500); 256],
    });
    let page = |content: &String| {
        let content = Stream::new(Dictionary::new(), content.clone().into_bytes());
        let content = document.add_object(content);
        let page = dictionary! {
            "Type" => "Page", "Parent" => parent, "Contents" => content,
            "Resources" => dictionary! { "Font" => dictionary! { "F" => font } },
        };
        Object::from(document.add_object(page))
    };
    let kids: Vec<Object> = pages.iter().map(page).collect();
    let count = i64::try_from(kids.len()).unwrap();
    document.objects.insert(
        parent,
        dictionary! { "Type" => "Pages", "Kids" => kids, "Count" => count }.into(),
    );
    let catalog = document.add_object(dictionary! { "Type" => "Catalog", "Pages" => parent });
    document.trailer.set("Root", catalog);
    document.trailer.set(
        "ID",
        vec![Object::string_literal("id"), Object::string_literal("id")],
    );
    document
}

fn bytes(mut document: Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    document.save_to(&mut bytes).unwrap();
    bytes
}

fn put(folder: &Folder, pages: &[&str]) {
    let pages: Vec<_> = pages
        .iter()
        .map(|operations| format!("BT /F 10 Tf {operations} ET"))
        .collect();
    folder.put("f", bytes(document(&pages)));
}

#[test]
fn strings_become_words_lines_and_paragraphs_by_their_positions() {
    let folder = Folder::new();
    for (operations, expected) in [
        ("(one) Tj", "one"),
        ("(one) Tj 0 -12 Td (two) Tj", "one\ntwo"),
        ("(one) Tj 0 -30 Td (two) Tj", "one\n\ntwo"),
        ("12 TL (one) Tj T* (two) Tj (three) '", "one\ntwo\nthree"),
        ("[(o) 20 (ne) -300 (two)] TJ", "one two"),
        // Each letter is 5 units wide: a text at 15 continues the word, one at 18 begins another.
        ("(one) Tj 15 0 Td (two) Tj", "onetwo"),
        ("(one) Tj 18 0 Td (two) Tj", "one two"),
        // The size may be in the matrix instead.
        (
            "/F 1 Tf 10 0 0 10 50 700 Tm (one) Tj 1.8 0 Td (two) Tj 0 -1.2 Td (three) Tj",
            "one two\nthree",
        ),
        ("(H) Tj 5 3 Td (2) Tj", "H2"),
        ("(caf\\351) Tj", "café"),
        ("", "[no text; it may be a picture]"),
        ("/None 10 Tf (unknown) Tj", "[no text; it may be a picture]"),
        ("(one) Tj 1 0 Td (tw", "one"),
    ] {
        put(&folder, &[operations]);
        let told = read(&folder, json!({"path": "f"}));
        assert_eq!(told, format!("[page 1 of 1]\n{expected}"), "{operations}");
    }
}

#[test]
fn pages_are_chosen() {
    let folder = Folder::new();
    let pages: Vec<_> = (1..=25).map(|number| format!("({number}) Tj")).collect();
    put(
        &folder,
        &pages.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    for (pages, expected) in [
        ("3", "[page 3 of 25]\n3"),
        (" 24 - 99 ", "[page 24 of 25]\n24\n[page 25 of 25]\n25"),
        ("26", "error: cannot read `f`: the PDF has only 25 pages"),
        (
            "1-21",
            "error: cannot read `f`: at most 20 pages can be read at once",
        ),
        (
            "0",
            "error: cannot read `f`: pages `0` is neither a page such as `3` nor a range such as `1-5`",
        ),
        (
            "5-3",
            "error: cannot read `f`: pages `5-3` is neither a page such as `3` nor a range such as `1-5`",
        ),
        (
            "all",
            "error: cannot read `f`: pages `all` is neither a page such as `3` nor a range such as `1-5`",
        ),
    ] {
        assert_eq!(
            read(&folder, json!({"path": "f", "pages": pages})),
            expected
        );
    }
    let told = read(&folder, json!({"path": "f"}));
    assert!(
        told.starts_with("[page 1 of 25]\n1\n[page 2 of 25]\n2\n"),
        "{told}"
    );
    assert!(
        told.ends_with("\n20\n[there are more pages: choose them with `pages`]"),
        "{told}"
    );
}

#[test]
fn broken_and_encrypted_files_are_refused() {
    let folder = Folder::new();
    let mut locked = document(&["BT /F 10 Tf (secret) Tj ET".to_owned()]);
    let version = EncryptionVersion::V2 {
        document: &locked,
        owner_password: "owner",
        user_password: "user",
        key_length: 128,
        permissions: Permissions::all(),
    };
    let state = EncryptionState::try_from(version).unwrap();
    locked.encrypt(&state).unwrap();
    let nested = format!("%PDF-1.5\n1 0 obj\n{}\nendobj\n", "[".repeat(100_000));
    for content in [
        &bytes(locked)[..],
        b"%PDF-1.7",
        b"%PDF-1.7\nstartxref\n99999999999999999999\n%%EOF",
        nested.as_bytes(),
        &bytes(document(&[])),
    ] {
        folder.put("f", content);
        let told = read(&folder, json!({"path": "f"}));
        assert!(
            told.starts_with("error: cannot read `f`: the PDF "),
            "{told}"
        );
    }
}

#[test]
fn a_text_about_pdfs_is_a_text() {
    let folder = Folder::with(&[("f", "starts_with(b\"%PDF-\")\n")]);
    assert_eq!(
        read(&folder, json!({"path": "f"})),
        "1\tstarts_with(b\"%PDF-\")"
    );
}

#[test]
fn corrupt_files_do_not_panic() {
    let folder = Folder::new();
    let whole = bytes(document(&[
        "BT /F 10 Tf [(one) -300 (two)] TJ ET".to_owned()
    ]));
    for at in (8..whole.len()).step_by(7) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x55;
        for content in [&whole[..at], &flipped] {
            folder.put("f", content);
            assert!(!read(&folder, json!({"path": "f"})).is_empty());
        }
    }
}
