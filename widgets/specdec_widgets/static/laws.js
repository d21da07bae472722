/**
 * The law of one emitted token under two exact rules and under five mistaken ones: mirrors specdec_widgets/laws.py.
 *
 * Invariant: pure functions of p and q; a law sums to 1. No function touches the document.
 */

export const RULES = {
  exact: "accept with min(1, p/q), else draw from [p − q]₊",
  coupled: "one Gumbel noise for both, accept if they agree",
  redraw: "accept with min(1, p/q), else draw from p",
  kept: "draft again until one is accepted",
  threshold: "accept if p ≥ q, else draw from p",
  argmax: "draft the likeliest token, divide by its q",
  same_u: "one u for the test and for the residual",
};
/** The engine's rules that the lab can draw under, and whose law each has. */
export const ENGINE = { rejection: "exact", coupled: "coupled" };

export const total = (law) => law.reduce((sum, x) => sum + x, 0);
export const accepted = (p, q) => p.map((x, i) => Math.min(x, q[i]));
export const corrected = (p, q) => p.map((x, i) => Math.max(x - q[i], 0));
/** How often target and draft both choose a token under shared Gumbel noise. @returns {number[]} */
export const agreed = (p, q) => p.map((pa, i) => (pa > 0 && q[i] > 0 ? 1 / total(p.map((x, v) => Math.max(x / pa, q[v] / q[i]))) : 0));
/** Total variation distance. */
export const distance = (a, b) => total(a.map((x, i) => Math.abs(x - b[i]))) / 2;

/** How often a draft is accepted under every rule. @param {number[]} p @param {number[]} q @returns {Record<string, number>} */
export function stands(p, q) {
  const alpha = total(accepted(p, q)), draft = q.indexOf(Math.max(...q));
  return {
    ...Object.fromEntries(Object.keys(RULES).map((key) => [key, alpha])),
    coupled: total(agreed(p, q)), threshold: total(q.filter((x, i) => p[i] >= x)), argmax: Math.min(1, p[draft] / q[draft]),
  };
}

/** The law of the emitted token under every rule. @param {number[]} p @param {number[]} q @returns {Record<string, number[]>} */
export function laws(p, q) {
  const least = accepted(p, q), rest = corrected(p, q), alpha = total(least), beta = total(rest);
  const { threshold: good, argmax: chance } = stands(p, q), draft = q.indexOf(Math.max(...q));
  return {
    exact: least.map((x, i) => x + rest[i]),
    coupled: [...p], // the draft or not, every token is the target's own choice
    redraw: least.map((x, i) => x + (1 - alpha) * p[i]),
    kept: alpha > 0 ? least.map((x) => x / alpha) : [...p],
    threshold: p.map((x, i) => (x >= q[i] ? q[i] : 0) + (1 - good) * x),
    argmax: p.map((x, i) => (i === draft ? chance : 0) + (1 - chance) * (beta > 0 ? rest[i] / beta : x)),
    same_u: sameU(p, q, least, rest, beta),
  };
}

function sameU(p, q, least, rest, beta) {
  const out = [...least];
  if (beta <= 0) return out;
  p.forEach((x, token) => {
    const low = q[token] > x ? x / q[token] : 1;
    let floor = 0;
    rest.forEach((r, i) => {
      const edge = floor + r / beta;
      out[i] += q[token] * Math.max(0, edge - Math.max(floor, low));
      floor = edge;
    });
  });
  return out;
}

/** A law with entry i moved to `value`; the others keep their proportions. @returns {number[]} */
export function moved(law, i, value) {
  const to = Math.max(0, Math.min(1, value)), others = total(law) - law[i], left = 1 - to;
  return law.map((x, j) => (j === i ? to : others > 1e-12 ? (x / others) * left : left / (law.length - 1)));
}

/** How far the frequencies of n honest draws are from p on average (Σ of mean absolute errors, halved). */
export const wobble = (p, n) => total(p.map((x) => Math.sqrt((2 / Math.PI) * x * (1 - x) / n))) / 2;

/** The top of the scale for bars of these heights. */
export const ceiling = (...heights) => Math.min(1, Math.max(0.4, Math.ceil((Math.max(...heights) + 0.05) * 10) / 10));
