// The package as it would be published: its files, and the quick start of the README, word by word, with what was packed.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { client, newItem, SERVER } from "./support.js";

const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));
const APP = join(PACKAGE, "out/app");

function run(program: string, ...words: string[]): string {
  return execFileSync(program, words, { cwd: PACKAGE, encoding: "utf8" });
}

test("the package has what is imported, and the quick start works with it", async () => {
  rmSync(APP, { recursive: true, force: true });
  mkdirSync(join(APP, "node_modules"), { recursive: true });
  // What is packed was built before the tests.
  const [packed] = JSON.parse(run("npm", "pack", "--json", "--ignore-scripts", "--pack-destination", APP));
  assert.equal(packed.filename, "stockhold-0.1.0.tgz");
  const sources = readdirSync(join(PACKAGE, "src")).map((file) => file.replace(/\.ts$/, ""));
  const built = sources.flatMap((name) => [`dist/${name}.d.ts`, `dist/${name}.js`]);
  const files: string[] = packed.files.map((file: { path: string }) => file.path);
  assert.deepEqual(files.sort(), ["README.md", "package.json", ...built].sort());
  const manifest = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8"));
  assert.equal(manifest.dependencies, undefined);

  run("tar", "-xzf", join(APP, packed.filename), "-C", APP);
  renameSync(join(APP, "package"), join(APP, "node_modules/stockhold"));
  const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
  const code = /```ts\n(.*?)```/s.exec(readme)?.[1];
  assert.ok(code, "the README has no quick start");
  const sku = await newItem();
  writeFileSync(join(APP, "package.json"), '{"type": "module", "private": true}');
  const here = code.replaceAll("http://127.0.0.1:8101", SERVER).replaceAll('"shirt"', JSON.stringify(sku));
  writeFileSync(join(APP, "quick_start.ts"), here);
  const compiler = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"];
  run("node", "node_modules/typescript/bin/tsc", ...compiler, join(APP, "quick_start.ts"));
  assert.equal(run("node", join(APP, "quick_start.js")), "8\n");
  assert.equal((await client.item(sku)).confirmed_sold, 2);
});

test("the library uses nothing that only Node has", () => {
  for (const file of readdirSync(join(PACKAGE, "src"))) {
    const text = readFileSync(join(PACKAGE, "src", file), "utf8");
    assert.doesNotMatch(text, /from "(?!\.\/)|\brequire\(|\bBuffer\b|\bprocess\./, file);
  }
});

test("the lock file names no registry", () => {
  const text = readFileSync(join(PACKAGE, "package-lock.json"), "utf8");
  assert.doesNotMatch(text, /"resolved"/);
});
