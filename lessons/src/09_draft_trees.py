# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 30
#     outputs: 29
# ---

# %% [markdown]
# # 09 · Draft trees
#
# **30 minutes · medium · you need lessons 04 and 05: why a correction is exact, and the two pointers. No GPU, no download.**
#
# A chain of drafts is one guess at the future. A tree is several, and one pass of the target judges them all. Three things
# are new: who sees whom in that pass, how siblings are judged so that the law stays exact, and how one path is
# left in the cache.
#
# After it you can
#
# - say for any tree which rows a pass gives, at which positions, and write its mask;
# - judge siblings one after the other, and say what each one that falls leaves behind;
# - commit one path, and move its slots together;
# - say when a tree is worth its rows, and when it is not.

# %% [markdown]
# ## One rejection, and the rest is gone
#
# First a chain, as in all lessons so far. Sixteen stories, γ = 6. What became of the drafts?

# %%
import torch

import specdec_teach as sd
from specdec_teach.exercises import check, predict

pair = sd.load_pair()
prompt = "Mira had a red lantern and"


def engine_with(drafter, gamma):
    return sd.Engine(pair.target, drafter=drafter, tokenizer=pair.tokenizer, gamma=gamma)


def traces(engine, temperature=0.8):
    """The traces of sixteen stories."""
    seeds = [sd.Sampling(temperature=temperature, seed=seed) for seed in range(1, 17)]
    return [one.trace for one in engine.generate([prompt] * 16, seeds, max_new_tokens=48)]


runs = traces(engine_with(sd.ModelDrafter(pair.draft), 6))
drafts = [draft for run in runs for cycle in run.cycles for draft in cycle.decisions]
for status in ("accepted", "rejected", "unused"):
    print(f"{status:<9} {sum(draft.status == status for draft in drafts):>4}")

# %% [markdown]
# The last line is the waste: for each draft that fell, three more were thrown away unjudged. Whatever hangs behind a
# rejected token answers a question that nobody asks any more.
#
# Was the draft model so far off? Look at the places where a draft fell. The correction says what the target wanted there.
# Was it among the four tokens that the draft itself found likeliest?

# %%
fallen = [(cycle.last, cycle.decisions[cycle.accepted]) for run in runs for cycle in run.cycles if cycle.last_kind == "correction"]
near = sum(wanted in [token for token, _ in draft.q_top.tokens[:4]] for wanted, draft in fallen)
print(f"{len(fallen)} corrections, {near} of them among the draft's four likeliest tokens")

# %% [markdown]
# More often than not it was. The draft *had* the right token, and proposed another one. So let it propose several tokens for a place.
#
# ## A tree
#
# `TreeDrafter` grows one from a drafter that we know. The shape `(2, 2)` says: two candidates for the next token, and behind
# each of them two for the token after it. That makes six drafts.

# %%
grower = sd.TreeDrafter(sd.ModelDrafter(pair.draft), (2, 2))
engine = engine_with(grower, 2)
story = sd.Sampling(temperature=0.8, seed=2)

result = engine.generate(prompt, story, max_new_tokens=40)
trace = result.trace
cycle = trace.cycles[0]
trace.tree(0)

# %% [markdown]
# The first cycle of a real run. Two drafts stand below the pending token " and". The first, " a", falls. In a chain that
# would be the end. Here its *sibling* is judged next, " carried", and it stands. Then *its* children are tried, and the first of them stands too. (The squares at the right are the
# mask. It comes in a moment.)
#
# Drafts that stand below the same token are **siblings**. A way from the pending token down to a draft is a **path**. At most one
# path is kept: two siblings are two candidates for one place.
#
# A tree is written down as the list of its parents. Code counts drafts from 0, pictures from 1, and −1 is the pending token:

# %%
names = ["pending", *(f"node {node}" for node in range(len(cycle.parents)))]
print("parents", cycle.parents)
for node, parent in enumerate(cycle.parents):
    print(f"{names[node + 1]}  {trace.pieces[cycle.proposed[node]]!r:<11} below {names[parent + 1]}")

# %% [markdown]
# ## One pass: the rows
#
# A pass of the target over a chain of γ drafts reads the pending token and γ drafts. And over a tree? Take a larger one, of the
# shape `(3, 2)`: three drafts for the next place, and two behind each of them.
#
# **Predict:** how many tokens does the target read in that pass?


# %%
def read_in_one_pass(shape):
    larger = engine_with(sd.TreeDrafter(sd.ModelDrafter(pair.draft), shape), len(shape))
    kv = next(larger.stream(prompt, story, max_new_tokens=8)).target_kv
    return kv.written - kv.before


# BEGIN SOLUTION
guess = 10
# END SOLUTION
predict("09.p1", guess, lambda: read_in_one_pass((3, 2)))

