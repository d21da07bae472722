// The timeline view's pure functions, against what Python says of the same runs, in the file named by SPECDEC_TIMELINES.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import * as pool from "../../../widgets/specdec_widgets/static/pool.js";
import { COLUMN, ROW, scene } from "../../../widgets/specdec_widgets/static/timeline.js";

const cases = JSON.parse(readFileSync(process.env.SPECDEC_TIMELINES, "utf8"));

for (const [name, { timeline, steps, shown }] of Object.entries(cases)) {
  const run = pool.indexRun(timeline);

  test(`${name}: sentences, sums and blocks are those of Python`, () => {
    assert.equal(run.shown, shown);
    steps.forEach((said, step) => {
      assert.equal(pool.say(run, step), said.sentence);
      const { seconds, ...sums } = run.sums[step];
      assert.deepEqual(sums, said.sums);
      assert.ok(seconds >= 0);
      assert.deepEqual(pool.blocksAfter(run, step).map((b) => [b.id, b.owners, b.filled, b.written, b.published, b.evicted]), said.blocks);
      assert.deepEqual(pool.blocksAfter(run, step).map((b) => pool.tileWords(b, timeline.meta.block_size)), said.words);
      const row = pool.chosen(run, step);
      assert.equal(row ? row.request : null, said.chosen);
      if (row) assert.equal(pool.where(row, timeline.meta.block_size), said.where);
      if (row) assert.deepEqual(pool.places(run, step, row).map((p) => [p.first, p.block, p.filled, p.others]), said.places);
    });
  });

  test(`${name}: a cell for every record up to the step, each in its place`, () => {
    timeline.steps.forEach((_, step) => {
      const first = Math.max(0, step - 20), cells = scene(run, step, first, timeline.steps.length);
      const records = timeline.steps.slice(first, step + 1).flatMap((s) => s.rows);
      assert.equal(cells.filter((cell) => cell.cls !== "left").length, records.length);
      assert.equal(new Set(cells.map((cell) => cell.key)).size, cells.length, "keys are unique");
      for (const cell of cells) {
        assert.ok(cell.x <= step * COLUMN && cell.y < run.requests.length * ROW);
        assert.doesNotMatch(cell.title + cell.text, /undefined|NaN|null/);
      }
    });
  });
}
