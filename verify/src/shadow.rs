//! New files that would be taken for modules of Python's standard library: the folder of the project comes first where
//! Python looks for them, so such a file runs in the place of what runs the tests.

use std::path::{Component, Path};

/// The modules of Python 3.9 to 3.14 (`sys.stdlib_module_names`) without those that it has built in, and what pytest imports
/// besides its own.
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
    annotationlib binhex compression \
    __future__ _aix_support _android_support _apple_support _ast_unparse _asyncio _bisect _blake2 _bootlocale _bootsubprocess \
    _bz2 _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _collections_abc _colorize _compat_pickle \
    _compression _contextvars _crypt _csv _ctypes _curses _curses_panel _datetime _dbm _decimal _elementtree _gdbm _hashlib \
    _heapq _hmac _interpchannels _interpqueues _interpreters _ios_support _json _lsprof _lzma _markupbase _md5 _msi \
    _multibytecodec _multiprocessing _opcode _opcode_metadata _osx_support _overlapped _pickle _posixshmem _posixsubprocess \
    _py_abc _py_warnings _pydatetime _pydecimal _pyio _pylong _pyrepl _queue _random _remote_debugging _scproxy _sha1 _sha2 \
    _sha256 _sha3 _sha512 _sitebuiltins _socket _sqlite3 _ssl _statistics _strptime _struct _testcapi _testinternalcapi \
    _threading_local _tkinter _types _uuid _weakrefset _winapi _wmi _zoneinfo _zstd \
    atomicwrites attr attrs colorama exceptiongroup importlib_metadata iniconfig packaging py pygments toml tomli \
    typing_extensions zipp";

/// Begins the name of a module with the settings that Python was built with; the rest is that of the machine.
const SYSCONFIG: &str = "_sysconfigdata";

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
    let is_known = |module: &str| {
        module.starts_with(SYSCONFIG) || MODULES.split_whitespace().any(|it| it == module)
    };
    is_python && module.is_some_and(is_known)
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
            ("py.py", true),
            ("_weakrefset.py", true),
            ("_sysconfigdata__linux_x86_64-linux-gnu.py", true),
            ("calc.py", false),
            ("_calc.py", false),
            ("__init__.py", false),
            ("json/data.txt", false),
            ("token.md", false),
        ] {
            assert_eq!(is_shadow(Path::new(path)), expected, "{path}");
        }
    }
}