# %% [markdown]
# The pending token and every draft, each once: 1 + 3 + 6, and 1 + 2 + 4 = 7 for our tree. Each token that is read gives a row, and
# each writes a slot. A draft is judged by the row of its *parent*, so siblings are judged by the same row.
#
# ## Positions are depths
#
# L = 7 here. The pending token lies in slot 6, and the six drafts lie behind it in slots 7 to 12, in their order.
# A slot is a place in memory. A **position** is what the model is told: how many tokens stand before this one.
#
# **Predict:** node 5 lies in slot 12. What is its position?

# %%
from specdec_teach import sight

L = cycle.committed_before
K = len(cycle.parents)

# BEGIN SOLUTION
guess = 8
# END SOLUTION
predict("09.p2", guess, lambda: sight.positions(L + K, cycle.parents)[-1])

# %%
places = sight.positions(L + K, cycle.parents)[L - 1 :]
pieces = [trace.pieces[token] for token in (trace.prompt[-1], *cycle.proposed)]
print("slot  position")
for index, place in enumerate(places):
    print(f"{L - 1 + index:>4}  {place:>8}  {names[index]:<8} {pieces[index]!r}")

# %% [markdown]
# Position = that of the pending token + depth. Four drafts share position 8: each of them would be the ninth token of the text.
#
# ## The mask
#
# In a causal pass a token sees all that lies before it. In a tree that would be wrong. Node 4, below " carried", must not
# see " a": in *its* future " a" was never said.
#
# A node sees **the committed text, its ancestors, and itself**. Row by row, ■ sees and · does not. The columns are slots:


# %%
def show_mask(parents, pointer):
    """Who sees whom, from the pending token in slot `pointer` on."""
    hidden = sight.hidden(pointer, len(parents) + 1, parents, window=0)
    print(" " * 9 + " ".join(f"{slot:>2}" for slot in range(hidden.shape[1])))
    for index, row in enumerate(hidden.tolist()):
        print(f"{names[index]:<8}  " + "  ".join("·" if shut else "■" for shut in row))


show_mask(cycle.parents, L - 1)

# %% [markdown]
# Slots 0 to 5 are the computed text, and everybody sees them. Everybody sees the pending token, in slot 6. Behind it, each
# row has its own path and nothing else.
#
# Does each row really say what its path alone would say? Feed every path by itself, to transformers' own code, and compare. Two
# controls: positions taken from the slots, and the plain causal mask.

# %%
from unittest.mock import patch

from specdec_teach import decoder
from specdec_teach.tree import chain, path_to

prompt_ids, parents, proposed = list(trace.prompt), cycle.parents, cycle.proposed


@torch.no_grad()
def off_by():
    """The largest difference between a row of the tree's pass and the same row with its path fed alone."""
    runner = engine.target_runner
    cache = runner.new_cache(64)
    runner.forward(cache, prompt_ids[:-1], 0)
    rows = runner.forward_rows([cache], [[prompt_ids[-1], *proposed]], [K + 1], trees=[parents])[0]
    worst = 0.0
    for node in range(-1, K):
        way = prompt_ids + [proposed[at] for at in path_to(parents, node)]
        alone = pair.target(input_ids=torch.tensor([way])).logits[0, -1]
        worst = max(worst, float((rows[node + 1] - alone).abs().max()))
    return worst


print(f"tree mask, positions by depth   {off_by():.3f}")
with patch.object(decoder, "positions", lambda stop, parents: list(range(stop))):
    print(f"tree mask, positions by slot    {off_by():.1f}")
causal = sight.hidden
with patch.object(decoder, "hidden", lambda pointer, count, parents, *rest: causal(pointer, count, chain(len(parents)), *rest)):
    print(f"causal mask, positions by depth {off_by():.1f}")

# %% [markdown]
# With both right, every row is what its path alone would give, up to rounding. With one of them wrong, logits are off by whole
# units, and the text would still look like text.
#
# ### Exercise 09.1: by hand
#
# L = 12 and the parents are (−1, −1, 0, 0, 1, 3). How many rows does the pass give, and at which positions do the tokens stand
# that it reads? Draw the tree first. Write `(rows, [position of the pending token, of node 0, …])`.

# %%
# BEGIN SOLUTION
rows_and_positions = (7, [11, 12, 12, 13, 13, 13, 14])
# END SOLUTION
check("09.1", rows_and_positions)

# %% [markdown]
# <details><summary>Hint 1: rows</summary>
#
# One for every token that is read: the drafts, and one more.
# </details>
# <details><summary>Hint 2: where it starts</summary>
#
# Positions count from 0. Twelve tokens are committed, so the last of them, the pending one, stands at 11.
# </details>
# <details><summary>Hint 3: depths</summary>
#
# The depths of the six nodes are 1, 1, 2, 2, 2, 3. Add each to 11.
# </details>
#
# ### Exercise 09.2: the mask
#
# Given the parents, return who sees whom among the pending token and the drafts: K + 1 lists of K + 1 numbers, 1 for
# "sees". Row and column 0 are the pending token, row k + 1 is node k.


