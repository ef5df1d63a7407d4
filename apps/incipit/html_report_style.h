// SPDX-License-Identifier: Apache-2.0
//
// The style sheet of html_report(): two colour schemes, one column on a phone, plain on paper.
#pragma once

#include <string_view>

namespace incipit::app {

inline constexpr std::string_view kReportStyle = R"css(
:root { color-scheme: light dark; --page: #f4f5f7; --card: #ffffff; --ink: #16202c;
  --muted: #56616f; --line: #dfe3e8; --good: #1a7340; --bad: #b3261e;
  --first: #1d5fc4; --second: #b4510b; --third: #0c7a70; --fourth: #7b3fb5; }
@media (prefers-color-scheme: dark) {
  :root { --page: #10151b; --card: #19212a; --ink: #e8edf2; --muted: #a3afbc; --line: #313c48;
    --good: #6fd39a; --bad: #ff9a91; --first: #79b0ff; --second: #ffae66; --third: #5fd3c4;
    --fourth: #cfa2ff; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; -webkit-text-size-adjust: 100%; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 48px; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 1.15rem; line-height: 1.3; margin: 0 0 4px; }
p { margin: 0; }
.muted { color: var(--muted); }
.lead { margin-top: 6px; }
code { font: 0.9em ui-monospace, monospace; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 20px; margin-top: 16px; min-width: 0; }
.headline { display: grid; gap: 16px; margin-top: 24px;
  grid-template-columns: repeat(auto-fit, minmax(210px, 1fr)); }
.headline section { margin: 0; padding: 16px 20px; }
.figure { font-size: 2.1rem; font-weight: 650; line-height: 1.15; letter-spacing: -0.02em;
  font-variant-numeric: tabular-nums; }
.figure small { font-size: 1rem; font-weight: 500; letter-spacing: 0; color: var(--muted); }
.plots { display: grid; gap: 0 16px; grid-template-columns: 1fr 1fr; align-items: start; }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 10px 0 12px; padding: 0;
  list-style: none; font-size: 0.875rem; }
.key li { display: flex; align-items: center; gap: 8px; }
.key svg { width: 34px; height: 12px; flex: none; }
.key .curve { fill: none; stroke: var(--look); stroke-width: 2.5; stroke-linecap: round; }
details { margin-top: 12px; border-top: 1px solid var(--line); padding-top: 10px; }
summary { cursor: pointer; font-size: 0.9rem; color: var(--muted); }
summary:focus-visible, .scroll:focus-visible { outline: 2px solid var(--first);
  outline-offset: 2px; border-radius: 4px; }
.scroll { overflow-x: auto; margin-top: 10px; }
table { border-collapse: collapse; width: 100%; font-size: 0.9375rem; }
caption { text-align: left; color: var(--muted); font-size: 0.875rem; padding-bottom: 8px; }
th, td { padding: 7px 10px; border-bottom: 1px solid var(--line); text-align: right;
  font-variant-numeric: tabular-nums; vertical-align: baseline; }
td, tbody th, thead th:last-child { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
thead th { font-size: 0.8125rem; font-weight: 600; color: var(--muted); line-height: 1.3; }
tbody th { font-weight: 500; }
tbody th.group { font-weight: 650; padding-top: 18px; }
tr.best td, tr.best th { font-weight: 650; }
tr:last-child > * { border-bottom: 0; }
.wide { width: 34%; }
.bar { height: 10px; border-radius: 3px; background: var(--first); min-width: 2px; }
.second .bar { background: var(--second); }
.proofs { list-style: none; margin: 10px 0 0; padding: 0; }
.proofs li { display: flex; gap: 10px; padding: 4px 0; }
.holds { color: var(--good); font-weight: 700; }
.fails { color: var(--bad); font-weight: 700; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; margin: 10px 0 0; }
dt { color: var(--muted); }
dd { margin: 0; overflow-wrap: anywhere; }
.modes dl { margin-top: 16px; font-size: 0.875rem; }
@media (max-width: 820px) { .plots { grid-template-columns: 1fr; } }
@media (max-width: 520px) {
  main { padding: 20px 12px 32px; }
  h1 { font-size: 1.45rem; }
  section { padding: 16px; }
  .headline { grid-template-columns: 1fr 1fr; gap: 12px; }
  .headline section { padding: 12px 14px; font-size: 0.875rem; }
  .figure { font-size: 1.55rem; }
  .wide { display: none; }
  table { font-size: 0.875rem; }
  details table { font-size: 0.75rem; }
  details thead th { font-size: 0.6875rem; }
  th, td { padding: 6px 4px; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 8px; }
}
@media print {
  :root { --page: #ffffff; --card: #ffffff; --ink: #000000; --muted: #444444; --line: #bbbbbb;
    --good: #1a7340; --bad: #b3261e; --first: #1d5fc4; --second: #b4510b; --third: #0c7a70;
    --fourth: #7b3fb5; }
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  section { padding: 12px 14px; margin-top: 10px; }
  .plots { grid-template-columns: 1fr 1fr; gap: 0 10px; }
  .headline { grid-template-columns: repeat(4, 1fr); gap: 10px; margin-top: 12px; }
  .headline section { padding: 10px 12px; }
  .figure { font-size: 1.4rem; }
  table { font-size: 0.75rem; }
  th, td { padding: 3px 6px; }
  section:not(.modes), tr { break-inside: avoid; }
  .bar { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";

}  // namespace incipit::app
