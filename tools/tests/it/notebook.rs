//! Jupyter notebooks, read by `Read` and changed by `NotebookEdit`.

use ah_conversation::Tool as _;
use ah_tools::{NotebookEdit, Read};
use serde_json::json;

use crate::folder::{Folder, run, text};
use crate::sdk::{at, file_tools};

/// A notebook as Jupyter writes it, with a number whose unusual spelling must be kept.
const NOTEBOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Title\n",
    "text"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "work",
   "metadata": {"weight": 1.50e+2},
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": ["one\n", "two\n"]
    },
    {
     "ename": "ValueError",
     "evalue": "no",
     "output_type": "error",
     "traceback": ["\u001b[0;31mValueError\u001b[0m: no"]
    }
   ],
   "source": "print('one')"
  }
 ],
 "metadata": {
  "language_info": {"name": "python"}, "weight": 1.50e+2
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

/// Returns a folder with a notebook, `Read` and `NotebookEdit` for it, and the path of the notebook.
fn notebook(content: &str) -> (Folder, Read, NotebookEdit, String) {
    let folder = Folder::with(&[("a.ipynb", content)]);
    let (read, ..) = file_tools(&folder);
    let edit = NotebookEdit::new(folder.workspace(), &read);
    let path = at(&folder, "a.ipynb");
    (folder, read, edit, path)
}

#[test]
fn a_notebook_is_read_cell_by_cell() {
    let (folder, read, _, path) = notebook(NOTEBOOK);
    let output = run(&read, json!({ "file_path": path }));
    insta::assert_snapshot!(text(&output), @"
    [cell intro: markdown]
    # Title
    text
    [cell work: code, run 3]
    print('one')
    [output of work]
    one
    two
    [output of work]
    ValueError: no
    ValueError: no
    ");
    insta::assert_snapshot!(output.details.unwrap()["file"]["cells"], @r##"
    [{"cellType":"markdown","source":"# Title\ntext","cell_id":"intro"},{"cellType":"code","source":"print('one')","cell_id":"work","language":"python","execution_count":3,"outputs":[{"output_type":"stream","text":"one\ntwo\n"},{"output_type":"error","text":"ValueError: no\nValueError: no"}]}]
    "##);
    let part = run(&read, json!({"file_path": path, "offset": 1, "limit": 1}));
    assert_eq!(text(&part), "[cell intro: markdown]\n# Title\ntext");
    let picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    folder.put(
        "a.ipynb",
        json!({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [
            {"cell_type": "code", "source": "plot()", "outputs": [
                {"output_type": "display_data", "data": {"image/png": picture, "text/plain": ["<Figure>"]}},
                {"output_type": "display_data", "data": {"image/png": "AAAA"}},
            ]},
        ]})
        .to_string(),
    );
    insta::assert_snapshot!(text(&run(&read, json!({ "file_path": path }))), @"
    [cell cell-0: code]
    plot()
    [output of cell-0]
    <Figure>
    [image/png]
    [output of cell-0]
    [a picture that cannot be shown]
    ");
    // A broken notebook is shown as text.
    folder.put("a.ipynb", "{\"cells\": [");
    assert_eq!(
        text(&run(&read, json!({ "file_path": path }))),
        "1\t{\"cells\": ["
    );
}

#[test]
fn half_of_a_character_is_shown_and_stays_in_the_file() {
    let before = r#"{"cells": [
 {"cell_type": "code", "id": "a", "metadata": {"x": 1.50e+2}, "outputs": [{"output_type": "stream", "text": "out \ud83d put"}], "source": "one"},
 "#;
    let cell = r#"{"cell_type": "code", "id": "b", "metadata": {}, "outputs": [], "source": "two \udc80"}"#;
    let after = r#"
], "metadata": {"\udfff": "\ud83d\ude00"}, "nbformat": 4, "nbformat_minor": 5}"#;
    let (folder, read, edit, path) = notebook(&format!("{before}{cell}{after}"));
    assert_eq!(
        text(&run(&read, json!({ "file_path": path }))),
        "[cell a: code]\none\n[output of a]\nout \u{fffd} put\n[cell b: code]\ntwo \u{fffd}"
    );
    run(
        &edit,
        json!({"notebook_path": path, "cell_id": "b", "new_source": "three"}),
    );
    let changed = folder.get("a.ipynb");
    let changed = changed.strip_prefix(before).unwrap();
    assert!(changed.strip_suffix(after).unwrap().contains("three"));
}

#[test]
fn cells_are_replaced_inserted_and_deleted() {
    for (input, told, cells) in [
        (
            json!({"cell_id": "work", "new_source": "a\nb"}),
            "replaced the source of cell work",
            "markdown intro `# Title\ntext`, code work `a\nb`",
        ),
        (
            json!({"cell_id": "cell-1", "new_source": "# End", "cell_type": "markdown"}),
            "replaced the source of cell work",
            "markdown intro `# Title\ntext`, markdown work `# End`",
        ),
        (
            json!({"new_source": "", "cell_type": "code", "edit_mode": "insert"}),
            "inserted cell call",
            "code call ``, markdown intro `# Title\ntext`, code work `print('one')`",
        ),
        (
            json!({"cell_id": "work", "new_source": "z", "cell_type": "markdown", "edit_mode": "insert"}),
            "inserted cell call",
            "markdown intro `# Title\ntext`, code work `print('one')`, markdown call `z`",
        ),
        (
            json!({"cell_id": "intro", "new_source": "", "edit_mode": "delete"}),
            "deleted cell intro",
            "code work `print('one')`",
        ),
        (
            json!({"cell_id": "work", "new_source": "", "edit_mode": "delete"}),
            "deleted cell work",
            "markdown intro `# Title\ntext`",
        ),
    ] {
        let (folder, read, edit, path) = notebook(NOTEBOOK);
        let mut input = input;
        input["notebook_path"] = json!(path);
        assert!(text(&run(&edit, input.clone())).contains("has not been read yet"));
        run(&read, json!({ "file_path": path }));
        let output = run(&edit, input.clone());
        assert_eq!(text(&output), told, "{input}");
        let new = folder.get("a.ipynb");
        assert!(new.contains("}, \"weight\": 1.50e+2\n }"), "{new}");
        let details = output.details.unwrap();
        assert_eq!(details["original_file"], NOTEBOOK);
        assert_eq!(details["updated_file"], new);
        let now = run(&read, json!({ "file_path": path })).details.unwrap();
        let shown = now["file"]["cells"].as_array().unwrap().iter().map(|cell| {
            let word = |name: &str| cell[name].as_str().unwrap().to_owned();
            format!(
                "{} {} `{}`",
                word("cellType"),
                word("cell_id"),
                word("source")
            )
        });
        assert_eq!(shown.collect::<Vec<_>>().join(", "), cells, "{input}");
    }
}

#[test]
fn everything_but_the_cell_stays_as_it_is() {
    let (folder, read, edit, path) = notebook(NOTEBOOK);
    run(&read, json!({ "file_path": path }));
    for input in [
        json!({"cell_id": "intro", "new_source": "x = 1", "cell_type": "code"}),
        json!({"cell_id": "intro", "new_source": "y\nz", "cell_type": "code", "edit_mode": "insert"}),
    ] {
        let mut input = input;
        input["notebook_path"] = json!(path);
        run(&edit, input);
    }
    let new = folder.get("a.ipynb");
    let hunks = ah_diff::hunks(NOTEBOOK, &new);
    let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
    let changed = lines.filter(|line| !line.starts_with(' ')).cloned();
    insta::assert_snapshot!(changed.collect::<Vec<_>>().join("\n"), @r##"
    -   "cell_type": "markdown",
    +   "cell_type": "code",
    -    "# Title\n",
    -    "text"
    +    "x = 1"
    +   ],
    +   "execution_count": null,
    +   "outputs": []
    +  },
    +  {
    +   "cell_type": "code",
    +   "id": "call",
    +   "execution_count": null,
    +   "metadata": {},
    +   "outputs": [],
    +   "source": [
    +    "y\n",
    +    "z"
    "##);
}

#[test]
fn failed_notebook_edits_give_their_reason() {
    let (folder, read, edit, path) = notebook(NOTEBOOK);
    folder.put("text.ipynb", "no notebook");
    folder.put(
        "empty.ipynb",
        "{\"cells\": [], \"nbformat\": 4, \"nbformat_minor\": 4}",
    );
    let (other, empty) = (at(&folder, "text.ipynb"), at(&folder, "empty.ipynb"));
    for path in [&path, &other, &empty] {
        run(&read, json!({ "file_path": path }));
    }
    for (path, input, expected) in [
        (
            &path,
            json!({"cell_id": "none"}),
            "there is no cell `none`; the cells are intro, work",
        ),
        (
            &path,
            json!({}),
            "`cell_id` says which cell, and is missing",
        ),
        (
            &path,
            json!({"edit_mode": "delete"}),
            "`cell_id` says which cell, and is missing",
        ),
        (
            &path,
            json!({"edit_mode": "insert"}),
            "`cell_type` says what the new cell is, and is missing",
        ),
        (
            &other,
            json!({"cell_id": "a"}),
            "is not a notebook: expected ident at line 1 column 2",
        ),
        (
            &empty,
            json!({"cell_id": "a"}),
            "there is no cell `a`; the notebook has none",
        ),
    ] {
        let mut input = input;
        input["notebook_path"] = json!(path);
        input["new_source"] = json!("x");
        let told = text(&run(&edit, input));
        assert!(
            told.starts_with("error: ") && told.ends_with(expected),
            "{told}"
        );
    }
    let relative = json!({"notebook_path": "a.ipynb", "new_source": "x", "cell_id": "work"});
    assert_eq!(edit.access(&relative.clone().into()), []);
    assert!(text(&run(&edit, relative)).contains("has to be absolute"));
    assert_eq!(folder.get("a.ipynb"), NOTEBOOK);
    let first = json!({"notebook_path": empty, "new_source": "x", "cell_type": "code", "edit_mode": "insert"});
    assert_eq!(text(&run(&edit, first)), "inserted cell cell-0");
    assert_eq!(
        folder.get("empty.ipynb"),
        "{\"cells\": [{\"cell_type\":\"code\",\"execution_count\":null,\"metadata\":{},\"outputs\":[],\
         \"source\":[\"x\"]}], \"nbformat\": 4, \"nbformat_minor\": 4}"
    );
}