# %%
def tree_mask(parents: tuple[int, ...]) -> list[list[int]]:
    """1 where the token of this row sees the token of this column."""
    # BEGIN SOLUTION
    rows = [[1] + [0] * len(parents)]
    for node, parent in enumerate(parents):
        row = list(rows[parent + 1])
        row[node + 1] = 1
        rows.append(row)
    return rows
    # END SOLUTION


check("09.2", tree_mask)

# %% [markdown]
# <details><summary>Hint 1: one row from another</summary>
#
# A node sees all that its parent sees, and itself.
# </details>
# <details><summary>Hint 2: the order</summary>
#
# A parent comes before its children, so its row is there already when you need it. It is `rows[parent + 1]`, also for −1.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# Copy the parent's row, set entry `node + 1` to 1, append.
# </details>
#
# ## Judging siblings
#
# The rows are there. Now: which draft stands? The first sibling is judged as ever: it stands if u · q < p. Suppose that it
# falls. In lesson 04 a correction was then drawn from the residual [p − q]₊, since that is what is still missing.
#
# With a sibling left, it is not over. But **what is missing is now the target**. The next sibling is judged against the
# residual, not against p. And it was drawn knowing that the first was taken: siblings are drawn without replacement. So its q
# is the old q without that token, scaled to sum to 1 again.
#
# If a sibling stands, the pass goes on with *its* children, in its own row. If all fall, the correction is drawn from what the last
# one left.
#
# By hand, on four tokens. The first sibling was token 3, and it fell.

# %%
from specdec_teach.exercises.laws import first_token, model_of

p4, q4 = [0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5]


def left(p, q):
    """What a fallen sibling leaves of p."""
    rest = [max(a - b, 0.0) for a, b in zip(p, q)]
    return [part / sum(rest) for part in rest] if sum(rest) > 0 else p


def without(q, token):
    """What the next sibling is drawn from."""
    rest = [0.0 if other == token else part for other, part in enumerate(q)]
    return [part / sum(rest) for part in rest]


def say(law):
    return "[" + ", ".join(f"{chance:.3f}" for chance in law) + "]"


print("p              ", say(p4), "  q              ", say(q4))
print("p, after a fall", say(left(p4, q4)), "  q without 3    ", say(without(q4, 3)))

# %% [markdown]
# **Predict:** the second sibling is token 2. At the start it had p = .2 and q = .25, not a bad draft. How often does it stand
# *now*? The engine runs until it meets this very case.


# %%
def siblings_of(p, q, count):
    """An engine with `count` drafts for one place."""
    return sd.Engine(model_of(p), drafter=sd.TreeDrafter(sd.ModelDrafter(model_of(q)), (count,)), gamma=1)


def met(first, second):
    """The verdicts on two siblings in a real run, where the first one fell."""
    run = siblings_of(p4, q4, 2).generate([0], sd.Sampling(seed=1), max_new_tokens=300).trace
    both = (cycle.decisions for cycle in run.cycles if cycle.proposed == (first, second))
    return next(drafts for drafts in both if drafts[1].accept_probability is not None)


# BEGIN SOLUTION
guess = 0
# END SOLUTION
predict("09.p3", guess, lambda: round(met(3, 2)[1].accept_probability, 3))

# %%
for second in (2, 0):
    for draft in met(3, second):
        print(f"token {draft.token}  p = {draft.p:.3f}  q = {draft.q:.3f}  stands with chance {draft.accept_probability:.3f}")

# %% [markdown]
# Never. The draft model proposes token 2 too often, not too seldom. Its share is paid for already by the cases in which it comes
# *first*. Token 0 is what is missing, and as a second sibling it stands always.
#
# ### Why it is exact
#
# It is lesson 04 once more, inside itself. The first sibling brings min(p, q). It falls with chance β, and what is missing then is
# β · p′, where p′ is the residual, scaled. Now the second sibling, drawn from q′, and whatever follows it, are a new round with target
# p′. By the same sum the round gives exactly p′, *whatever q′ was*. Together: min(p, q) + β · p′ = p.
#
# So q′ may differ from case to case. It has to be the law that the sibling was **really drawn from**, and known.
#
# ### Exercise 09.3: the law at one place
#
# Write it for given siblings. They were drawn in this order, without replacement, the first from q. Return the distribution of
# the token that the place gets: a sibling that stands, or the last correction. The check puts the same siblings into the
# engine and enumerates.


