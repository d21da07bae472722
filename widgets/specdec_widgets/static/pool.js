/**
 * What a scheduler's run says step by step: whose each block is, sums, sentences. Pure functions of a Timeline
 * (see specdec_teach/timeline.py) that mirror specdec_widgets/pool.py and serving.py (a test compares them).
 *
 * Invariant: every number follows from the records; a slot is filled (computed, reachable), stale (written since its
 * block was taken, unreachable) or unwritten.
 *
 * @typedef {{id: number, owners: number[], filled: number, written: number, published: boolean, evicted: boolean,
 *   idle: boolean, free: boolean, shared: boolean}} Block
 */

import { clip, list, mark, plural } from "./words.js";

const FEW = 5;
const within = (count, size) => Math.max(0, Math.min(count, size));
const total = (rows, key) => rows.reduce((sum, row) => sum + row[key], 0);

/** How a request ended in a step: "finished", "cancelled", "failed", or "" where it goes on. */
export const ending = (row) =>
  ["finished", "cancelled", "failed"].includes(row.state) ? row.state : row.ends !== null ? "finished" : "";

/** The name of a request with nothing invisible in it. */
export const nameOf = (timeline, request, n = 14) => clip(mark(timeline.names[request]), n);

/** The name in quotation marks, unless it is the one that a request has by default. */
const named = (timeline, request) => {
  const name = nameOf(timeline, request);
  return name === "request " + request ? name : `‘${name}’`;
};

/** Everything that depends on the run alone: rows by step and request, blocks by step, sums by step. */
export function indexRun(timeline) {
  const { blocks, block_size: size } = timeline.meta, held = [], rows = [], sums = [], seen = new Set();
  let before = new Map(), used = -1;
  let done = { emitted: 0, accepted: 0, drafted: 0, cycles: 0, fed: 0, adopted: 0, preempted: 0, seconds: 0 };
  for (const step of timeline.steps) {
    const now = new Map();
    for (const row of step.rows) {
      const peak = row.cycle === null ? row.computed : Math.max(row.computed, row.committed - row.emitted + row.drafted);
      row.table.forEach((block, at) => {
        const entry = now.get(block) ?? { owners: [], filled: 0, written: 0 };
        entry.owners.push(row.request);
        entry.filled = Math.max(entry.filled, within(row.computed - at * size, size));
        entry.written = Math.max(entry.written, within(peak - at * size, size));
        now.set(block, entry);
      });
    }
    for (const [block, entry] of now) {
      const earlier = before.get(block);
      if (earlier?.owners.some((owner) => entry.owners.includes(owner))) entry.written = Math.max(entry.written, earlier.written);
      entry.owners.sort((a, b) => a - b);
    }
    for (const block of [...now.keys(), ...step.published, ...step.evicted]) used = Math.max(used, block);
    for (const row of step.rows) seen.add(row.request);
    const live = step.rows.filter((row) => !ending(row)), count = (states) => live.filter((row) => states.includes(row.state)).length;
    const more = { ...done, cycles: done.cycles + step.rows.filter((row) => row.cycle !== null).length };
    for (const key of ["emitted", "accepted", "drafted", "fed", "adopted"]) more[key] += total(step.rows, key);
    more.preempted += step.rows.filter((row) => row.state === "preempted").length;
    more.seconds += step.seconds;
    done = more;
    sums.push({
      in_use: now.size, idle: step.idle.length, free: blocks - now.size - step.idle.length,
      shared: [...now.values()].filter((entry) => entry.owners.length > 1).length, published: step.published.length,
      running: count(["prefill", "cycle"]), waiting: count(["waiting", "preempted"]), over: seen.size - live.length, ...done,
    });
    held.push(now);
    rows.push(new Map(step.rows.map((row) => [row.request, row])));
    before = now;
  }
  return { timeline, held, rows, sums, shown: used + 1, requests: [...seen].sort((a, b) => a - b) };
}

/** The blocks after a step, by id, as far as the run ever uses them. @returns {Block[]} */
export function blocksAfter(run, step) {
  const { meta, steps } = run.timeline, moment = steps[step], size = meta.block_size;
  const published = new Set(moment.published), idle = new Set(moment.idle), evicted = new Set(moment.evicted);
  return Array.from({ length: run.shown }, (_, id) => {
    const { owners = [], filled = 0, written = 0 } = run.held[step].get(id) ?? {}, kept = idle.has(id);
    return {
      id, owners, filled: kept ? size : filled, written: kept ? size : written, published: published.has(id),
      evicted: evicted.has(id), idle: published.has(id) && !owners.length, free: !published.has(id) && !owners.length,
      shared: owners.length > 1,
    };
  });
}

/** What a block is, in two or three words. @param {Block} block */
export function tileWords(block, size) {
  if (block.evicted) return block.free ? "evicted" : `evicted ${block.filled}/${size}`;
  if (block.idle) return "idle";
  if (block.free) return "free";
  const stale = block.written - block.filled;
  if (block.shared) return block.filled === size ? "shared" : `${block.filled}/${size} shared`;
  return `${block.filled}/${size}` + (stale ? ` ${stale} stale` : "");
}

/** The row whose block table is worth showing: the longest one, the earliest request first. */
export const chosen = (run, step) =>
  run.timeline.steps[step].rows.filter((row) => row.table.length)
    .reduce((best, row) => (best && best.table.length >= row.table.length ? best : row), null);

