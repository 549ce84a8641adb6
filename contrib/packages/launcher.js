#!/usr/bin/env node
// Starts the program, which is in a package of its own for each platform.
"use strict";

const { spawn } = require("node:child_process");

const ANY_KEY_OF_THE_TERMINAL = ["SIGINT", "SIGQUIT"];
const OTHERS = ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"];

function program() {
  const name = `@ah-agent/ah-${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/bin/ah`);
  } catch {
    console.error(
      `ah: the package ${name} is not installed.\n` +
        "It is an optional dependency: install without `--omit=optional`, and on the platform where ah will run.\n" +
        "There are packages for Linux on x64 and arm64."
    );
    process.exit(1);
  }
}

const path = program();
const words = process.argv.slice(2);

// Newer versions of Node can become the program.
if (typeof process.execve === "function") {
  process.execve(path, [path, ...words], process.env);
}

const child = spawn(path, words, { stdio: "inherit" });
for (const signal of OTHERS) {
  process.on(signal, () => child.kill(signal));
}
// A terminal sends its signals to both processes, and a second Ctrl-C means more than the first.
const has_terminal = [0, 1, 2].some((stream) => require("node:tty").isatty(stream));
for (const signal of ANY_KEY_OF_THE_TERMINAL) {
  process.on(signal, () => has_terminal || child.kill(signal));
}
child.on("error", (error) => {
  console.error(`ah: cannot start ${path}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
