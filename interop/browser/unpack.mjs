// Unpacks the browser, and the libraries that some machines lack, into the current folder.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';

const packed = name => brotliDecompressSync(readFileSync(`node_modules/@sparticuz/chromium/bin/${name}.br`));

writeFileSync('chromium', packed('chromium'), { mode: 0o755 });
execFileSync('tar', ['x'], { input: packed('al2023.tar') });
