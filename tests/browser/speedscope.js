// SPDX-License-Identifier: Apache-2.0
//
// speedscope files against the schema that the app ships and in the app itself. The app says that it has
// read a file by putting its name into the title; on failure the title stays "speedscope".
"use strict";
const Ajv = require("ajv");
const assert = require("assert");
const fs = require("fs");
const path = require("path");
const { test, newPage, serve, golden, pictures } = require("./harness.js");

const release = path.join(path.dirname(require.resolve("speedscope/package.json")), "dist", "release");
const files = {
  "service.speedscope.json": golden, "empty.speedscope.json": golden,
  "modest.speedscope.json": pictures, "deep.speedscope.json": pictures,
};

function read(name) {
  return JSON.parse(fs.readFileSync(path.join(files[name], name), "utf8"));
}

for (const name of Object.keys(files)) {
  test(`speedscope: ${name} keeps to the schema`, async () => {
    const schema = JSON.parse(fs.readFileSync(path.join(release, "file-format-schema.json"), "utf8"));
    const validate = new Ajv({ strict: false, allErrors: true }).compile(schema);
    assert.ok(validate(read(name)), JSON.stringify(validate.errors));
  });
}

async function openInApp(context, directory, name) {
  const address = await serve(context, { "/app": release, "/file": directory });
  const page = await newPage(context);
  await page.goto(`${address}/app/index.html#profileURL=${encodeURIComponent(`${address}/file/${name}`)}`);
  await page.waitForFunction(() => document.title !== "speedscope" && document.title !== "", null, { timeout: 60000 });
  const outside = page.requests.filter(url => !url.startsWith(address) && !/^(data|blob):/.test(url));
  return { page, outside };
}

for (const name of ["service.speedscope.json", "modest.speedscope.json", "deep.speedscope.json"]) {
  test(`speedscope: the app opens ${name}`, async context => {
    const { page, outside } = await openInApp(context, files[name], name);
    assert.match(await page.title(), /speedscope$/);
    assert.deepStrictEqual(page.errors, []);
    assert.deepStrictEqual(outside, []);
    await page.screenshot({ path: path.join(pictures, `${name}.png`) });
  });
}

for (const [directory, name] of [[golden, "service.collapsed"], [pictures, "modest.collapsed"]]) {
  test(`collapsed: the speedscope app opens ${name}`, async context => {
    const { page } = await openInApp(context, directory, name);
    assert.match(await page.title(), /speedscope$/);
    assert.deepStrictEqual(page.errors, []);
  });
}

for (const [directory, name] of [[golden, "service.collapsed"], [pictures, "modest.collapsed"], [pictures, "deep.collapsed"]]) {
  test(`collapsed: each line of ${name} is a stack and a count`, async () => {
    const text = fs.readFileSync(path.join(directory, name), "utf8");
    assert.ok(text.endsWith("\n"));
    for (const line of text.slice(0, -1).split("\n")) assert.match(line, /^\S.* \d+$/);
  });
}
