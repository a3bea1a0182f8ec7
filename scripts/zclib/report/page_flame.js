/* SPDX-License-Identifier: MIT */
/* Copied bytes by call paths, as a flame graph that opens. */
"use strict";

const LEAST_SHARE = 0.003;  // Narrower boxes could not be hit.

function frameName(frame) {
  return frame.function ? frame.function + (frame.line ? `, ${frame.line}` : "") : frame.frame;
}

/* A tree of all call paths, outermost first; each node knows the bytes below it. */
function pathTree(sites) {
  const root = {name: "all copied bytes", bytes: 0, below: new Map(), site: null};
  for (const site of sites) {
    let node = root;
    node.bytes += site.asked_bytes;
    const frames = site.frames.length ? site.frames.map(frameName) : [site.caller || site.site];
    for (const name of frames.reverse()) {
      if (!node.below.has(name))
        node.below.set(name, {name, bytes: 0, below: new Map(), site: null});
      node = node.below.get(name);
      node.bytes += site.asked_bytes;
    }
    node.site = site.site;
  }
  return root;
}

function shadeOf(name) {
  let hash = 0;
  for (const char of name) hash = (hash * 31 + char.codePointAt(0)) >>> 0;
  return `hsl(${14 + hash % 40} ${60 + hash % 25}% var(--flame))`;
}

/* The boxes of a node and of all below it, within left and width in per cent. */
function boxes(node, level, left, width, all, open) {
  if (width / 100 < LEAST_SHARE) return [];
  const words = `${node.name}: ${size(node.bytes)}, ${percent(node.bytes, all.bytes)}`;
  const box = button(node.name, () => open(node), {title: words, style: `left:${left}%;` +
      `width:calc(${width}% - 1px);top:${level * 22}px;background:${shadeOf(node.name)}`});
  let at = left;
  const inner = [...node.below.values()].sort((a, b) => b.bytes - a.bytes).flatMap(child => {
    const share = node.bytes ? width * child.bytes / node.bytes : 0;
    at += share;
    return boxes(child, level + 1, at - share, share, all, open);
  });
  return [box, ...inner];
}

function depth(node) {
  return 1 + Math.max(0, ...[...node.below.values()].map(depth));
}

/* The graph of sites, whose rows are those of a table. */
function flame(parent, id, title, sites, rows, note) {
  const root = pathTree(sites.filter(site => site.asked_bytes));
  if (!root.bytes) return;
  const field = make("div", {class: "flame", id});
  const said = make("p", {class: "soft"});
  function open(node) {
    field.style.height = `${22 * (depth(node) + (node === root ? 0 : 1))}px`;
    const above = node === root ? [] : boxes({...root, below: new Map()}, 0, 0, 100, root, open);
    if (above.length) above[0].addEventListener("click", () => open(root));
    field.replaceChildren(...above, ...boxes(node, above.length, 0, 100, root, open));
    said.replaceChildren(`${node.name}: ${size(node.bytes)}, ${percent(node.bytes, root.bytes)} `,
        node.site ? leadTo(rows, node.site, `site ${node.site}`) : "");
  }
  parent.append(make("div", {class: "chart wide"},
      make("h3", {}, title), field, said,
      make("p", {class: "soft hint"}, `A click opens a call path. ${note}`)));
  open(root);
}
