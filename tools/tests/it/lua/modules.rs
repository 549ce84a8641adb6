//! The built-in modules for scripts.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use super::*;

#[test]
fn json_and_codec() {
    for (body, expected) in [
        (
            "return json.encode({ b = { 1, 2.5, true }, a = json.null, c = json.array() })",
            r#"{"a":null,"b":[1,2.5,true],"c":[]}"#,
        ),
        (
            "return json.encode(json.decode('{\"a\":[],\"b\":{},\"c\":null}'))",
            r#"{"a":[],"b":{}}"#,
        ),
        ("return json.decode('[1, \"x\"]')[2]", "x"),
        (
            r#"return json.decode('["a \\ud83d \xe9 b"]')[1]"#,
            "a \u{fffd} \u{fffd} b",
        ),
        (
            "return json.encode({ a = 1 }, { pretty = true })",
            "{\n  \"a\": 1\n}",
        ),
        (
            "return json.decode('[1,')",
            "error: EOF while parsing a value at line 1 column 3",
        ),
        (
            "local t = {} t.t = t return json.encode(t)",
            "error: recursive table detected",
        ),
        (
            "return json.encode({ a = { 1, 2, x = 3 } })",
            "error: a table has items and the key `x`: it is neither a list nor an object",
        ),
        ("return json.encode({ 1, nil, 3 })", "[1,null,3]"),
        (
            "return codec.encode_base64('a\\255') .. codec.encode_hex('a\\255')",
            "Yf8=61ff",
        ),
        (
            "return codec.decode_base64('aGV5\\n') .. codec.decode_hex('6A6a')",
            "heyjj",
        ),
        (
            "return codec.decode_hex('6')",
            "error: not an even number of hexadecimal digits",
        ),
    ] {
        let answer = answer(&format!(
            "local json, codec = require('json'), require('codec') {body}"
        ));
        assert_eq!(answer, expected, "{body}");
    }
}

#[test]
fn the_environment_is_the_scripts_own() {
    let folder = Folder::new();
    let tool = tool(
        &folder,
        "local env = require('env')
        env.set('ADDED', 'new') env.unset('GREETING')
        return (input.before or os.getenv('GREETING') or 'none') .. io.popen('echo $ADDED$GREETING'):read('a') .. env.all().ADDED",
    );
    assert_eq!(text(&run(&tool, json!({}))), "nonenew\nnew");
    assert_eq!(
        answer("return os.getenv('GREETING') .. tostring(os.getenv('ADDED'))"),
        "hellonil"
    );
}

