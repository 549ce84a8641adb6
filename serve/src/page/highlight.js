// Colours in code: comments, strings, numbers, keywords and names of functions, by one pattern for each way in which
// languages write comments. It colours what it knows, and never parses: what it takes wrongly only has another colour.

import { el } from './dom.js';

/// Longest code that is coloured, in characters.
const LONGEST = 100_000;

const WORDS = `abstract and as assert async await begin bool boolean break case catch char class const continue crate
  def default defer del delete do done double elif else elsif end enum esac except export extends extern f32 f64 false fi
  final finally float fn for foreach from func function go goto i32 i64 if impl implements import in inline instanceof int
  interface is lambda let local long loop match mod module move mut namespace new nil none not null of operator or package
  pass private protected pub public raise record ref return self short signed sizeof static str string struct super switch
  template then this throw trait true try type typedef typeof u32 u64 u8 undefined union unless unsigned until use using usize
  val var virtual void volatile where while with yield select insert update into values join on group by order having create
  table drop alter`;
const KEYWORDS = new Set(WORDS.trim().split(/\s+/));

// Each alternative takes time that grows with what it takes: its end may be missing, or is near.
const DOUBLE = String.raw`"[^"\\\n]*(?:\\.[^"\\\n]*)*"?`;
const SINGLE = String.raw`'(?:[^'\\\n]|\\.){0,200}'`;
// A quote may begin a name there.
const CHARACTER = String.raw`'(?:[^'\\\n]|\\.[^'\n]{0,9})'`;
const TICKS = '`[^`\\\\]*(?:\\\\[^][^`\\\\]*)*`?';
const REST = String.raw`\b\d[\w.]*|[A-Za-z_$][\w$]*(?:(?=(\s?\())|)|[^]`;
const pattern = (comment, single = SINGLE) => new RegExp(`(${comment})|(${DOUBLE}|${single}|${TICKS})|${REST}`, 'y');
const SLASH = String.raw`\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)`;
const SLASHES = pattern(SLASH);
const RUST = pattern(SLASH, CHARACTER);
const HASH = pattern('#[^\\n]*');
const DASHES = pattern('--[^\\n]*');
const MARKUP = pattern('<!-{2}[^]*?(?:-->|$)');

const LANGUAGES = new Map([
  [SLASHES, 'c cc cpp h hpp cs css dart go groovy java javascript js jsonc json jsx kotlin kt mjs php proto scala scss swift ts tsx typescript zig'],
  [RUST, 'rs rust'],
  [HASH, 'bash conf dockerfile elixir ex fish ini makefile mk nix perl pl ps1 py python r rb ruby sh shell toml yaml yml zsh'],
  [DASHES, 'hs haskell lua sql'],
  [MARKUP, 'html svg vue xml'],
].flatMap(([found, names]) => names.split(' ').map(name => [name, found])));

/// Returns the name by which the language of a file is known: the ending of its path.
export const ending = path => path.split('/').at(-1).split('.').at(-1).toLowerCase();

/// Returns code as pieces of text and coloured elements.
export function coloured(code, language) {
  const found = LANGUAGES.get(language.toLowerCase());
  if (!found || code.length > LONGEST) return [code];
  const pieces = [];
  const add = (kind, text) => {
    const last = pieces.at(-1);
    if (last?.[0] === kind) last[1] += text;
    else pieces.push([kind, text]);
  };
  found.lastIndex = 0;
  for (let match = found.exec(code); match && match[0]; match = found.exec(code)) {
    const [text, comment, string, called] = match;
    add(comment ? 'comment' : string ? 'string' : word(text, called), text);
  }
  return pieces.map(([kind, text]) => (kind ? el('span', { class: `is-${kind}` }, text) : text));
}

function word(text, called) {
  if (/^\d/.test(text)) return 'number';
  if (KEYWORDS.has(text)) return 'keyword';
  return called ? 'name' : null;
}