/** The block table of a request after a step. */
export function places(run, step, row) {
  const size = run.timeline.meta.block_size;
  return row.table.map((block, at) => ({
    first: at * size, block, filled: within(row.computed - at * size, size),
    others: run.held[step].get(block).owners.filter((owner) => owner !== row.request),
  }));
}

/** How the slot of the newest computed token follows from the table. */
export function where(row, size) {
  const at = row.computed - 1, index = Math.floor(at / size), block = row.table[index];
  if (at < 0 || block === undefined) return "";
  return `position ${at}: table[${at} // ${size}] = table[${index}] = block ${block}, ` +
    `slot ${block} · ${size} + ${at} % ${size} = ${block * size + (at % size)}`;
}

/** The requests that went between a step and the one before it, without an ending in either. */
export const left = (run, step) => !step ? [] :
  run.timeline.steps[step - 1].rows.filter((row) => !ending(row) && !run.rows[step].has(row.request)).map((row) => row.request);

/** What a step did, with its numbers. */
export function say(run, step) {
  const { timeline, sums } = run, moment = timeline.steps[step], after = sums[step];
  const parts = moment.rows.length <= FEW ? each(run, step) : all(moment.rows), gone = left(run, step);
  if (gone.length) parts.push(`${gone.length <= FEW ? list(gone.map((r) => named(timeline, r))) : gone.length + " requests"} left before it`);
  const happened = parts.length ? parts.join("; ") : "nobody is there", n = moment.evicted.length;
  let pool = `${after.in_use} of ${plural(timeline.meta.blocks, "block")} ${after.in_use === 1 ? "is" : "are"} in use, `;
  pool += `${after.idle} idle and ${after.free} free`;
  const which = n <= FEW ? `block${n > 1 ? "s" : ""} ${list(moment.evicted.map(String))}` : `${n} blocks`;
  if (n) pool += `; ${which} ${n === 1 ? "was" : "were"} evicted to make room`;
  return `Step ${moment.index}: ${happened}. ${pool}.`;
}

/** A clause for every request of the step; those that wait share one. */
function each(run, step) {
  const { timeline } = run, parts = [], wait = [];
  for (const row of timeline.steps[step].rows) {
    const name = named(timeline, row.request);
    if (row.state === "waiting") wait.push(name);
    else parts.push(`${name} ${deed(run, step, row)}`);
  }
  return wait.length ? [...parts, `${list(wait)} ${wait.length === 1 ? "waits" : "wait"} for room`] : parts;
}

function deed({ timeline, rows }, step, row) {
  const deeds = [], end = ending(row);
  if (row.adopted) deeds.push(`takes ${plural(row.adopted, "token")} over from published blocks`);
  const again = row.committed - row.emitted > timeline.prompts[row.request];
  if (row.fed) deeds.push(`computes ${plural(row.fed, "token")}${again ? " again" : " of its prompt"}`);
  if (row.cycle !== null) {
    const less = row.gamma < timeline.meta.gamma ? ` (γ = ${row.gamma})` : "";
    const kept = row.drafted ? `keeps ${row.accepted} of ${plural(row.drafted, "draft")}` : "drafts nothing";
    deeds.push(kept + less, `emits ${plural(row.emitted, "token")}`);
  }
  if (row.state === "preempted") {
    const lost = (step ? rows[step - 1].get(row.request)?.table.length : 0) ?? 0;
    deeds.push(lost ? `gives its ${plural(lost, "block")} back to make room` : "gives its blocks back");
  }
  const why = row.ends && row.ends !== end ? ` (${clip(mark(row.ends), 20)})` : "";
  if (end) deeds.push({ finished: "ends", cancelled: "is cancelled", failed: "fails" }[end] + why);
  return list(deeds) || "stands by";
}

/** The step as sums, where a clause for each request would be too long. */
function all(rows) {
  const cycles = rows.filter((row) => row.cycle !== null), feeds = rows.filter((row) => row.fed), parts = [];
  const taken = total(rows, "adopted");
  if (cycles.length) {
    const kept = `${total(cycles, "accepted")} of ${plural(total(cycles, "drafted"), "draft")} kept`;
    const verb = cycles.length === 1 ? "runs" : "run";
    parts.push(`${plural(cycles.length, "request")} ${verb} a cycle, ${kept}, ${plural(total(cycles, "emitted"), "token")} emitted`);
  }
  const verb = feeds.length === 1 ? "computes" : "compute";
  if (feeds.length) parts.push(`${feeds.length} ${verb} ${plural(total(feeds, "fed"), "token")} outside of a cycle`);
  if (taken) parts.push(`${plural(taken, "token")} taken over from published blocks`);
  const add = (n, one, more) => n && parts.push(`${n} ${n === 1 ? one : more}`);
  add(rows.filter((row) => row.state === "preempted").length, "gives its blocks back", "give their blocks back");
  add(rows.filter((row) => row.state === "waiting").length, "waits for room", "wait for room");
  add(rows.filter((row) => ending(row) === "finished").length, "ends", "end");
  add(rows.filter((row) => ending(row) === "cancelled").length, "is cancelled", "are cancelled");
  add(rows.filter((row) => ending(row) === "failed").length, "fails", "fail");
  return parts;
}
