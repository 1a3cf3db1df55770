// SPDX-License-Identifier: Apache-2.0
//
// The flame graph in Chromium, used as a person would. Expected numbers come from service_profile() in
// tests/unit/output/sample_profiles.h: 100 samples, so that a share is its number of samples.
"use strict";
const assert = require("assert");
const { execFileSync } = require("child_process");
const fs = require("fs");
const path = require("path");
const { test, newPage, golden, pictures } = require("./harness.js");

const fromGolden = name => `file://${path.join(golden, name)}`;
const fromPictures = name => `file://${path.join(pictures, name)}`;

async function open(context, url, options) {
  const page = await newPage(context, options);
  await page.goto(url);
  return page;
}

// A frame by the beginning of its label; the first where several have it.
const frame = (page, label) => page.locator(".f", { has: page.locator("xpath=self::*") }).filter({
  has: page.locator(`xpath=./*[local-name()="title" and starts-with(text(), "${label}")]`),
}).first();

const box = locator => locator.locator("rect").boundingBox();
const information = page => page.locator("#info text").textContent();
const near = (actual, expected, text) => assert.ok(Math.abs(actual - expected) <= 1.5, `${text}: ${actual}, not ${expected}`);

for (const name of ["service.svg", "service.inverted.svg", "empty.svg"]) {
  test(`flame graph: ${name} is well-formed, opens without an error and asks the network for nothing`, async context => {
    execFileSync("xmllint", ["--noout", path.join(golden, name)]);
    const page = await open(context, fromGolden(name));
    assert.deepStrictEqual(page.errors, []);
    assert.deepStrictEqual(page.requests, [fromGolden(name)]);
    await page.screenshot({ path: path.join(pictures, `${name}.png`) });
  });
}

test("flame graph: widths are shares, and no frame is wider than its caller", async context => {
  const page = await open(context, fromGolden("service.svg"));
  const whole = await box(frame(page, "[all]"));
  const expected = { "<module>": [0, 74], "Service.serve (": [0, 74], "dumps": [35, 35], "[gc]": [35, 5],
    "Thread._bootstrap": [74, 25], "[unproved]": [99, 1] };
  for (const [label, [begin, samples]] of Object.entries(expected)) {
    const found = await box(frame(page, label));
    near(found.x, whole.x + whole.width * begin / 100, `${label} begins`);
    near(found.width, whole.width * samples / 100, `${label} is wide`);
  }
  const sums = await page.evaluate(() => {
    const children = new Map(), bad = [], all = [...document.querySelectorAll(".f")];
    for (const el of all) {
      const [y, x, n] = [+el.getAttribute("y"), +el.dataset.x, +el.dataset.n];
      if (y === 0) continue;
      const parent = all.find(other => +other.getAttribute("y") === y - 20 && +other.dataset.x <= x && +other.dataset.x + +other.dataset.n >= x + n);
      if (!parent) bad.push(el.textContent);
      children.set(parent, (children.get(parent) || 0) + n);
    }
    for (const [parent, sum] of children) if (sum > +parent.dataset.n) bad.push(parent.textContent);
    return bad;
  });
  assert.deepStrictEqual(sums, []);
});

test("flame graph: a click zooms, ancestors stay, others go; the button goes back", async context => {
  const page = await open(context, fromGolden("service.svg"));
  const reset = page.getByRole("button", { name: "Reset zoom" });
  assert.strictEqual(await reset.isVisible(), false);
  const whole = await box(frame(page, "[all]"));
  await frame(page, "dumps").click();
  for (const label of ["[all]", "<module>", "Service.serve (", "dumps", "JSONEncoder.encode"]) {
    const found = await box(frame(page, label));
    near(found.x, whole.x, label);
    near(found.width, whole.width, label);
  }
  near((await box(frame(page, "[gc]"))).width, whole.width * 5 / 35, "[gc]");
  assert.strictEqual(await frame(page, "Template.render").isVisible(), false);
  assert.strictEqual(await frame(page, "Thread._bootstrap").isVisible(), false);
  assert.match(await frame(page, "Service.serve (").getAttribute("class"), /\bup\b/);
  await frame(page, "[gc]").hover();
  assert.match(await information(page), /^\[gc\] +5 samples, 5\.00% of 100 samples of running threads, 14\.29% of the zoomed frame$/);
  await reset.click();
  near((await box(frame(page, "dumps"))).width, whole.width * 35 / 100, "dumps");
  assert.strictEqual(await frame(page, "Template.render").isVisible(), true);
  assert.strictEqual(await reset.isVisible(), false);
});

test("flame graph: tooltip and information line tell share, samples and base", async context => {
  const page = await open(context, fromGolden("service.svg"));
  await frame(page, "Template.render").hover();
  assert.match(await information(page), /^Template\.render \(jinja2\/environment\.py:1301\) +35 samples, 35\.00% of 100 samples of running threads$/);
  assert.strictEqual(await frame(page, "Template.render").locator("title").textContent(),
    "Template.render (jinja2/environment.py:1301)\n35 samples, 35.00% of 100 samples of running threads");
  const odd = await frame(page, "a;b").locator("title").textContent();
  assert.ok(odd.startsWith("a;b\\x0a\\x1b[31mc\u00e9\u4ef6 (odd & <file>.py:7)\n"), odd);
});

