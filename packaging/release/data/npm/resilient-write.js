#!/usr/bin/env node
// Runs the program of this system, which npm installed as an optional dependency.
const { spawn } = require("node:child_process");

const name = `@resilientwrite/${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "resilient-write.exe" : "resilient-write";
let program;
try {
  program = require.resolve(`${name}/${file}`);
} catch {
  console.error(`resilient-write: ${name} is not installed. Install without --omit=optional; where there is no program for this system, go install github.com/resilientwrite/resilientwrite/cmd/resilient-write@latest builds it.`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit", windowsHide: true });
child.on("error", (error) => {
  console.error(`resilient-write: ${error.message}`);
  process.exit(1);
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else process.exit(code);
});
