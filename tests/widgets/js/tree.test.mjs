// The tree's pure functions, against what Python says of the same trees, in the file named by SPECDEC_TREES.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { index, rowOf, standing } from "../../../widgets/specdec_widgets/static/steps.js";
import { mask, places, sayTree, treeScene } from "../../../widgets/specdec_widgets/static/tree.js";

const { trees, shapes, plain } = JSON.parse(readFileSync(process.env.SPECDEC_TREES, "utf8"));

test("places and masks are those of Python", () => {
  for (const { parents, places: wanted, mask: rows } of shapes) {
    assert.deepEqual(places(parents), wanted);
    assert.deepEqual(mask(parents), rows);
  }
});

for (const [name, { trace, sentence }] of Object.entries(trees)) {
  const m = index(trace), at = trace.cycles.length - 1, c = trace.cycles[at], mine = m.frames.filter((f) => f.cycle === at && f.stage !== "prefill");

  test(`${name}: the sentence is Python's`, () => assert.equal(sayTree(trace, c), sentence));

  test(`${name}: a node is known when it is drafted, judged when its verdict comes, and ends as the record says`, () => {
    for (const f of mine) {
      const view = treeScene(trace, m, f);
      assert.equal(new Set(view.nodes.map((n) => n.key)).size, view.nodes.length);
      for (const n of view.nodes) {
        assert.ok(Number.isFinite(n.x) && n.x >= 0 && n.x < view.width && n.y >= 0 && n.y < view.height);
        assert.doesNotMatch(n.label + n.note, /undefined|NaN|null/);
      }
      if (f.stage === "draft") assert.equal(view.nodes.length, f.k + 1);
      if (f.stage === "verdict") {
        for (const d of c.decisions) {
          const state = standing(c, f, d.position);
          if (d.status === "accepted" || d.status === "rejected") assert.equal(state, d.position <= f.k ? d.status : "proposed");
          else assert.ok(state === "proposed" || state === "unused");
        }
        assert.equal(view.nodes.filter((n) => n.cls.includes("selected")).length, 1);
      }
    }
    const end = treeScene(trace, m, mine.at(-1));
    assert.deepEqual(end.nodes.filter((n) => n.number).map((n) => n.cls), c.decisions.map((d) => d.status));
    assert.equal(end.nodes.some((n) => n.key === "last"), c.last !== null);
    assert.equal(end.edges.filter((e) => e.cls === "chosen").length, c.accepted);
    c.parents.forEach((parent, k) => assert.equal(rowOf(c, k + 1), parent + 1));
  });

  test(`${name}: once a draft is discarded it stays so`, () => {
    for (const d of c.decisions) {
      const seen = mine.map((f) => standing(c, f, d.position)).filter(Boolean), first = seen.findIndex((s) => s !== "proposed");
      if (first >= 0) assert.ok(seen.slice(first).every((s) => s === seen[first]), seen.join());
    }
  });
}

test("a cycle without a tree has no scene", () => {
  const m = index(plain);
  for (const f of m.frames) assert.equal(treeScene(plain, m, f), null);
});
