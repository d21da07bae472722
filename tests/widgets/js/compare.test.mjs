// Two runs on one clock: pure functions, against traces that the Python side wrote to the file named by SPECDEC_PAIRS.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { apartAt, committed, parting, partingSentence, ticks, times } from "../../../widgets/specdec_widgets/static/compare.js";
import { index } from "../../../widgets/specdec_widgets/static/steps.js";

const pairs = JSON.parse(readFileSync(process.env.SPECDEC_PAIRS, "utf8"));

for (const [name, { runs: traces, names, parting: told }] of Object.entries(pairs)) {
  const runs = traces.map((trace, i) => ({ trace, name: names[i], m: index(trace) })), part = parting(runs[0].m, runs[1].m);

  test(`${name}: the texts part where Python says`, () => {
    assert.equal(part.at, told);
    assert.match(partingSentence(runs, part), /^[A-Z].*\.$/su);
    assert.doesNotMatch(partingSentence(runs, part), /undefined|NaN|null/);
  });

  for (const clock of ["forwards", "seconds"]) test(`${name}, ${clock}: both runs only go forward, and reach every end`, () => {
    const moments = ticks(runs, clock);
    for (const i of [0, 1]) {
      const steps = moments.map((x) => x.steps[i]);
      assert.deepEqual(steps, [...steps].sort((a, b) => a - b));
      assert.equal(steps.at(-1), runs[i].m.frames.length - 1);
      const when = times(traces[i], runs[i].m.frames, clock);
      assert.deepEqual(when, [...when].sort((a, b) => a - b), "steps happen in their order");
    }
    assert.deepEqual(moments.map((x) => x.t), [...new Set(moments.map((x) => x.t))].sort((a, b) => a - b));
    const found = apartAt(runs, moments, part.at);
    if (part.at === null) return assert.equal(found, -1);
    const past = (k) => runs.every((run, i) => committed(run, run.m.frames[moments[k].steps[i]]) > part.at);
    assert.ok(past(found) && (found === 0 || !past(found - 1)));
  });

  test(`${name}: by forwards, both have finished as many cycles as the clock says`, () => {
    for (const { t, steps } of ticks(runs, "forwards")) {
      steps.forEach((s, i) => {
        const f = runs[i].m.frames[s], over = f.stage === "end";
        if (t >= 0 && traces[i].cycles.length) assert.equal(f.cycle, Math.min(Math.floor(t / 1e6), traces[i].cycles.length - 1), over);
      });
    }
  });

  test(`${name}: by seconds, a cycle takes what the trace says`, () => {
    traces.forEach((trace, i) => {
      const frames = runs[i].m.frames, when = times(trace, frames, "seconds");
      let sum = 0;
      trace.cycles.forEach((c, cycle) => {
        const first = frames.findIndex((f) => f.cycle === cycle && f.stage === "start"), target = frames.findIndex((f) => f.cycle === cycle && f.stage === "target");
        assert.ok(Math.abs(when[first] - sum) < 1e-9);
        assert.ok(Math.abs(when[target] - sum - c.seconds.draft - c.seconds.target) < 1e-9);
        sum += c.seconds.draft + c.seconds.target + c.seconds.verify + c.seconds.other;
      });
      assert.ok(Math.abs(when.at(-1) - sum) < 1e-9);
    });
  });
}