# %%
def place_law(p: list[float], q: list[float], drafts: list[int]) -> list[float]:
    """The chance of each token at a place for which these siblings were drafted."""
    # BEGIN SOLUTION
    law, reached = [0.0] * len(p), 1.0
    for draft in drafts:
        stands = min(1.0, p[draft] / q[draft])
        law[draft] += reached * stands
        reached *= 1.0 - stands
        p, q = left(p, q), without(q, draft)
    return [part + reached * again for part, again in zip(law, p)]
    # END SOLUTION


check("09.3", place_law)

# %% [markdown]
# <details><summary>Hint 1: what to keep</summary>
#
# The chance that this sibling is reached at all. It starts at 1, and each sibling multiplies it by the chance that it falls.
# </details>
# <details><summary>Hint 2: one step</summary>
#
# It stands with chance min(1, p/q). Add reached · that to its token. Then replace p by `left(p, q)` and q by `without(q, draft)`,
# both from the old p and q.
# </details>
# <details><summary>Hint 3: the end</summary>
#
# After the last sibling, spread what is left of `reached` over all tokens like the p that you hold then.
# </details>
#
# ## The result: enumeration
#
# That was one place, with given siblings. Now everything: siblings drawn by chance, two levels, more than one cycle, and what comes
# next depends on the last token. All texts of two tokens are compared with plain multiplication. `sd.exact_law` runs the engine through every way its choices can fall.

# %%
P = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.5, 0.1, 0.4]], dtype=torch.float64)
Q = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.5, 0.1], [0.3, 0.4, 0.3]], dtype=torch.float64)


def largest_error(drafter, tokens):
    """The largest difference to plain multiplication, over all texts."""
    law = sd.exact_law(sd.Engine(sd.testing.TabularLM(P.log()), drafter=drafter, gamma=drafter.depth), [0], tokens)
    worst = 0.0
    for text, chance in law.items():
        right = torch.tensor([P[a, b] for a, b in zip((0, *text), text)]).double().prod()
        worst = max(worst, abs(chance - float(right)))
    return worst, len(law)


for shape in ((2,), (3,), (2, 1)):
    error, texts = largest_error(sd.TreeDrafter(sd.ModelDrafter(sd.testing.TabularLM(Q.log())), shape), 2)
    print(f"shape {shape!s:<7} {texts} texts, every error below 1e-12: {error < 1e-12}")
print("four tokens, three siblings  ", say(first_token(siblings_of(p4, q4, 3))), "wanted", say(p4))

# %% [markdown]
# Every text comes as often as the target says. Here is the same check with two mistakes that are easily made:
#
# - each sibling is judged against **p itself**, as if no other had been tried, and the last correction comes from [p − q]₊;
# - the drafter draws without replacement, and **reports the first q for all**.

# %%
from dataclasses import replace

from specdec_teach.exercises.lesson_09 import against_p

grow = sd.TreeDrafter.propose


def first_q_for_all(self, sequences, counts, hidden=None):
    return [
        one if one.q_KV is None else replace(one, q_KV=one.q_KV[:1].expand_as(one.q_KV))
        for one in grow(self, sequences, counts, hidden)
    ]


textbook = ([0.6, 0.3, 0.1], [0.2, 0.5, 0.3])
for p, q in (textbook, (p4, q4)):
    print("target, two siblings       ", say(p))
    print("honest                     ", say(first_token(siblings_of(p, q, 2))))
    print("each against p itself      ", say(first_token(against_p(siblings_of(p, q, 2)))))
    with patch.object(sd.TreeDrafter, "propose", first_q_for_all):
        print("q reported as for the first", say(first_token(siblings_of(p, q, 2))))
    print()

# %% [markdown]
# Both mistakes give another law, and the second one hides in the textbook case. Its residual is a single token, so a wrong q has
# nothing left to spoil. Test with four tokens.
#
# ## Choosing by confidence
#
# A fixed shape spends drafts where the draft model is unsure and where it is sure. It would be better to keep only drafts that
# it trusts. So: draw two siblings, keep the one with the larger q, drop the other before anybody judges it. The reported q is the one it was drawn
# from, to the last digit.
#
# **Predict:** is the law of the text still the target's? Answer "yes" or "no".


# %%
def keep_the_trusted(self, sequences, counts, hidden=None):
    kept = []
    for one in grow(self, sequences, counts, hidden):
        if one.q_KV is not None:
            best = max(range(len(one.tokens)), key=lambda node: float(one.q_KV[0, one.tokens[node]]))
            one = replace(one, tokens=one.tokens[best : best + 1], q_KV=one.q_KV[:1], parents=(-1,))
        kept.append(one)
    return kept


def trusted_only():
    with patch.object(sd.TreeDrafter, "propose", keep_the_trusted):
        return first_token(siblings_of(p4, q4, 2))


