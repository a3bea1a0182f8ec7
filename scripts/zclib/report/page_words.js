/* SPDX-License-Identifier: MIT */
/* The page of a report or of a comparison: numbers as text, the words' meanings, parts of pages. */
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");

/* Sizes and times as the report's text has them. */
function size(bytes) {
  if (bytes === null || bytes === undefined) return "-";
  if (bytes < 0) return "-" + size(-bytes);
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0, value = bytes;
  while (Math.round(value) >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
  const whole = Number.isInteger(value) || value >= 99.95 || unit === 0;
  return (whole ? Math.round(value) : value.toFixed(1)) + " " + units[unit];
}

function duration(ns) {
  if (ns === null || ns === undefined) return "-";
  if (ns < 0) return "-" + duration(-ns);
  const units = ["ns", "us", "ms", "s"];
  let unit = 0, value = ns;
  while (value >= 1000 && unit < 3) { value /= 1000; unit++; }
  return (unit > 0 && value < 100 ? (Math.floor(value * 10) / 10).toFixed(1) : Math.floor(value)) +
         " " + units[unit];
}

/* Bytes a nanosecond are GB/s, as links are rated. */
function rate(perNs) {
  if (perNs === null || perNs === undefined) return "-";
  if (perNs !== 0 && perNs < 0.1)
    return perNs < 0.0001 ? Math.round(perNs * 1e6) + " kB/s" : (perNs * 1000).toFixed(1) + " MB/s";
  return (perNs >= 100 ? Math.round(perNs) : perNs.toFixed(1)) + " GB/s";
}

function percent(part, whole) {
  if (!whole) return "-";
  const share = 100 * part / whole;
  return (share > 0 && share < 0.95 ? share.toFixed(1) : Math.round(share)) + " %";
}

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function button(words, act, attributes) {
  const node = make("button", {type: "button", ...attributes}, words);
  node.addEventListener("click", act);
  return node;
}

/* What the words of the page mean; docs/log.md says it at length. */
const GLOSSARY = {
  "Asked": "Bytes that the program asked to copy, whatever became of them.",
  "Moved": "Bytes that the driver really copied.",
  "CPU copied": "Bytes that libzc copied by CPU threads within host memory, not over the link.",
  "Elided": "Bytes that did not have to be copied, because both sides are one memory.",
  "Blocked": "Time that the program's threads waited in calls that copy.",
  "Time": "Time that the program's threads waited in these calls.",
  "Wall": "Time from the process's first CUDA call to its end.",
  "Site": "A call path that allocates memory. Its id is the same in each run of the same build, " +
          "and rules can name it.",
  "Caller": "The innermost function of the call path that is not CUDA's own.",
  "Block": "One allocation, numbered in each process from 1 on.",
  "Place": "Where a block lies: device, mapped, managed, vmm, shared, pinned or pageable memory.",
  "Rule": "The section of policy.conf that chose the place.",
  "Pageable": "Ordinary host memory, as of malloc. The driver copies it through a buffer of its " +
              "own, which is slow.",
  "Pinned": "Host memory that stays where it is: the GPU copies it at the link's full speed.",
  "Managed": "Memory whose pages the driver moves between host and GPU by itself.",
  "Device": "The GPU's own memory.",
  "HtoD": "From the host to the device.",
  "DtoH": "From the device to the host.",
  "DtoD": "Within a device.",
  "Issued": "An asynchronous call returns before its bytes have gone. The log knows when they " +
            "were asked for, and not at what rate they went.",
  "Range": "A part of the program that it names by NVTX or zc.h; the innermost one of the thread " +
           "that asked.",
  "Repeated": "Copies of one size between the same two addresses as an earlier one.",
  "Link": "PCIe or NVLink, between host and GPU.",
  "Parted pages": "Pages of 2 MiB of which host and device got one each, as one side changed them.",
  "Faults": "Writes of the CPU to shared pages that libzc had to serve.",
};

/* A word whose meaning shows under the pointer, at a touch and for the keyboard. */
function term(words, key) {
  const meaning = GLOSSARY[key || words];
  if (!meaning) return words;
  const node = make("span", {class: "term", tabindex: 0, "data-tip": meaning}, words);
  return node;
}

function explainWords() {
  const tip = document.getElementById("tip");
  const show = event => {
    const node = event.target.closest && event.target.closest("[data-tip]");
    tip.hidden = !node;
    if (!node) return;
    tip.textContent = node.dataset.tip;
    const box = node.getBoundingClientRect(), width = document.documentElement.clientWidth;
    tip.style.left = Math.max(8, Math.min(box.left, width - tip.offsetWidth - 8)) + scrollX + "px";
    tip.style.top = box.bottom + 4 + scrollY + "px";
  };
  for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, show);
  document.addEventListener("keydown", event => { if (event.key === "Escape") tip.hidden = true; });
  main.append(make("details", {id: "glossary"}, make("summary", {}, "What the words mean"),
      make("dl", {}, ...Object.entries(GLOSSARY).flatMap(
          ([word, meaning]) => [make("dt", {}, word), make("dd", {}, meaning)]))));
}

/* A sentence in which `...` is what one writes in policy.conf. */
function sentence(words) {
  return words.split("`").map((part, i) => i % 2 ? make("code", {}, part) : part);
}

/* Pages are opened as files, where the clipboard's newer interface may be refused. */
function copyText(words, said) {
  const old = () => {
    const field = make("textarea", {class: "off"});
    field.value = words;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    said(done);
  };
  if (navigator.clipboard) navigator.clipboard.writeText(words).then(() => said(true), old);
  else old();
}

function download(name, words) {
  const link = make("a", {download: name});
  link.setAttribute("href", URL.createObjectURL(new Blob([words], {type: "text/plain"})));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.getAttribute("href")), 1000);
}
