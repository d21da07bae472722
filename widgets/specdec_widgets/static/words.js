/**
 * Words and numbers of a run as text: token labels, probabilities, plurals, lists.
 *
 * Invariant: no function touches the document. It mirrors specdec_widgets/words.py (a test compares them).
 */

const BYTES = /^(?:<0x[0-9A-Fa-f]{2}>)+$/;
const SUB = "₀₁₂₃₄₅₆₇₈₉";
export const GLYPH = { accepted: "✓", rejected: "✗", unused: "·", cut: "✂", correction: "↺", bonus: "★" };

/** Make white space, control and direction characters visible. @param {string} piece */
export function mark(piece) {
  const edge = piece.replace(/^ +/, (s) => "␣".repeat(s.length)).replace(/(?<=\S) +$/, (s) => "␣".repeat(s.length));
  return edge.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (c) => "⟨" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩",
  );
}

/** The label of every token of a sequence. Bytes that complete a character show it; the ones before it show "⋯".
 * @param {(number|null)[]} ids  @param {Record<string, string>} pieces  @returns {string[]} */
export function labels(ids, pieces) {
  const out = new Array(ids.length).fill("");
  let run = [];
  ids.forEach((id, i) => {
    const piece = id === null ? "?" : pieces[id] ?? "#" + id;
    if (!BYTES.test(piece)) {
      run = [];
      out[i] = piece === "" ? "∅" : mark(piece);
      return;
    }
    out[i] = piece.replace(/<0x(..)>/g, "‹$1›");
    for (const hex of piece.match(/[0-9A-Fa-f]{2}(?=>)/g)) {
      const byte = parseInt(hex, 16);
      if ((byte & 0xc0) !== 0x80) run = [];
      run.push({ byte, i });
      const lead = run[0].byte;
      if (run.length !== (lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0)) continue;
      try {
        const text = new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(run, (b) => b.byte));
        for (const b of run) out[b.i] = "⋯";
        out[i] = mark(text);
      } catch { /* not a character: the bytes stay visible */ }
      run = [];
    }
  });
  return out;
}

/** Token pieces as running text, its last `n` characters. @param {(number|null)[]} ids @param {Record<string, string>} pieces */
export function prose(ids, pieces, n = 600) {
  const bytes = [], encoder = new TextEncoder();
  for (const id of ids.slice(-n)) {
    const piece = id === null ? "…" : (pieces[id] ?? "").slice(-n);
    if (BYTES.test(piece)) for (const hex of piece.match(/[0-9A-Fa-f]{2}(?=>)/g)) bytes.push(parseInt(hex, 16));
    else bytes.push(...encoder.encode(piece));
  }
  const text = new TextDecoder().decode(Uint8Array.from(bytes)).replaceAll("\ufffd", "‹?›");
  const cut = [...text].slice(-n).join("");
  return cut.split("\n").map((line) => mark(line).replaceAll("␣", " ")).join("\n");
}

/** How many columns of a monospace font a label takes. @param {string} text */
export const columns = (text) => [...text].reduce((n, c) => n + (c.codePointAt(0) >= 0x1100 && c !== "⟨" && c !== "⟩"
  && !(c >= "‐" && c <= "⯿") ? 2 : 1), 0);

/** Cut a label to n columns. @param {string} text @param {number} n */
export function clip(text, n) {
  if (columns(text.slice(0, 4 * n)) <= n && text.length <= 4 * n) return text;
  let used = 1, out = "";
  for (const c of text) {
    used += columns(c);
    if (used > n) break;
    out += c;
  }
  return out + "…";
}

/** A probability: .61, .999, 1.00, .004, 3e−6. @param {number|null|undefined} v @param {number} [digits] */
export function num(v, digits = 2) {
  if (v === null || v === undefined) return "–";
  if (v === 0) return "0";
  if (v < 10 ** -digits / 2) return v < 9.5e-4 ? v.toExponential(0).replace("e-", "e−") : v.toPrecision(1).replace(/^0/, "");
  for (let d = digits; v < 1 && d <= 4; d++) if (v.toFixed(d)[0] !== "1") return v.toFixed(d).replace(/^0\./, ".");
  return v.toFixed(digits).replace(/^0\./, ".");
}

/** Two numbers with just enough digits to differ. @returns {[string, string]} */
export function pair(a, b) {
  for (let d = 2; d < 7; d++) if (num(a, d) !== num(b, d) || a === b) return [num(a, d), num(b, d)];
  return [num(a, 7), num(b, 7)];
}

/** γ of one cycle, or of a run with its largest, and who chose it.  @param {number} gamma  @param {string|null} [planner]  @param {boolean} [run] */
export const pace = (gamma, planner, run) => planner ? `γ ${run ? "≤" : "="} ${gamma} (${planner})` : `γ = ${gamma}`;

export const sub = (n) => "d" + [...String(n)].map((c) => SUB[+c]).join("");
export const quote = (label) => "‘" + clip(label.replace(/^␣(?=.)/su, ""), 24) + "’"; // the space before a word is for the chips
export const plural = (n, one, many = one + "s") => n + " " + (n === 1 ? one : many);
export const percent = (share) => (100 * share).toFixed(0) + " %";
export const list = (items) => items.length < 2 ? items.join("") : items.slice(0, -1).join(", ") + " and " + items.at(-1);

/** What a cycle did to the blocks of a paged cache. @param {{size: number, owned: number[], taken: number[],
 * freed: number[], published: number[], shared: number[], copied: number[][]}} blocks */
export function blocksSentence({ size, owned, taken, freed, published, shared, copied }) {
  const ids = (items) => list(items.map(String));
  const some = owned.length > 12 ? `… ${ids(owned.slice(-4))} (${owned.length} in all)` : ids(owned);
  let head = owned.length ? `The table holds block${owned.length > 1 ? "s" : ""} ${some} of ${plural(size, "token")}` : "The table holds no block";
  if (shared.length) head += ` (shared: ${ids(shared)})`;
  const pairs = copied.map(([from, to]) => `${from} to ${to}`);
  const rest = [["taken", taken], ["copied before a write", pairs], ["published", published], ["given back", freed]];
  return [head, ...rest.filter(([, items]) => items.length).map(([name, items]) => `${name}: ${ids(items)}`)].join("; ") + ".";
}