# BEGIN SOLUTION
guess = "no"
# END SOLUTION
predict("09.p4", guess, lambda: "yes" if max(abs(a - b) for a, b in zip(trusted_only(), p4)) < 1e-12 else "no")

# %%
print("target               ", say(p4))
print("keep the trusted one ", say(trusted_only()))

# %% [markdown]
# Token 3 comes more than half as often again. Each draft *was* drawn from q. But which of them is kept depends on what they turned
# out to be, so the kept one follows a law that nobody reported. A draft's confidence may decide where to draft, before the dice
# fall. It may not choose among the dice.
#
# There is an honest way: no dice at all. Take the likeliest tokens, each as a **certain** draft with one-hot q. Then both the
# drafts and the shape are a function of the text so far, and nothing is chosen afterwards. `budget` does that. It
# grows a tree that is `depth` levels deep, from the `beam` likeliest nodes of each level, and keeps as many nodes as `budget` says:
# those with the largest product of probabilities.

# %%
dynamic = sd.TreeDrafter(sd.ModelDrafter(sd.testing.TabularLM(Q.log())), budget=3, beam=2, depth=2)
error, texts = largest_error(dynamic, 3)
print(f"budget 3: {texts} texts, every error below 1e-12: {error < 1e-12}")

# %% [markdown]
# With one-hot siblings the rule becomes simple. A sibling stands with chance p(token), and one that falls takes its token out of
# p, which is scaled up again.
#
# The coupled rule judges trees too: the target draws its own token with the noise of the position, and the sibling that *is* that
# token stands. So the text for a seed is the same with and without drafts:

# %%
coupled = sd.Engine(pair.target, drafter=grower, tokenizer=pair.tokenizer, gamma=2, verify="coupled")
fast = coupled.generate(prompt, story, max_new_tokens=40)
print("coupled, same text:", fast.tokens == coupled.generate(prompt, story, max_new_tokens=40, speculate=False).tokens)

# %% [markdown]
# ## Committing one path
#
# Back to the first cycle of the story. The pass wrote seven slots, and the path is nodes 1 and 4. Then a bonus was drawn.
#
# **Predict:** after the pass, before anything else happens: in which slots do the kept drafts lie? Give a list.

# %%
# BEGIN SOLUTION
guess = [8, 11]
# END SOLUTION
predict("09.p5", guess, lambda: [L + node for node in cycle.path])

# %%
print("slot  position")
for index, place in enumerate(places):
    fate = "stays" if index == 0 else "goes"
    if index - 1 in cycle.path:
        fate = f"kept, moves to slot {L + cycle.path.index(index - 1)}"
    print(f"{L - 1 + index:>4}  {place:>8}  {names[index]:<8} {pieces[index]!r:<11} {fate}")
print(f"C: {cycle.target_kv.before} before, {cycle.target_kv.written} highest, {cycle.target_kv.after} after")

# %% [markdown]
# In a chain the kept drafts come first, and the pointer goes back. Here they lie apart. The cache must hold the committed text in
# order, so they are **moved together**, behind the pending token, and the pointer goes to L′ − 1 = 9. That is
# called compaction.
#
# It is a copy and nothing more. A key carries its position, and node 4 was computed at position 8, in slot 11. It moves to slot 8,
# where position 8 belongs. Had positions been slots, every moved key would have to be computed again.
#
# ### Exercise 09.4: what moves
#
# L committed tokens at the start of the cycle, and the path as node numbers. List the copies as pairs (from, to), in an order in which they
# can be done one by one. Leave out a draft that lies in its place already.


# %%
def moves(L: int, path: tuple[int, ...]) -> list[tuple[int, int]]:
    """The slots to copy after a tree was judged."""
    # BEGIN SOLUTION
    return [(L + node, L + index) for index, node in enumerate(path) if node != index]
    # END SOLUTION


check("09.4", moves)

# %% [markdown]
# <details><summary>Hint 1: where a node lies</summary>
#
# The pending token lies in slot L − 1, node 0 in slot L, node k in slot L + k.
# </details>
# <details><summary>Hint 2: where it goes</summary>
#
# The first draft of the path goes to slot L, the next to L + 1, and so on.
# </details>
# <details><summary>Hint 3: the order</summary>
#
# From the front. A node never moves up, so no copy overwrites one that is still to be read.
# </details>
#
# ## Against a fresh cache
#
# The test of lesson 05: after the run, compare with a fresh prefill of the committed tokens. The control forgets to move. It only takes
# the pointer back to where it should be.

# %%
from specdec_teach.caches import ContiguousCache

greedy = sd.Sampling.greedy()


