// The player's pure functions, against traces that the Python side wrote to the file named by SPECDEC_TRACES.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { blocksSentence, columns, num, pace, pair } from "../../../widgets/specdec_widgets/static/words.js";
import * as steps_ from "../../../widgets/specdec_widgets/static/steps.js";
import * as lanes from "../../../widgets/specdec_widgets/static/lanes.js";
import * as book from "../../../widgets/specdec_widgets/static/ledger.js";
import { settings } from "../../../widgets/specdec_widgets/static/captions.js";
import { narrate } from "../../../widgets/specdec_widgets/static/narration.js";
import { cycleStep, nextRejection } from "../../../widgets/specdec_widgets/static/player.js";

const player = { ...steps_, ...lanes, ...book, narrate, columns, num, pair };

const { traces, steps, labels, numbers, paces, blocks, odd_blocks } = JSON.parse(readFileSync(process.env.SPECDEC_TRACES, "utf8"));

for (const [name, trace] of Object.entries(traces)) {
  const m = player.index(trace), frames = m.frames;

  test(`${name}: the stages are those that Python counts`, () => {
    assert.deepEqual(frames.map((f) => [f.cycle, f.stage]), steps[name]);
  });

  test(`${name}: pointers move as the trace says, and only forward until the rewind`, () => {
    for (const [i, c] of trace.cycles.entries()) {
      const mine = frames.filter((f) => f.cycle === i && f.stage !== "prefill" && f.stage !== "end");
      for (const [which, kv] of [["target", c.target_kv], ["draft", c.draft_kv]]) {
        const seen = mine.map((f) => f[which]);
        if (!kv) { assert.ok(seen.every((v) => v === null)); continue; }
        assert.equal(seen[0], kv.before);
        assert.equal(seen.at(-1), kv.after);
        assert.equal(Math.max(...seen), Math.max(kv.before, kv.written));
        const top = mine.findIndex((f) => f.stage === "rewind"), rising = top < 0 ? seen : seen.slice(0, top);
        assert.deepEqual(rising, [...rising].sort((a, b) => a - b));
      }
    }
  });

  test(`${name}: every step has a sentence, and a scene inside its columns`, () => {
    for (const f of frames.slice(0, 400)) {
      const said = player.narrate(trace, m, f);
      assert.match(said, /^[A-Z].*[.…]$/su);
      assert.doesNotMatch(said, /undefined|NaN|null|Infinity/);
      assert.ok(said.length < 500, said);
      const { items, lines } = player.scene(trace, m, f, 0, Math.min(m.longest, 60), player.focus(trace, f));
      for (const item of items) {
        assert.ok(Number.isFinite(item.x) && item.x >= 0 && item.x <= m.edge.at(-1), item.key);
        assert.ok(!item.text || !/^(chip|cell)/.test(item.cls) || player.columns(item.text) * (item.cls.startsWith("chip") ? 0.61 : 0.53) <= item.w, item.text);
      }
      for (const line of lines) for (const v of [line.x1, line.y1, line.x2, line.y2]) assert.ok(Number.isFinite(v));
      assert.equal(new Set(items.map((i) => i.key)).size, items.length, "keys are unique");
      player.ledger(trace, m, f, player.focus(trace, f));
    }
  });

  test(`${name}: slots below the pointer are held, slots at or past it are not`, () => {
    for (const f of frames.slice(0, 400)) {
      for (const which of m.hasDraft ? ["target", "draft"] : ["target"]) {
        for (const slot of player.tape(trace, m, f, which, 0, m.longest)) {
          assert.equal(slot.at < (f[which] ?? 0), slot.state === "valid" || slot.state === "provisional");
        }
      }
    }
  });

  test(`${name}: a label is what Python says it is`, () => {
    assert.deepEqual(m.text, labels[name]);
  });
}

test("after a rewind the rejected draft's slots are stale and hold its label", () => {
  const trace = traces.mixed, m = player.index(trace), f = m.frames.find((x) => x.stage === "rewind");
  const stale = player.tape(trace, m, f, "target", 0, m.longest).filter((s) => s.state === "stale");
  assert.deepEqual(stale.map((s) => s.at), [10, 11]);
  assert.equal(stale[0].label, m.drafts[0][2]);
});

