# SPDX-License-Identifier: Apache-2.0
"""The program in the picture of README.md: it makes web pages of Markdown files, again and again.

Usage: build_pages.py DIRECTORY SECONDS
"""
import pathlib
import sys
import time

import jinja2
import markdown
from pygments.formatters import HtmlFormatter

TEMPLATE = """<!doctype html>
<title>{{ title }}</title>
<style>{{ css }}</style>
<nav>{% for page in pages %}<a href="{{ page.stem }}.html">{{ page.stem | title }}</a> {% endfor %}</nav>
<main>{{ body }}</main>
<aside>{% for word, count in words %}{{ word }} ({{ count }}) {% endfor %}</aside>
"""


class Site:
    def __init__(self, directory):
        self.pages = sorted(pathlib.Path(directory).rglob("*.md"))
        self.template = jinja2.Environment(autoescape=False).from_string(TEMPLATE)
        self.css = HtmlFormatter().get_style_defs(".codehilite")

    def build(self):
        return [self.render(page) for page in self.pages]

    def render(self, page):
        text = page.read_text(encoding="utf-8")
        body = markdown.markdown(text, extensions=["tables", "fenced_code", "codehilite", "toc"])
        return self.template.render(
            title=page.stem, css=self.css, pages=self.pages, body=body, words=frequent_words(text, 20))


def frequent_words(text, most):
    counts = {}
    for word in text.split():
        word = word.strip(".,:;()[]`*|").lower()
        if len(word) > 4:
            counts[word] = counts.get(word, 0) + 1
    return sorted(counts.items(), key=lambda item: -item[1])[:most]


def main(directory, seconds):
    site = Site(directory)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        site.build()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