#[test]
fn files_folders_and_paths() {
    let folder = Folder::new();
    let tool = tool(
        &folder,
        "local fs = require('fs')
        assert(fs.makedirs('a/b'))
        assert(fs.write('a/b/one.txt', 'one', tonumber('600', 8)))
        assert(fs.append('a/b/one.txt', ' more'))
        assert(fs.write('a/two.md', 'two'))
        local found = {}
        for path in fs.walk('a') do found[#found + 1] = path end
        for path in fs.files('a', '*.md') do found[#found + 1] = path end
        local folder = assert(fs.opendir('a'))
        for name in function() return folder:read() end do found[#found + 1] = name end
        folder:close()
        assert(fs.rename('a/two.md', 'three.md'))
        assert(fs.exists('three.md') and fs.isfile('three.md') and fs.isdir('a') and not fs.exists('a/two.md'))
        local stat = fs.stat('a/b/one.txt')
        found[#found + 1] = stat.size .. string.format(' %o', stat.mode)
        found[#found + 1] = fs.read('a/b/one.txt')
        assert(fs.rmrf('a') and not fs.exists('a'))
        local text, why = fs.read('a')
        found[#found + 1] = tostring(text) .. why
        found[#found + 1] = select(2, fs.write('/zip/embed/x', ''))
        found[#found + 1] = fs.join('x', 'y') .. fs.dirname('x/y') .. fs.basename('x/y') .. fs.dirname('x')
        found[#found + 1] = tostring(fs.getcwd() == context.cwd)
        return table.concat(found, '\\n')",
    );
    insta::assert_snapshot!(text(&run(&tool, json!({}))), @"
        a/b/one.txt
        a/two.md
        a/two.md
        b
        two.md
        8 600
        one more
        nila: No such file or directory (os error 2)
        /zip/embed/x: cannot write `/zip/embed/x`: it is a part of the program, which can only be read
        x/yxy.
        true
        ");
}

#[test]
fn programs_are_run_and_talked_with() {
    for (body, expected) in [
        (
            "local o = spawn.run('echo out; echo err >&2; exit 3') return o.code .. o.stdout .. o.stderr .. tostring(o.ok)",
            "3out\nerr\nfalse",
        ),
        (
            "return spawn.run({ 'cat' }, { stdin = 'given' }).stdout",
            "given",
        ),
        ("return spawn.run({ 'pwd' }, { cwd = '/' }).stdout", "/\n"),
        (
            "return spawn.run({ '/usr/bin/env' }, { env = { A = '1' } }).stdout:match('A=1')",
            "A=1",
        ),
        (
            "return spawn.run({ '/usr/bin/env' }, { env = { 'B=2' } }).stdout:match('B=2')",
            "B=2",
        ),
        (
            "return tostring(spawn.run('sleep 1000', { timeout_ms = 20 }).timed_out)",
            "true",
        ),
        (
            "return spawn.run({ 'no-such-program' })",
            "error: command not found: no-such-program",
        ),
        (
            "return select(2, spawn({ 'no-such-program' }))",
            "command not found: no-such-program",
        ),
        (
            "local ok, out, code = spawn({ 'sh', '-c', 'echo x; exit 2' }):read() return tostring(ok) .. out .. code",
            "falsex\n2",
        ),
        (
            "local h = spawn.spawn('echo e >&2; echo o') return h.stderr:read() .. h.stdout:read() .. h:wait()",
            "e\no\n0",
        ),
        // More than a pipe's buffer, on both streams.
        (
            "return #spawn.run('yes | head -c 300000; yes | head -c 300000 >&2').stderr",
            "300000",
        ),
        (
            "local h = spawn.spawn({ 'cat' }, { stdin = ('x'):rep(300000) }) return #select(2, h:read())",
            "300000",
        ),
        // A process left behind keeps the pipe open and is not waited for.
        (
            "return spawn.run('sleep 1000 & echo done').stdout",
            "done\n",
        ),
        (
            "return tostring(os.execute('exit 3')) .. select(3, os.execute('exit 3'))",
            "nil3",
        ),
        (
            "local p = io.popen('cat > f; exit 4', 'w') p:write('in', 1) return select(3, p:close()) .. io.popen('cat f'):read('l')",
            "4in1",
        ),
        (
            "local all = '' for line in io.popen('echo a; echo b'):lines() do all = all .. line end return all",
            "ab",
        ),
    ] {
        assert_eq!(
            answer(&format!("local spawn = require('spawn') {body}")),
            expected,
            "{body}"
        );
    }
}

#[test]
fn databases() {
    for (body, expected) in [
        (
            "db:exec('create table t (a integer, b text); insert into t values (1, null)')
            db:exec('insert into t values (?, ?)', 2, 'two')
            local all = '' for row in db:query('select * from t where a > ? order by a', 0) do
              all = all .. row.a .. tostring(row.b) .. ' '
            end return all .. db:last_insert_rowid() .. db:changes()",
            "1nil 2two 21",
        ),
        ("local ok, why = db:exec('nonsense') return tostring(ok) .. ': ' .. why", "nil: near \"nonsense\": syntax error in nonsense at offset 0"),
        ("return db:rows('select ? as x', 4.5)[1].x", "4.5"),
        (
            "db:exec('create table t (a)')
            assert(db:transaction(function(tx) tx:exec('insert into t values (1)') end))
            pcall(db.transaction, db, function(tx) tx:exec('insert into t values (2)') error('no') end)
            return db:rows('select count(*) as n from t')[1].n",
            "1",
        ),
        (
            "db:exec('create virtual table notes using fts5(text)')
            db:exec('insert into notes values (?), (?)', 'the red house', 'a blue door')
            return db:rows('select text from notes where notes match ?', 'door')[1].text",
            "a blue door",
        ),
        ("return db:rows([[select '{\"a\": [1, 2]}' ->> '$.a[1]' as n]])[1].n", "2"),
        ("db:close() return db:exec('select 1')", "error: the database is closed"),
    ] {
        let body = format!("local db = assert(require('sqlite').open(':memory:')) {body}");
        assert_eq!(answer(&body), expected, "{body}");
    }
}

/// Starts a server with these answers, one per connection; its thread returns the requests.
fn server(answers: Vec<String>) -> (String, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = thread::spawn(move || {
        let requests = answers.into_iter().map(|answer| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.ends_with(b"\r\n\r\n") && !request.ends_with(b"end") {
                let length = stream.read(&mut buffer).unwrap();
                request.extend_from_slice(&buffer[..length]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(request).unwrap().to_lowercase()
        });
        requests.collect()
    });
    (address, asked)
}

#[test]
fn servers() {
    let ok = |body: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nX-Kind: test\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let (elsewhere, asked_elsewhere) = server(vec![ok("there")]);
    let moved = format!(
        "HTTP/1.1 302 Found\r\nLocation: {elsewhere}/x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let missing =
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned();
    let (address, asked) = server(vec![ok("hello"), moved, missing, ok("posted")]);
    let body = format!(
        "local http = require('http')
        local all = {{}}
        local function add(answer) all[#all + 1] = table.concat({{ tostring(answer.ok), tostring(answer.status),
          tostring(answer.body), tostring(answer.error), answer.headers and tostring(answer.headers['x-kind']) }}, ' ') end
        add(http.get('{address}/a'))
        add(http.fetch('{address}/b', {{ headers = {{ Authorization = 'secret' }} }}))
        add(http.get('{address}/c'))
        add(http.post('{address}/d', 'the end', {{ headers = {{ ['Content-Type'] = 'text/plain' }} }}))
        add(http.get('ftp://x'))
        return table.concat(all, '\\n')"
    );
    insta::assert_snapshot!(answer(&body), @"
        true 200 hello nil test
        true 200 there nil test
        false 404  the server answered 404 Not Found nil
        true 200 posted nil test
        false nil nil `ftp://x/` is not an http or https address
        ");
    let asked = asked.join().unwrap();
    let starts: Vec<_> = asked
        .iter()
        .map(|request| request.lines().next().unwrap())
        .collect();
    assert_eq!(
        starts,
        [
            "get /a http/1.1",
            "get /b http/1.1",
            "get /c http/1.1",
            "post /d http/1.1"
        ]
    );
    assert!(asked[1].contains("authorization: secret"));
    assert!(asked[3].contains("content-type: text/plain") && asked[3].ends_with("the end"));
    let asked = asked_elsewhere.join().unwrap();
    assert!(asked[0].starts_with("get /x ") && !asked[0].contains("authorization"));
}
