// Lines that somebody made to be slow: each is shown at once, whatever it is. A pattern that tries every way to share a line
// between its parts would need minutes.

import assert from 'node:assert/strict';
import { test } from 'node:test';

class Node {
  constructor(name) {
    Object.assign(this, { tagName: name.toUpperCase(), childNodes: [] });
  }
  append(...children) {
    this.childNodes.push(...children);
  }
  setAttribute() {}
  addEventListener() {}
}
Object.assign(globalThis, { Node, document: { createElement: name => new Node(name) } });
const { markdown } = await import('../../serve/src/page/markdown.js');

const LONG = 190_000;
const [spaces, dashes] = [' '.repeat(LONG), '-'.repeat(LONG)];

for (const [name, text, tag] of [
  ['a line of dashes alone', dashes, 'HR'],
  ['a line of dashes that ends in a letter', `${dashes}x`, 'P'],
  ['a line of dashes below another', `|\n${dashes}`, 'P'],
  ['a ruler that ends in a letter', `a|b\n${'|-'.repeat(LONG / 2)}x`, 'P'],
  ['a ruler', 'a|b\n-|-\n1|2', 'DIV'],
  ['a heading', `# ${spaces}\u2028x\u2028y`, 'H2'],
  ['an item', `- ${spaces}\u2028x\u2028y`, 'UL'],
  ['an item with a number', `1. ${'\u2028'.repeat(LONG)}y`, 'OL'],
  ['a task', `- [ ] ${spaces}\u2028x\u2028y`, 'UL'],
  ['a rule that ends in a letter', `${'- '.repeat(LONG / 2)}x`, 'UL'],
  ['a quote', `> ${'\u2028'.repeat(LONG)}y`, 'BLOCKQUOTE'],
  ['links without an end', '[a]('.repeat(4_900), 'P'],
  ['a link with blanks', `[a](${' '.repeat(19_000)}`, 'P'],
  ...["'\\", '"', '/*', '`\\', 'a(', '<!--', '#'].map(word => [`code of ${word}`, `\`\`\`js\n${word.repeat(99_000 / word.length)}`, 'DIV']),
  ...['*', '_', '~', '*]', '_!', '[', '![', '`', '\\', '<h'].map(word => [`paragraphs of ${word}`, `a${word.repeat(19_900 / word.length)}\n\n`.repeat(9), 'P']),
  ['a line of quotes', '>'.repeat(LONG), 'BLOCKQUOTE'],
  ['short lines', 'a\n'.repeat(LONG / 2), 'P'],
  ['lists in lists', Array.from({ length: 600 }, (_, at) => `${' '.repeat(at / 2)}- a\n`).join(''), 'UL'],
  ['rows of a table', '-|\n'.repeat(LONG / 3), 'DIV'],
  ['fences without an end', '```\n~~~\n'.repeat(LONG / 8), 'DIV'],
  ['addresses of points', 'http://....'.repeat(1_800), 'P'],
]) {
  test(name, { timeout: 20_000 }, () => assert.equal(markdown(text)[0].tagName, tag));
}
