// SPDX-License-Identifier: Apache-2.0
//
// All browser tests, one after the other; `run` starts this.
"use strict";
require("./flamegraph.js");
require("./speedscope.js");
require("./harness.js").runAll();
