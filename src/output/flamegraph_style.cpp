// SPDX-License-Identifier: Apache-2.0
//
// The flame graph's style sheet. Colours are even steps in OKLCH (lightness and chroma fixed, hue varied), so
// that no shade shouts: warm the program's own files, blue to violet packages, green to teal the standard
// library, purple to pink native code. Plain selectors and no custom properties: viewers that run no script often know little CSS.
#include "output/flamegraph_assets.h"

namespace pyprof {

const std::string_view kFlamegraphStyle = R"css(
.pyprof{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif;fill:#1f2328}
.pyprof{color-scheme:light dark;background:#fff}
.page{fill:#fff}
.command text{font-size:17px;font-weight:600}
.facts text,#legend text{fill:#59636e}
.note text{fill:#9a5b00}
#info text{white-space:pre;font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
#frames{font:11.5px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1b1b1b}
#frames text{pointer-events:none;white-space:pre}
#frames tspan{fill-opacity:.62}
.f{cursor:pointer;outline:none}
.f rect{rx:2px}
.w rect{stroke:#fff;stroke-width:1px}
.b rect{fill-opacity:.84}
.c rect{fill-opacity:.68}
.f:hover rect,.f:focus rect{stroke:#1f2328;stroke-width:2.5px}
.up rect{fill-opacity:.5}
.searching .f rect{fill-opacity:.28}
.searching .f text{fill-opacity:.6}
.searching .hit rect{fill-opacity:1}
.searching .hit text{fill-opacity:1}
.bar{display:flex;padding:2px 0;gap:8px;justify-content:flex-end;align-items:center;font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;color:#59636e;white-space:nowrap}
.bar input,.bar button{font:inherit;color:#1f2328;background:#f6f8fa;border:1px solid #d1d9e0;border-radius:6px;height:28px;box-sizing:border-box;padding:0 10px}
.bar input{width:230px;min-width:60px}
.bar input:focus,.bar button:focus-visible{outline:2px solid #4a7fd6;outline-offset:-1px}
.bar input.bad{border-color:#d1242f;outline-color:#d1242f}
.bar button{cursor:pointer}
.bar [hidden]{display:none}
.bar output{font-variant-numeric:tabular-nums}
.o0 rect{fill:#fc9980} .o1 rect{fill:#ffac84} .o2 rect{fill:#f6a069}
.o3 rect{fill:#ffb46f} .o4 rect{fill:#eba857} .o5 rect{fill:#f4bd62}
.o6 rect{fill:#dab14f} .o7 rect{fill:#e1c661} .p0 rect{fill:#79c3e0}
.p1 rect{fill:#90d1f7} .p2 rect{fill:#89beeb} .p3 rect{fill:#a2cafe}
.p4 rect{fill:#9db7ef} .p5 rect{fill:#b7c4ff} .p6 rect{fill:#b1b0ec}
.p7 rect{fill:#cbbdf9} .s0 rect{fill:#a6ca93} .s1 rect{fill:#adddaa}
.s2 rect{fill:#94cea3} .s3 rect{fill:#9cdfbc} .s4 rect{fill:#84d0b5}
.s5 rect{fill:#8ee0ce} .s6 rect{fill:#7ad0c6} .s7 rect{fill:#88e0df}
.n0 rect{fill:#d2a3e1} .n1 rect{fill:#e1abe6} .n2 rect{fill:#dca0d6}
.n3 rect{fill:#eaa8da} .n4 rect{fill:#e49ec9} .n5 rect{fill:#f2a7cc}
.n6 rect{fill:#ea9dbc} .n7 rect{fill:#f7a6be} .m rect{fill:#d1d4da}
.hit rect{fill:#d63aa8}
.hit text{fill:#fff}
@media (prefers-color-scheme:dark){
  .pyprof{fill:#e6edf3}
  .pyprof{background:#15181c}
  .page{fill:#15181c}
  .facts text,#legend text{fill:#9198a1}
  .note text{fill:#d9a13f}
  #frames{fill:#f2f3f5}
  .w rect{stroke:#15181c}
  .f:hover rect,.f:focus rect{stroke:#e6edf3}
  .bar{color:#9198a1}
  .bar input,.bar button{color:#e6edf3;background:#22272e;border-color:#3d444d}
  .o0 rect{fill:#8c4230} .o1 rect{fill:#9a5333} .o2 rect{fill:#884719}
  .o3 rect{fill:#94591f} .o4 rect{fill:#804e00} .o5 rect{fill:#8a600a}
  .o6 rect{fill:#745500} .o7 rect{fill:#7c6705} .p0 rect{fill:#015e79}
  .p1 rect{fill:#296b8d} .p2 rect{fill:#275981} .p3 rect{fill:#416593}
  .p4 rect{fill:#3e5485} .p5 rect{fill:#555f94} .p6 rect{fill:#514e82}
  .p7 rect{fill:#67598f} .s0 rect{fill:#405c30} .s1 rect{fill:#466c44}
  .s2 rect{fill:#2f5e3e} .s3 rect{fill:#356e52} .s4 rect{fill:#1c604c}
  .s5 rect{fill:#266e60} .s6 rect{fill:#076059} .s7 rect{fill:#1c6e6e}
  .n0 rect{fill:#6a4475} .n1 rect{fill:#794e7d} .n2 rect{fill:#71426d}
  .n3 rect{fill:#804c74} .n4 rect{fill:#774063} .n5 rect{fill:#854a69}
  .n6 rect{fill:#7b3e59} .n7 rect{fill:#89495e} .m rect{fill:#3f4348}
  .hit rect{fill:#b8328f}
}
)css";

}  // namespace pyprof
