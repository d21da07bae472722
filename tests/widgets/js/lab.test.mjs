// The lab's pure functions, against what Python says of the same laws, in the file named by SPECDEC_LAWS.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { chart, say, told } from "../../../widgets/specdec_widgets/static/lab.js";
import { accepted, agreed, ceiling, corrected, distance, ENGINE, laws, moved, RULES, stands, total, wobble } from "../../../widgets/specdec_widgets/static/laws.js";

const { cases, rules, engine } = JSON.parse(readFileSync(process.env.SPECDEC_LAWS, "utf8"));
const near = (a, b, eps = 1e-12) => { assert.equal(a.length, b.length); a.forEach((x, i) => assert.ok(Math.abs(x - b[i]) < eps, `${a} ${b}`)); };

test("the rules are those of Python", () => {
  assert.deepEqual(Object.entries(RULES), Object.entries(rules));
  assert.deepEqual(ENGINE, engine);
});

test("laws, masses and distances are those of Python", () => {
  for (const { p, q, laws: wanted, accepted: kept, agreed: shared, corrected: gained, stands: shares, off } of cases) {
    near(accepted(p, q), kept);
    near(agreed(p, q), shared);
    near(corrected(p, q), gained);
    assert.deepEqual(Object.keys(stands(p, q)), Object.keys(shares));
    near(Object.values(stands(p, q)), Object.values(shares));
    const found = laws(p, q);
    for (const [key, law] of Object.entries(wanted)) near(found[key], law);
    for (const [key, value] of Object.entries(off)) assert.ok(Math.abs(distance(found[key], p) - value) < 1e-12);
  }
});

test("a moved law is a law, moved where it was told to", () => {
  for (const { p } of cases) for (const to of [0, 0.01, 0.5, 1, 2, -1]) for (let i = 0; i < p.length; i++) {
    const law = moved(p, i, to), want = Math.max(0, Math.min(1, to));
    assert.ok(Math.abs(total(law) - 1) < 1e-9 && law.every((x) => x >= 0 && x <= 1 + 1e-12));
    assert.equal(law[i], want);
    const [a, b] = [0, 1, 2].filter((k) => k !== i && k < p.length);
    if (b !== undefined && p[b] > 0 && want < 1) assert.ok(Math.abs(law[a] / law[b] - p[a] / p[b]) < 1e-9);
  }
  near(moved([1, 0, 0], 0, 0.4), [0.4, 0.3, 0.3]);
});

test("sentences and charts have numbers in them, always", () => {
  for (const { p, q } of cases) {
    const names = p.map((_, i) => "t" + i), said = say(p, q, names);
    assert.match(said, /^[A-Zpq].*\.$/);
    assert.doesNotMatch(said, /undefined|NaN|null/);
    for (const path of [[], [[20, 0.1]], [[20, 0.1], [5000, 0.004]]]) {
      const { ticks, heights, wrong, typical, path: line } = chart(p, q, path);
      for (const v of [...ticks.map((t) => t.x), ...heights.map((h) => h.y), ...wrong.map((w) => w.y), ...typical.flat(), ...line.flat()]) {
        assert.ok(Number.isFinite(v) && v >= 0 && v <= 1 + 1e-9, String(v));
      }
    }
    assert.ok(ceiling(...p, ...q) >= Math.min(1, Math.max(...p, ...q)));
  }
  assert.equal(told({ counts: [0, 0], stood: 0, path: [] }, [0.5, 0.5], 0.9), "No draw yet.");
  assert.match(told({ counts: [1, 0], stood: 1, path: [] }, [0.5, 0.5], 0.9), /^1 draw of the engine: off by \.50.* Of the drafts 1\.00 stood; the rule accepts \.90\.$/);
  assert.match(say([0.6, 0.3, 0.1], [0.2, 0.5, 0.3], ["a", "b", "c"]), /α = \.60 .* With one noise for both, \.58 are accepted\.$/);
});

test("honest draws wobble as the mean absolute error of a count does", () => {
  assert.ok(Math.abs(wobble([0.5, 0.5], 100) - Math.sqrt(2 / Math.PI) * 0.05) < 1e-12);
});
