// SPDX-License-Identifier: Apache-2.0
//
// The little that these tests need of a framework: named tests, a browser, a server on the loopback.
"use strict";
const { chromium } = require("playwright-core");
const fs = require("fs");
const http = require("http");
const path = require("path");

const golden = path.join(__dirname, "..", "golden");
const pictures = process.env.PYPROF_PICTURES;
const tests = [];

const test = (name, body) => tests.push({ name, body });

async function runAll() {
  const browser = await chromium.launch({
    executablePath: process.env.PYPROF_CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"],
  });
  let passed = 0, failed = 0;
  for (const { name, body } of tests) {
    const context = { browser, closers: [] };
    try {
      await body(context);
      console.log(`ok      ${name}`);
      ++passed;
    } catch (error) {
      console.log(`FAILED  ${name}\n${String(error.stack).replace(/^/gm, "        ")}`);
      ++failed;
    }
    for (const close of context.closers.reverse()) await close();
  }
  await browser.close();
  console.log(`${passed} passed, ${failed} failed, 0 skipped`);
  process.exitCode = failed === 0 ? 0 : 1;
}

// A page that fails the test on any script error, and that remembers what it asked the network for.
async function newPage(context, options = {}) {
  const browserContext = await context.browser.newContext({ viewport: { width: 1400, height: 800 }, ...options });
  context.closers.push(() => browserContext.close());
  const page = await browserContext.newPage();
  page.errors = [];
  page.requests = [];
  page.on("pageerror", error => page.errors.push(error.message));
  page.on("request", request => page.requests.push(request.url()));
  return page;
}

const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json",
  ".svg": "image/svg+xml", ".wasm": "application/wasm" };

// Serves the files below each directory: { "/app": dir, ... }. Resolves to the address.
async function serve(context, directories) {
  const server = http.createServer((request, response) => {
    const asked = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const prefix = Object.keys(directories).find(each => asked.startsWith(each + "/"));
    const file = prefix && path.join(directories[prefix], path.normalize(asked.slice(prefix.length)));
    if (!file || !fs.existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": types[path.extname(file)] || "application/octet-stream" });
    fs.createReadStream(file).pipe(response);
  });
  await new Promise(resolve => server.listen(0, "127.0.0.1", resolve));
  context.closers.push(() => new Promise(resolve => { server.closeAllConnections?.(); server.close(resolve); }));
  return `http://127.0.0.1:${server.address().port}`;
}

module.exports = { test, runAll, newPage, serve, golden, pictures };