test("flame graph: search counts nested matches once, says what is no expression, and keeps the case where asked", async context => {
  const page = await open(context, fromGolden("service.svg"));
  const input = page.getByRole("searchbox");
  const matched = page.locator("output");
  await page.keyboard.press("Control+f");
  assert.ok(await input.evaluate(element => element === document.activeElement));
  await page.keyboard.type("dumps|encode$|encode \\(");
  // dumps 35 with encode 35 below it, and encode 1 below [unproved].
  assert.strictEqual(await matched.textContent(), "36.00% matched, 3 frames");
  assert.strictEqual(await page.locator(".hit").count(), 3);
  assert.strictEqual(await frame(page, "dumps").locator("rect").evaluate(el => getComputedStyle(el).fill), "rgb(214, 58, 168)");
  await page.screenshot({ path: path.join(pictures, "search.png") });
  for (const [pattern, expected] of [["SERVICE", "0.00% matched, 0 frames"], ["service", "74.00% matched, 2 frames"],
    ["Service", "74.00% matched, 2 frames"], ["\\.py:\\d+", "100.00% matched, 9 frames"], ["[all]", /matched/],
    ["(", "not a regular expression"], ["", ""]]) {
    await input.fill(pattern);
    const text = await matched.textContent();
    if (expected instanceof RegExp) assert.match(text, expected); else assert.strictEqual(text, expected, pattern);
  }
  assert.strictEqual(await page.locator(".hit").count(), 0);
  assert.deepStrictEqual(page.errors, []);
});

test("flame graph: the picture follows the window, and texts with it", async context => {
  const page = await open(context, fromGolden("service.svg"));
  for (const width of [1400, 700, 320]) {
    await page.setViewportSize({ width, height: 600 });
    await page.waitForFunction(expected => Math.abs(document.querySelector(".f rect").getBoundingClientRect().width - expected) < 1.5, width - 24);
    near((await box(frame(page, "dumps"))).width, (width - 24) * 0.35, "dumps");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth));
    for (const each of await page.locator(".f:has(text)").all()) {
      const [outer, text] = [await box(each), await each.locator("text").boundingBox()];
      if (text && text.width > 0) assert.ok(text.width <= outer.width, await each.locator("text").textContent());
    }
    await page.screenshot({ path: path.join(pictures, `width-${width}.png`) });
  }
  assert.match(await frame(page, "Template.render").locator("text").textContent(), /^Template\.r\w*\u2026$/);
});

test("flame graph: it can be used by keyboard alone", async context => {
  const page = await open(context, fromGolden("service.svg"));
  const focused = () => page.evaluate(() => document.activeElement.querySelector?.("title")?.textContent.split(/[ \n]/)[0]);
  await frame(page, "[all]").focus();
  const walk = async (key, expected) => { await page.keyboard.press(key); assert.strictEqual(await focused(), expected, key); };
  await walk("ArrowDown", "<module>");
  await walk("ArrowRight", "Thread._bootstrap");
  await walk("ArrowLeft", "<module>");
  await walk("ArrowDown", "Service.serve");
  await walk("ArrowDown", "Service.serve.<locals>.<lambda>");
  await walk("ArrowRight", "dumps");
  await page.keyboard.press("Enter");
  assert.strictEqual(await frame(page, "Template.render").isVisible(), false);
  await walk("ArrowUp", "Service.serve");
  await page.keyboard.press("Escape");
  assert.strictEqual(await frame(page, "Template.render").isVisible(), true);
  await page.keyboard.press("F3");
  await page.keyboard.type("dumps");
  await page.keyboard.press("Escape");
  assert.strictEqual(await page.getByRole("searchbox").evaluate(element => element.value), "");
  assert.strictEqual(await page.locator(".searching").count(), 0);
});