@torch.no_grad()
def distance(model, cache, tokens):
    """The largest difference between a cache and a fresh prefill, over all layers, keys and values."""
    fresh = model(input_ids=torch.tensor([tokens[: cache.pointer]]), use_cache=True).past_key_values
    pairs = zip(fresh.layers, cache.contents())
    return max(float((a - b).abs().max()) for layer, (k, v) in pairs for a, b in ((layer.keys, k), (layer.values, v)))


def examine(name):
    stream = engine.stream(prompt, story, max_new_tokens=40)
    stream.finish()
    sequence = stream.sequence
    target, draft = (
        distance(model, cache, sequence.tokens)
        for model, cache in ((pair.target, sequence.cache), (pair.draft, sequence.draft))
    )
    pointers = all(c.target_kv.after == c.committed_after - 1 for c in stream.trace().cycles)
    same = engine.generate(prompt, greedy, max_new_tokens=40).tokens == plain
    print(f"{name:<14} target off by {target:<6.3f}   draft off by {draft:.3f}   always C = L′ − 1: {pointers}   greedy text right: {same}")


def only_the_pointer(self, start, kept):
    return self.rollback(start + len(kept))


plain = engine.generate(prompt, greedy, max_new_tokens=40, speculate=False).tokens
examine("honest")
with patch.object(ContiguousCache, "compact", only_the_pointer):
    examine("nothing moved")

# %% [markdown]
# The pointers of the broken run are right in every cycle. Counting tokens does not find this mistake. Comparing what the slots
# hold does.
#
# ## And the draft's cache?
#
# The draft model has read part of the tree too, with a mask of its own. Its pointer stood at 6 when the cycle began, and at 9 at
# its highest: the pending token and the two nodes that had children. L′ is 10.
#
# **Predict:** where does the *draft's* pointer stand after the cycle?

# %%
# BEGIN SOLUTION
guess = 7
# END SOLUTION
predict("09.p6", guess, lambda: cycle.draft_kv.after)

# %%
print("cycle   L → L′     target C            draft C")
for c in trace.cycles[:4]:
    t, d = c.target_kv, c.draft_kv
    print(
        f"{c.index:>5}   {c.committed_before:>2} → {c.committed_after:<2}    {t.before:>2} → {t.written:>2} → {t.after:<2}"
        f"        {d.before:>2} → {d.written:>2} → {d.after}"
    )

# %% [markdown]
# This draft lets the whole tree go and keeps what was committed when it began. At the next cycle it lacks the path and the
# bonus, and *computed catches up with committed*: it is fed `tokens[C:]`, in the same pass in which it grows the first level.
# No new rule. It could keep its part of the path too, by a compaction of its own. It would save a few tokens of a pass that has to be made
# in any case.
#
# ## Does it pay?
#
# We count, and do not time. First four drafts, in three shapes.
#
# ### Exercise 09.5: a prediction
#
# `chain`: four drafts, each behind the other. `two`: two siblings with one child each. `four`: four siblings for one place. All draw
# from the same draft model, over the same sixteen stories. Order the three names from most tokens per pass of the target to fewest.


# %%
def tokens_per_pass(drafter, gamma, temperature=0.8):
    """(tokens per pass, rows per pass) over sixteen stories."""
    cycles = [c for run in traces(engine_with(drafter, gamma), temperature) for c in run.cycles]
    return sum(len(c.emitted) for c in cycles) / len(cycles), sum(len(c.proposed) + 1 for c in cycles) / len(cycles)


def sampled(shape):
    return tokens_per_pass(sd.TreeDrafter(sd.ModelDrafter(pair.draft), shape), len(shape))


of_four = {"four": sampled((4,)), "two": sampled((2, 1)), "chain": tokens_per_pass(sd.ModelDrafter(pair.draft), 4)}

# BEGIN SOLUTION
guess = ["chain", "two", "four"]
# END SOLUTION
predict("09.5", guess, lambda: sorted(of_four, key=lambda name: -of_four[name][0]))

# %% [markdown]
# <details><summary>Hint 1: the most that can come</summary>
#
# A pass adds the kept path and one token more. How long can a path be in each shape?
# </details>
# <details><summary>Hint 2: numbers</summary>
#
# At most 5, 3 and 2 tokens.
# </details>
# <details><summary>Hint 3: how good is the draft?</summary>
#
# In the first output of this lesson four of five judged drafts stood. Where the first guess is mostly right, a second
# guess for the same place is mostly unused.
# </details>

# %%
for name, (tokens, rows) in of_four.items():
    print(f"{name:<6} {tokens:.2f} tokens per pass, {rows:.1f} rows per pass")

# %% [markdown]
# Breadth is an insurance, and this draft model seldom needs it. So depth first. Now trees against *their* chains, of the same
# depth, and against longer chains that cost as many rows. Above, drafts that are drawn; below, certain ones. The third column
# counts the draft model's passes in a cycle: one for each level.

