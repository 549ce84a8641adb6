//! New files that would be taken for modules of Python's standard library: the folder of the project comes first where
//! Python looks for them, so such a file runs in the place of what runs the tests.

use std::path::{Component, Path};

/// The public modules of Python 3.11 (`sys.stdlib_module_names`), and what pytest imports besides its own.
const MODULES: &str = "\
    abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb binascii bisect builtins \
    bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs codeop collections colorsys compileall concurrent \
    configparser contextlib contextvars copy copyreg crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis \
    distutils doctest email encodings ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib \
    functools gc genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib imaplib \
    imghdr imp importlib inspect io ipaddress itertools json keyword lib2to3 linecache locale logging lzma mailbox mailcap \
    marshal math mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath nturl2path numbers \
    opcode operator optparse os ossaudiodev pathlib pdb pickle pickletools pipes pkgutil platform plistlib poplib posix \
    posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re readline \
    reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site smtpd smtplib sndhdr \
    socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string stringprep struct \
    subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios textwrap this threading \
    time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty turtle turtledemo types typing unicodedata \
    unittest urllib uu uuid venv warnings wave weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile \
    zipimport zlib zoneinfo \
    exceptiongroup iniconfig packaging pygments tomli";

/// Folders at the top of a project that Python is usually told to look in as well.
const SOURCES: [&str; 2] = ["src", "lib"];

/// Whether a path, relative to the project, is of such a module.
pub(crate) fn is_shadow(path: &Path) -> bool {
    let is_python = path
        .extension()
        .is_some_and(|it| it == "py" || it == "so" || it == "pyc");
    let mut parts = path.components().map(Component::as_os_str).peekable();
    parts.next_if(|part| SOURCES.iter().any(|name| part == name));
    let first = parts.next().and_then(|part| Path::new(part).to_str());
    let module = first.and_then(|part| part.split('.').next());
    is_python && module.is_some_and(|module| MODULES.split_whitespace().any(|it| it == module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_the_standard_library_are_known() {
        for (path, expected) in [
            ("argparse.py", true),
            ("json/__init__.py", true),
            ("src/re.py", true),
            ("select.cpython-311-x86_64-linux-gnu.so", true),
            ("app/types.py", false),
            ("calc.py", false),
            ("json/data.txt", false),
            ("token.md", false),
        ] {
            assert_eq!(is_shadow(Path::new(path)), expected, "{path}");
        }
    }
}
