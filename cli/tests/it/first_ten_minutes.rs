//! The first ten minutes of somebody who has just installed the program, from an empty home: no key, the demo, a server
//! that runs on their machine, a prompt, a question, an edit, an undo, leaving, coming back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::support::binary::{Ah, World};
use crate::support::pseudo_terminal::Seat;

/// A server like Ollama's with one model, which plays these answers: a text, or a call of a tool.
struct Ollama {
    address: String,
}

impl Ollama {
    fn start(answers: Vec<Value>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (answers, next) = (Arc::new(answers), Arc::new(AtomicUsize::new(0)));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answers, next) = (answers.clone(), next.clone());
                thread::spawn(move || serve(stream, &answers, &next));
            }
        });
        Self { address }
    }
}

fn serve(mut stream: TcpStream, answers: &[Value], next: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut status = "200 OK";
    let (kind, text) = match path.as_str() {
        "/api/tags" => (
            "application/json",
            json!({"models": [{"name": "small:latest"}]}).to_string(),
        ),
        "/api/show" => (
            "application/json",
            json!({"capabilities": ["completion", "tools"], "model_info": {"x.context_length": 32768}})
                .to_string(),
        ),
        // What only other programs have.
        path if path != "/v1/chat/completions" => {
            status = "404 Not Found";
            ("text/plain", "404 page not found".to_owned())
        }
        _ => {
            let answer = &answers[next.fetch_add(1, Ordering::SeqCst)];
            let reason = match answer["tool_calls"].is_array() {
                true => "tool_calls",
                false => "stop",
            };
            let piece = |delta: &Value, reason: Value| {
                let chunk = json!({
                    "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "small:latest",
                    "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
                });
                format!("data: {chunk}\n\n")
            };
            let end = piece(&json!({}), reason.into());
            (
                "text/event-stream",
                format!("{}{end}data: [DONE]\n\n", piece(answer, Value::Null)),
            )
        }
    };
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    );
}

fn calls(name: &str, input: &Value) -> Value {
    let function = json!({"name": name, "arguments": input.to_string()});
    json!({
        "role": "assistant",
        "tool_calls": [{"index": 0, "id": format!("call-{name}"), "type": "function", "function": function}],
    })
}

fn says(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

#[test]
fn from_an_empty_home_to_an_edit_undone() {
    for (columns, lines) in [(80, 24), (40, 20)] {
        let world = World::new();
        world.write("greet.sh", "echo Hello\n");
        let ollama = Ollama::start(vec![
            says("This is a script that greets."),
            calls("read", &json!({"path": "greet.sh"})),
            calls(
                "edit",
                &json!({"path": "greet.sh", "old_string": "Hello", "new_string": "Good day"}),
            ),
            says("It says good day now."),
            says("We changed a greeting and took it back."),
        ]);
        let ah = |arguments: &[&'static str]| -> Ah {
            let temporary = world.home().join("tmp");
            std::fs::create_dir_all(&temporary).unwrap();
            world
                .as_typed(arguments.iter().copied())
                .env("OLLAMA_HOST", &ollama.address)
                .env("TMPDIR", temporary)
        };

        // No key: the ways to a model, with the server that runs here.
        let mut seat = Seat::of_size(ah(&["--permission-mode", "default"]), columns, lines);
        seat.sees("Choose a model provider");
        seat.sees("Ollama");
        // The demo needs none, and the choice comes again.
        seat.says("demo");
        // Its end may have left a small screen before it is looked at.
        seat.wait_until("the end of the demo", |bytes, _| {
            String::from_utf8_lossy(bytes).contains("The session is kept.")
        });
        seat.wait_until("the choice once more", |_, screen| {
            screen.contains("Up, Down and Enter choose")
        });
        seat.says("ollama");
        seat.sees("? lists commands and keys");

        // A prompt.
        seat.says("what is here?");
        seat.sees("This is a script that greets.");
        seat.sees_no_more("Esc interrupts");

        // A question about an edit, with the file and the change.
        seat.says("greet politely");
        seat.sees("Good day");
        seat.sees("greet.sh");
        seat.sees("Allow?");
        seat.says("y");
        seat.sees("It says good day now.");
        seat.sees_no_more("Esc interrupts");
        assert_eq!(world.text("greet.sh"), "echo Good day\n");

        // Undo.
        seat.says("/undo");
        seat.sees("Continue?");
        seat.says("y");
        seat.sees("/redo");
        assert_eq!(world.text("greet.sh"), "echo Hello\n");

        // Leaving says how to come back, and coming back shows what was said, with the same model.
        seat.says("/exit");
        seat.wait_until("how to come back", |bytes, _| {
            String::from_utf8_lossy(bytes).contains("ah -c")
        });
        assert_eq!(seat.leaves(), 0);
        let mut seat = Seat::of_size(ah(&["-c"]), columns, lines);
        seat.sees("It says good day now.");
        seat.says("what did we do?");
        seat.sees("We changed a greeting");
        seat.sees_no_more("Esc interrupts");
        seat.types("\x04");
        assert_eq!(seat.leaves(), 0);
    }
}

/// That another server is set up hides none on this machine.
#[test]
fn a_program_on_this_machine_is_offered_beside_other_servers() {
    let world = World::new();
    let folder = world.home().join(".ah");
    std::fs::create_dir_all(&folder).unwrap();
    let settings = json!({"model": "gw/m", "providers": {"gw": {"baseUrl": "http://127.0.0.1:9"}}});
    std::fs::write(folder.join("settings.json"), settings.to_string()).unwrap();
    let ollama = Ollama::start(vec![calls("ping", &json!({}))]);
    let login = {
        world
            .as_typed(["login"])
            .env("OLLAMA_HOST", &ollama.address)
    }
    .env("OPENAI_BASE_URL", "http://127.0.0.1:9")
    .env("ANTHROPIC_API_KEY", "k");
    let mut seat = Seat::of_size(login, 100, 30);
    seat.sees("Ollama, running on this machine (1 model)");
    seat.says("ollama");
    seat.sees("Default model: ollama/small:latest");
    assert_eq!(seat.leaves(), 0);
}