test("flame graph: the address keeps zoom and search", async context => {
  const page = await open(context, fromGolden("service.svg"));
  await page.getByRole("searchbox").fill("enc.de");
  await frame(page, "dumps").click();
  const address = page.url();
  assert.match(address, /#zoom=\d+&search=enc\.de$/);
  const other = await open(context, address);
  assert.strictEqual(await frame(other, "Template.render").isVisible(), false);
  assert.strictEqual(await other.getByRole("searchbox").evaluate(element => element.value), "enc.de");
  assert.strictEqual(await other.locator("output").textContent(), "36.00% matched, 2 frames");
  await other.keyboard.press("Escape");
  await other.getByRole("searchbox").fill("");
  assert.strictEqual(other.url(), fromGolden("service.svg"));
  const wrong = await open(context, fromGolden("service.svg") + "#zoom=9999&search=%28");
  assert.strictEqual(await wrong.locator("output").textContent(), "not a regular expression");
  assert.deepStrictEqual(wrong.errors, []);
});

test("flame graph: inverted has the leaves at the top", async context => {
  const page = await open(context, fromGolden("service.inverted.svg"));
  const rows = await page.evaluate(() => [...document.querySelectorAll(".f")].filter(el => el.getAttribute("y") === "20")
    .map(el => [el.querySelector("title").textContent.split(/[ \n]/)[0], +el.dataset.n]));
  assert.deepStrictEqual(rows, [["JSONEncoder.encode", 31], ["Service.serve", 4], ["Template.render", 35], ["[gc]", 5],
    ["a;b\\x0a\\x1b[31mc\u00e9\u4ef6", 25]]);
  assert.ok((await page.locator(".facts title").allTextContents()).some(text => text.includes("inverted")));
});

test("flame graph: the head tells command, process, rate, time, counts and base", async context => {
  const page = await open(context, fromGolden("service.svg"));
  assert.strictEqual(await page.title(), "python3 app.py --title 'Tom & \"Jerry\" <1>'");
  const facts = (await page.locator(".facts text").allTextContents()).join(" ");
  for (const part of ["pid 4711", "Python 3.12.1", "100 Hz asked", "1.0 s", "100 samples", "2 refused", "1 truncated",
    "percentages of 100 samples of running threads"]) assert.ok(facts.includes(part), part);
});

test("flame graph: without its script it is a picture that looks right", async context => {
  const page = await open(context, fromGolden("service.svg"), { javaScriptEnabled: false, viewport: { width: 1200, height: 600 } });
  const whole = await box(frame(page, "[all]"));
  near(whole.width, 1176, "whole");
  near((await box(frame(page, "dumps"))).x, whole.x + whole.width * 0.35, "dumps");
  assert.ok((await frame(page, "dumps").locator("text").textContent()).startsWith("dumps (json"));
  assert.strictEqual(await page.locator("input").count(), 0);
  await page.screenshot({ path: path.join(pictures, "static.png") });
});

test("flame graph: as an image it has its size", async context => {
  const page = await newPage(context);
  const html = path.join(pictures, "image.html");
  fs.writeFileSync(html, `<!doctype html><img src="${fromGolden("service.svg")}">`);
  await page.goto(`file://${html}`);
  const size = await page.evaluate(async () => { const image = document.images[0]; await image.decode(); return [image.naturalWidth, image.naturalHeight]; });
  assert.deepStrictEqual(size, [1200, 112 + 6 * 20 + 12]);
});

test("flame graph: dark where the system is dark", async context => {
  const page = await open(context, fromGolden("service.svg"), { colorScheme: "dark" });
  assert.strictEqual(await page.locator(".page").first().evaluate(el => getComputedStyle(el).fill), "rgb(21, 24, 28)");
  await page.screenshot({ path: path.join(pictures, "dark.png") });
});

for (const name of ["wide.svg", "wide.inverted.svg"]) {
  test(`flame graph: ${name} stays usable with very many stacks and says what it leaves out`, async context => {
    execFileSync("xmllint", ["--noout", path.join(pictures, name)]);
    const page = await open(context, fromPictures(name));
    const count = await page.locator(".f").count();
    assert.ok(count > 19000 && count <= 20000, String(count));
    assert.match(await page.locator(".note text").textContent(), /^[\d,]+ narrow frames are not drawn; each has at most \d+ samples \(0\.00\d+%\)\.$/);
    await page.getByRole("searchbox").fill("render");
    const share = parseFloat(await page.locator("output").textContent());
    assert.ok(share > 0 && share <= 100, String(share));
    await page.evaluate(() => document.querySelectorAll(".f")[5].dispatchEvent(new MouseEvent("click", { bubbles: true })));
    assert.strictEqual(await page.getByRole("button", { name: "Reset zoom" }).isVisible(), true);
    await page.screenshot({ path: path.join(pictures, `${name}.png`) });
    assert.deepStrictEqual(page.errors, []);
  });
}

test("flame graph: a stack of 10,000 frames is cut under a counted note, the head stays in sight", async context => {
  const page = await open(context, fromPictures("deep.svg"));
  assert.match(await page.locator(".note text").textContent(), /^97 samples \(97\.98%\) go deeper than is drawn, which is 499 rows at most\./);
  assert.strictEqual(await page.locator(".f").count(), 500);
  await page.evaluate(() => window.scrollTo(0, 4000));
  await page.waitForFunction(() => Math.abs(document.querySelector("input").getBoundingClientRect().top - 9) < 5);
  const inverted = await open(context, fromPictures("deep.inverted.svg"));
  assert.ok((await frame(inverted, "leaf").locator("title").textContent()).includes("50 samples"));
});

test("flame graph: an empty one says so", async context => {
  const page = await open(context, fromGolden("empty.svg"));
  assert.strictEqual(await page.locator(".f").count(), 1);
  assert.strictEqual(await page.locator(".f text").textContent(), "[no samples]");
  await frame(page, "[no samples]").click();
  await page.getByRole("searchbox").fill("x");
  assert.strictEqual(await page.locator("output").textContent(), "0% matched, 0 frames");
  assert.deepStrictEqual(page.errors, []);
});