test("the ledger shows p only after the target's forward, and its masses add up", () => {
  const trace = traces.mixed, m = player.index(trace);
  const before = player.ledger(trace, m, m.frames.find((f) => f.stage === "draft"), 1);
  assert.ok(before.rows.every((r) => r.p === null && r.min === null));
  const after = player.ledger(trace, m, m.frames.find((f) => f.stage === "verdict"), 1);
  for (const key of ["p", "q", "residual"]) {
    const sum = after.rows.reduce((s, r) => s + r[key], after.rest[key]);
    assert.ok(Math.abs(sum - 1) < 1e-9, key);
  }
  assert.ok(Math.abs(after.rows.reduce((s, r) => s + r.min, after.rest.min) - after.d.alpha) < 1e-9);
});

test("a later draft is not known before its step", () => {
  const trace = traces.mixed, m = player.index(trace), f = m.frames.find((x) => x.stage === "draft");
  assert.equal(player.standing(trace.cycles[0], f, 2), null);
  assert.equal(player.ledger(trace, m, f, 2), null);
});

test("γ reads as in Python; a cycle's is what was drafted, a run's the largest, and who chose it stands behind it", () => {
  for (const [asked, text] of paces) assert.equal(pace(...asked), text);
  const [trace] = Object.values(traces), planned = { ...trace, meta: { ...trace.meta, gamma: 8, planner: "auto" } };
  const [cycle] = trace.cycles;
  assert.equal(settings(planned)[0], "γ ≤ 8 (auto)");
  assert.equal(settings(planned, cycle)[0], `γ = ${cycle.proposed.length} (auto)`);
  assert.equal(settings(trace, cycle)[0], `γ = ${cycle.proposed.length}`);
});

test("numbers read as in Python, and a pair never looks equal when it is not", () => {
  for (const [value, text] of numbers) assert.equal(player.num(value), text);
  assert.deepEqual(player.pair(0.6123, 0.6127), [".612", ".613"]);
  assert.deepEqual(player.pair(0.5, 0.5), [".50", ".50"]);
});

test("the window keeps the cycle's columns in sight when they fit, and the step's column when they do not", () => {
  const trace = traces.long, m = player.index(trace);
  for (const f of m.frames.filter((_, i) => i % 37 === 0)) {
    const e = player.extent(trace, m, f), wide = player.scrollFor(m.edge, e, 80), narrow = player.scrollFor(m.edge, e, 20);
    assert.ok(wide <= e.left && e.right <= wide + 80 + 1e-9 || wide === 0);
    assert.ok(narrow <= e.at && e.at <= narrow + 20);
  }
});

test("a long run is indexed quickly", () => {
  const start = performance.now();
  player.index(traces.long);
  assert.ok(performance.now() - start < 500);
});

test("blocks: the record is told after the rewind, and what it will give back is held until then", () => {
  const trace = traces.paged, m = player.index(trace), seen = [];
  for (const [i, c] of trace.cycles.entries()) {
    const mine = m.frames.filter((f) => f.cycle === i && f.stage !== "prefill" && f.stage !== "end");
    const at = (stage) => player.blocksAt(trace, mine.find((f) => f.stage === stage));
    assert.deepEqual(player.blocksAt(trace, mine.at(-1)), c.blocks);
    seen.push(blocksSentence(player.blocksAt(trace, mine.at(-1))));
    assert.equal(at("target").owned.length, c.blocks.owned.length + c.blocks.freed.length);
    assert.ok(at("target").owned.length * c.blocks.size >= c.target_kv.written, "the forward has room");
    assert.equal(at("start").owned.length, at("target").owned.length - c.blocks.taken.length);
    if (i) assert.deepEqual(at("start").owned, trace.cycles[i - 1].blocks.owned);
    const { items } = player.scene(trace, m, mine.at(-1), 0, m.longest, 0), borders = items.filter((x) => x.cls.startsWith("border"));
    assert.equal(borders.length, c.blocks.owned.length + c.blocks.freed.length);
    borders.forEach((x, k) => assert.equal(x.x, m.edge[k * c.blocks.size]));
  }
  assert.deepEqual(seen, blocks);
  for (const [odd, said] of odd_blocks) assert.equal(blocksSentence(odd), said);
  assert.equal(player.blocksAt(traces.mixed, player.index(traces.mixed).frames.at(-1)), null);
});

test("a rule that bounds p is told as a bound, not as a draw", () => {
  const trace = structuredClone(traces.lossy), m = player.index(trace), c = trace.cycles[1];
  const frame = m.frames.find((f) => f.cycle === 1);
  for (const verify of ["typical", "threshold"]) {
    trace.meta.verify = verify;
    const [yes, no] = c.decisions.map((d) => player.test(trace, m, frame, { ...d, u: null, accept_probability: null }));
    assert.match(yes, /^p = [\d.]+ is enough for the rule$/);
    assert.match(no, /^p = [\d.]+ is too little for the rule$/);
  }
});