# %%
base, certain = sd.ModelDrafter(pair.draft), sd.ModelDrafter(pair.draft, "argmax")
contest = {
    "drawn, chain of 4": (base, 4),
    "drawn, (2, 1, 1, 1)": (sd.TreeDrafter(base, (2, 1, 1, 1)), 4),
    "drawn, (3, 2, 1, 1)": (sd.TreeDrafter(base, (3, 2, 1, 1)), 4),
    "drawn, chain of 8": (base, 8),
    "certain, chain of 4": (certain, 4),
    "certain, budget 8, depth 4": (sd.TreeDrafter(base, budget=8, depth=4), 4),
    "certain, budget 8, depth 6": (sd.TreeDrafter(base, budget=8, depth=6), 6),
    "certain, budget 16, depth 8": (sd.TreeDrafter(base, budget=16, depth=8), 8),
    "certain, chain of 8": (certain, 8),
}
print("drafts                        tokens per pass   rows per pass   draft passes")
counted = {}
for name, (drafter, gamma) in contest.items():
    counted[name] = tokens, rows = tokens_per_pass(drafter, gamma)
    print(f"{name:<28}  {tokens:>15.2f}   {rows:>13.1f}   {gamma:>12}")

# %% [markdown]
# The upper half. A second candidate for the first place only, `(2, 1, 1, 1)`, brings a third of a token more than its chain.
# The bushy `(3, 2, 1, 1)` has 21 drafts at its fullest and brings half a token. The chain of 8 reads about as many rows as the
# first tree and brings more than either. But it needs twice as many passes of the draft model, one after the other.
#
# The lower half tells another story. A certain draft stands with chance p only. So chains fare worse, and an alternative is worth
# more. Budget 8 at depth 6 reads about the rows of the chain of 8 and brings at least as many tokens, in two draft passes fewer.
# Budget 16 brings nearly a token more, for twice the rows.
#
# Each line rests on some two hundred passes, so a difference of two tenths may be luck. Do not rank the close ones.
#
# Is breadth worth more when the draft is worse? At temperature 1.3 the two models agree less often. The drawn half again:

# %%
hot = {name: tokens_per_pass(*contest[name], temperature=1.3)[0] for name in list(contest)[:4]}
print("tokens per pass         at 0.8    at 1.3")
for name, tokens in hot.items():
    print(f"{name:<20}  {counted[name][0]:>8.2f}  {tokens:>8.2f}")

# %% [markdown]
# Everybody loses, the bushy tree least. It was half a token ahead of its chain, is now nearly a whole one ahead, and has caught up
# with the chain of 8. Breadth pays where the first guess is often wrong.
#
# ## When trees lose
#
# A row is not free. While the target's pass waits for its weights, some more rows cost nearly nothing (lesson 01). Then they begin
# to cost, and a pass over twice the rows takes twice as long. In a batch this comes early: B requests with K drafts each make B · (K + 1)
# rows. A server with 64 requests and trees of 32 drafts would send two thousand rows through every pass.
#
# So ask how much dearer the wide pass may be. At temperature 0.8, set against the chain of 4, with the draft's passes left out (the chain
# of 8 needs twice as many):

# %%
narrow = counted["drawn, chain of 4"]
for name in ("drawn, (2, 1, 1, 1)", "drawn, (3, 2, 1, 1)", "drawn, chain of 8"):
    tokens, rows = counted[name]
    print(f"{name:<20} {rows / narrow[1]:.1f} times the rows, worth it while a pass costs less than {tokens / narrow[0]:.2f} times as much")

# %% [markdown]
# For the bushy tree: four times the rows for 15 % more tokens. On a GPU that serves one request, a pass over twenty rows may cost
# little more than one over five, and then it is a gift. In a full batch it is a loss, and a chain, or no drafts at all, is
# better. An engine that knows its load makes its trees smaller when the batch grows.
#
# ## Heads and trees
#
# Trees came up together with draft heads (lesson 08). Medusa's heads guess the next few places at once, each without knowing
# what the others guessed. One chain of such guesses breaks early, so it takes several candidates from each head and lets the
# target judge the combinations. EAGLE's head is a small draft model on the target's own hidden states. EAGLE-2 grows
# a tree from it by confidence, as `budget` does here: expand the likeliest nodes level by level, then keep the best of all.
#
# The embedded target has heads of both kinds. Each as a chain and as a tree, at temperature 0.8 again:

# %%
lineup = sd.drafters_for(pair)
print("drafts               tokens per pass   rows per pass")
for name, gamma in {"head3": 5, "head-tree": 5, "medusa": 4, "medusa-tree": 4}.items():
    tokens, rows = tokens_per_pass(lineup[name], gamma)
    print(f"{name:<20} {tokens:>15.2f}   {rows:>13.1f}")

# %% [markdown]
# Medusa's chain is poor, and its tree brings four tenths of a token more for nearly six times the rows. The other, `head3`, is good
# already. Its tree has a second candidate for each place, with nothing behind it: nearly twice the rows, no more passes of the head,
# and on these stories no more tokens than the chain. Where first guesses fall more often, such a tree is ahead
# (`benchmarks/counts.md` has stories, copying and lists).
#
# The gains that papers publish include the tree, mostly with one request at a time. When you read such a number, ask for the rows.
#
# ## Try it yourself
#
# - Change the story's seed, and look for a cycle whose path is node 0 and then its first child. What moves? `trace.tree(index)` draws it.
# - Play the run: `trace.show()`. A cycle with a tree shows it, and what became of each draft.
# - Take `P` for the draft as well, in `largest_error`. How often is a second sibling judged?
# - Give `tokens_per_pass` other temperatures. Where does the bushy tree pass the chain of 8?
# - `sd.check(engine)` proves an engine with trees as it does any other: the law, the caches, the text. It takes some minutes.
#
# ## Honest limits
#
# - The counts are sixteen stories of one small pair that agrees well. Count your own pair before you choose a shape.
# - We counted tokens and rows. What a row costs is lesson 10, and your machine.
# - Trees are judged by the standard rule and the coupled one. Block verification is for chains.
# - A model with a recurrent state has no slots to mask or to move, and `TreeDrafter` is refused there.
# - `exact_law` enumerates small trees only: the ways grow like V to the number of drafts. Larger shapes rest on the same two steps.
#
# ## Can you?
#
# - [ ] give rows and positions of a pass over any tree (09.1)
# - [ ] write its mask from the parents (09.2)
# - [ ] judge siblings, and say what each leaves of p and of q (09.3)
# - [ ] list what moves when one path is committed (09.4)
# - [ ] say why depth comes before breadth for a good draft, and what a wide pass may cost (09.5)
# - [ ] name the mistake that the textbook case hides
#
# ## In 60 seconds
#
# A chain throws away all that hangs behind a rejection. A tree has several candidates for a place, and one pass judges them: K drafts,
# K + 1 rows. A node sees the committed text, its ancestors and itself, and its position is the pending token's plus its depth. Siblings are judged in turn.
# One that falls leaves [p − q]₊ for the next, whose q has lost that token and is scaled again. What comes out is p, as with one draft. Drafts that were drawn
# must not be chosen by how likely they turned out; certain ones may. One path is committed: its slots are moved together, and
# the pointer goes to L′ − 1. More rows buy more tokens, fewer and fewer for each row.
#
# **Red flags**: "position = slot" · a causal mask over a tree · "every sibling has its chance against p" · siblings without replacement,
# with one q for all · "keep the likeliest of the samples" · a pointer that goes back, and nothing moved · a test with a residual of one
# token · a tree's gain quoted without its rows.
#
# **Asked in interviews**
#
# <details><summary>A tree of K drafts: how many rows, how many slots, how many tokens at most?</summary>
#
# K + 1 rows and K + 1 slots, the pending token's with them. At most depth + 1 tokens: one path, and a correction or a bonus.
# </details>
#
# <details><summary>The first sibling fell. Why not judge the second against p?</summary>
#
# Because part of p has been served: with chance min(p, q) a token already came as the first sibling. Judged against p, it would come
# a second time. What is still missing is [p − q]₊, and that is the next sibling's target.
# </details>
#
# <details><summary>Siblings are drawn with replacement instead. What changes?</summary>
#
# Then every sibling's q is the same q, and each residual is taken with it. It is exact too. But a token that fell has p below q, so
# nothing of it is left. Drawn again it can only fall again: a wasted row.
# </details>
#
# <details><summary>Why may EAGLE-2 choose its tree by confidence and stay exact?</summary>
#
# If its nodes are the likeliest tokens, no dice are thrown for them. Each is a certain draft, one-hot q, and the choice depends only on the
# text. Had the nodes been drawn, choosing among them would change their law.
# </details>
#
# <details><summary>In which order do you copy the slots of a path, and why is that safe?</summary>
#
# From the front. The i-th node of a path has a number of at least i, so it moves down or stays. A copy never overwrites one that
# is still to be read. Or gather all of them first, and write them once.
# </details>
#
# ## Where to read more
#
# Miao and others, *SpecInfer* (2024), sections 3 and 4: token trees, the mask, and verification by several steps.
# Yang and others, *Multi-candidate speculative decoding* (2024), for siblings with and without replacement.
# Li and others, *EAGLE-2* (2024), section 4, for trees that follow the draft's confidence. Cai and others, *Medusa* (2024), section 2.1.2,
# for trees from heads.
