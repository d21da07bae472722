# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 25
#     outputs: 18
# ---

# %% [markdown]
# # 02 · Draft, then verify
#
# **25 minutes · medium · you need lesson 00, and a little PyTorch. No GPU, no download.**
#
# In lesson 00 one pass through the target judged four guesses. Here you take that pass apart: which row of it answers
# which question, and why a guessed text can be judged side by side when it cannot be written side by side.
#
# After it you can
#
# - say which tokens each p and each q has read;
# - map every row of the pass to a position in the text;
# - show that one wide pass gives the same rows as many narrow ones, and break that on purpose;
# - write a whole cycle: draft, then verify.
#
# In each exercise, replace the three dots and run the cell. The line below it says how it went.

# %% [markdown]
# ## One pass, one row per token
#
# A real cycle first. The draft guesses four tokens after a prompt. We take its guesses and run the target ourselves,
# once, over the prompt and all the guesses.

# %%
import torch

import specdec_teach as sd
from specdec_teach.exercises import check, predict

pair = sd.load_pair()
engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)

prompt = "Mira had a red lantern and"
story = sd.Sampling(temperature=0.8, seed=5)
cycle = next(engine.stream(prompt, story, max_new_tokens=32))

committed, drafts = pair.tokenizer(prompt).input_ids, list(cycle.proposed)
L = len(committed)
piece = {token: pair.tokenizer.decode([token]) for token in range(len(pair.tokenizer))}

print(f"committed  {prompt!r}, L = {L} tokens")
print(f"drafts     {[piece[token] for token in drafts]}")

# %% [markdown]
# A causal model gives a row of logits after *every* token it reads. We keep the last five: the row of the last
# committed token, and one row for each draft.

# %%
@torch.no_grad()
def logits(tokens):
    """The target's logits after each of `tokens`: one pass, one row per token."""
    return pair.target(input_ids=torch.tensor([tokens])).logits[0]


wide = logits(committed + drafts)[L - 1 :]
for row, scores in enumerate(wide):
    read = pair.tokenizer.decode(committed + drafts[:row])
    print(f"row {row}  has read …{read[-22:]!r}, would say {piece[int(scores.argmax())]!r}")

# %% [markdown]
# The last committed token is the **pending** token. The engine's cache holds the keys and values of all the tokens
# before it, so the engine feeds only the pending token and the drafts. We have no cache here and feed everything. The rows
# are the same.

# %%
fed = cycle.target_kv.written - cycle.target_kv.before
print(f"fed by the engine: {fed} tokens, rows back: {fed}")
print(f"fed by us:         {L + len(drafts)} tokens, rows kept: {len(wide)}")

# %% [markdown]
# ## Predict: which row judges the third draft?
#
# The engine judged d₃ with p(d₃), the target's probability of it. That number stands in one of the five rows.
# Which? Count from 0. The truth comes from the trace: we look for the row that holds the number the engine used.

# %%
# BEGIN SOLUTION
guess = 2
# END SOLUTION


def judging_row(i):
    """The row in which the engine found p(dᵢ)."""
    token, p = drafts[i - 1], cycle.decisions[i - 1].p
    chances = (wide / story.temperature).softmax(-1)[:, token].tolist()
    return min(range(len(chances)), key=lambda row: abs(chances[row] - p))


predict("02.p1", guess, lambda: judging_row(3))

# %%
for i, decision in enumerate(cycle.decisions, start=1):
    print(f"d{i} {piece[decision.token]!r:<12} p = {decision.p:.3f}, found in row {judging_row(i)}")
print(f"row {len(drafts)} judges no draft: it has read them all, and gives the bonus when they all stand")

# %% [markdown]
# Row 0 judges d₁, row i judges dᵢ₊₁, row γ gives the bonus. A row never judges a token that it has read: it says what
# should come *next*.
#
# ## Ask the models what they read
#
# `TabularLM` is a tiny model whose answers we write ourselves. This one counts: after t comes t + 1. It also notes
# every pass, and in each pass what every row has read. We give such a model to both sides of the engine.

# %%
def spy(log):
    """A model that counts, and notes for each pass what its rows have read."""

    def answer(prefix):
        log[-1].append(prefix)
        return 9.0 * torch.eye(10)[prefix[-1] + 1]

    model = sd.testing.TabularLM(answer, vocab=10)
    model.register_forward_pre_hook(lambda *_: log.append([]))
    return model


target_log, draft_log = [], []
counting = sd.Engine(spy(target_log), drafter=sd.ModelDrafter(spy(draft_log)), gamma=3)
one = next(counting.stream([0, 1, 2], sd.Sampling.greedy(), max_new_tokens=4))

for number, read in enumerate(draft_log[1:], start=1):  # the pass before them is the prefill
    print(f"draft  pass {number}  read {read[0]}, then drew d{number} = {one.proposed[number - 1]}")
for number, passed in enumerate(target_log[1:], start=1):
    for row, read in enumerate(passed):
        print(f"target pass {number}  row {row} read {read}")

# %% [markdown]
# Compare line by line. qᵢ and pᵢ have read the same: the committed tokens and d₁ … dᵢ₋₁. Only then is it fair to set one
# against the other.
#
# The difference is the number of passes. The draft could not ask for d₂ before it had d₁: three drafts, three passes.
# The target was handed all three: one pass, with the bonus row on top.
#
# ### Exercise 02.1
#
# Return the tokens that pᵢ and qᵢ have read. Drafts are counted from 1.

# %%
def history(committed: list[int], drafts: list[int], i: int) -> list[int]:
    """The tokens that p_i and q_i are conditioned on."""
    # BEGIN SOLUTION
    return committed + drafts[: i - 1]
    # END SOLUTION


check("02.1", history)

# %% [markdown]
# <details><summary>Hint 1: where to look</summary>
#
# The lines of the two spies above. Which of them belongs to d₁?
# </details>
# <details><summary>Hint 2: the idea</summary>
#
# p₁ has read no draft at all, p₂ has read one.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# All of `committed`, then the first `i - 1` items of `drafts`.
# </details>
#
# ### Exercise 02.2
#
# Number the positions of the text from 0. With L tokens committed, the pending token stands at position L − 1.
# For each row of the pass, in order, give two positions: the one it *reads* last and the one it *speaks of*.

# %%
def rows_of(L: int, gamma: int) -> list[tuple[int, int]]:
    """(position read last, position spoken of) for every row of the pass."""
    # BEGIN SOLUTION
    return [(L - 1 + row, L + row) for row in range(gamma + 1)]
    # END SOLUTION


check("02.2", rows_of)

# %% [markdown]
# <details><summary>Hint 1: how many</summary>
#
# The pass is over the pending token and γ drafts. Each token it reads gives a row.
# </details>
# <details><summary>Hint 2: the first row</summary>
#
# Row 0 reads the pending token and speaks of d₁. If the pending token stands at L − 1, where will d₁ stand?
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# `[(L - 1 + row, ...) for row in range(gamma + 1)]`
# </details>
#
# ## One wide pass or five narrow ones
#
# Plain decoding would make these rows one at a time: a pass after the prompt, a pass after the prompt and d₁, and so on.
# Make them both ways and compare.

# %%
narrow = torch.stack([logits(committed + drafts[:count])[-1] for count in range(len(drafts) + 1)])

print(f"wide    {len(wide)} rows from 1 pass")
print(f"narrow  {len(narrow)} rows from {len(narrow)} passes")
print(f"largest difference between two logits: {(wide - narrow).abs().max().item():.3f}")

# %% [markdown]
# Zero, to three decimals. That is the whole trick: **one pass over guesses gives what many passes would have given.**
#
# A comparison that cannot fail proves nothing. Shift the rows by one, the commonest slip of all, and it must fail.

# %%
shifted = (wide[1:] - narrow[:-1]).abs().max().item()
print(f"rows shifted by one: differ by more than 1: {shifted > 1.0}")

# %% [markdown]
# ### Exercise 02.3
#
# Write the verifying pass. `model(input_ids=...)` takes a tensor of ids `[1, T]` and returns an object whose `.logits` are
# `[1, T, V]`. Return γ + 1 rows `[γ + 1, V]`, from one call. No cache is needed.

# %%
def verify_rows(model, committed: list[int], drafts: list[int]) -> torch.Tensor:
    """The row of the pending token and the rows of all drafts, from one pass."""
    # BEGIN SOLUTION
    out = model(input_ids=torch.tensor([committed + drafts]))
    return out.logits[0, len(committed) - 1 :]
    # END SOLUTION


check("02.3", verify_rows)

# %% [markdown]
# <details><summary>Hint 1: what to feed</summary>
#
# All tokens at once, committed ones first. The two brackets of `torch.tensor([...])` make the batch dimension.
# </details>
# <details><summary>Hint 2: what to keep</summary>
#
# `out.logits[0]` has a row for every token fed. The first row you want is that of the last committed token.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# `out.logits[0, len(committed) - 1 :]`
# </details>
#
# ## Why it holds: nobody looks ahead
#
# Suppose d₃ is replaced by another token, and d₁, d₂ and d₄ stay.
#
# **Predict:** which of the rows 0 to 4 change? Give a list.

# %%
def changed(before, after):
    """The rows that differ."""
    return [row for row in range(len(before)) if (before[row] - after[row]).abs().max() > 0.01]


other = drafts.copy()
other[2] = committed[0]

# BEGIN SOLUTION
guess = [3, 4]
# END SOLUTION
predict("02.p2", guess, lambda: changed(wide, logits(committed + other)[L - 1 :]))

# %%
replaced = logits(committed + other)[L - 1 :]
for row in range(len(wide)):
    moved = (wide[row] - replaced[row]).abs().max().item()
    print(f"row {row}  moved by {moved:.1f}" + ("" if moved > 0.01 else ", it has not read d3"))

# %% [markdown]
# In a causal model a token sees itself and what is left of it. Row 2 judges d₃ and has not read it. So what we think of
# d₃ cannot depend on which d₃ was guessed, nor on anything behind it. Row 3 has read d₃, and so has row 4.
#
# Now the control: take the causal mask away, so that every token sees the whole row of tokens.

# %%
@torch.no_grad()
def seeing_all(tokens):
    """The same weights without the causal mask."""
    everything = torch.ones(1, 1, len(tokens), len(tokens), dtype=torch.bool)
    return pair.target(input_ids=torch.tensor([tokens]), attention_mask=everything).logits[0]


before, after = (seeing_all(committed + guesses)[L - 1 :] for guesses in (drafts, other))
print(f"with the causal mask, these rows change:  {changed(wide, replaced)}")
print(f"without it:                               {changed(before, after)}")

# %% [markdown]
# Without the mask every row changes, the one that judges d₁ too. Such a model cannot judge drafts in one pass: each
# verdict would depend on guesses that may be thrown away.
#
# ### Exercise 02.4
#
# A pass was made over γ drafts. Then dⱼ is replaced (drafts are counted from 1). List the rows that must be computed
# again.

# %%
def rows_to_redo(gamma: int, j: int) -> list[int]:
    """The rows that have read d_j."""
    # BEGIN SOLUTION
    return list(range(j, gamma + 1))
    # END SOLUTION


check("02.4", rows_to_redo)

# %% [markdown]
# <details><summary>Hint 1: where to look</summary>
#
# The prediction above is the case γ = 4, j = 3.
# </details>
# <details><summary>Hint 2: the idea</summary>
#
# Row 0 reads the pending token, row 1 reads d₁. Which is the first row to read dⱼ?
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# From `j` up to and including `gamma`.
# </details>
#
# ## What a rejection wastes
#
# γ is 4 again. d₁ and d₂ stand, d₃ falls. The pass has computed five rows.
#
# **Predict:** how many of the five did the cycle use?

# %%
forced = engine.generate(prompt, story, max_new_tokens=16, reject_at=3).trace


def rows_used(cycle):
    """Rows that judged a draft, and the bonus row if it was drawn from."""
    return sum(decision.status != "unused" for decision in cycle.decisions) + (cycle.last_kind == "bonus")


# BEGIN SOLUTION
guess = 3
# END SOLUTION
predict("02.p3", guess, lambda: rows_used(forced.cycles[0]))

# %% [markdown]
# Play the cycle with **→**. Watch where the correction comes from.

# %%
forced.show()

# %%
first = forced.cycles[0]
for decision in first.decisions:
    print(f"row {decision.position - 1}  d{decision.position}  {decision.status}")
print(f"row {len(first.decisions)}  bonus  unused")
print(f"the {first.last_kind} is drawn from row {first.accepted}, the row that rejected d{first.accepted + 1}")

# %% [markdown]
# The correction needs no row of its own: it stands where d₃ stood, and row 2 speaks of that place. Rows 3 and 4 have read
# a token that is no longer in the text. They cannot give a bonus. After a rejection there is a correction, and nothing
# more.
#
# ## Why not write four tokens in one pass?
#
# If one pass gives five rows, why ask a draft at all? Try it. Fill the places of the unknown tokens with something, here
# with the pending token again and again, and take the target's favourite in each row.

# %%
greedy = sd.Sampling.greedy()
plain = list(engine.generate(prompt, greedy, max_new_tokens=5, speculate=False).tokens)


def favourites(guesses):
    """The target's favourite in each row of one pass."""
    return logits(committed + guesses)[L - 1 :].argmax(-1).tolist()


for name, guesses in (("the right tokens", plain[:4]), ("anything", [committed[-1]] * 4)):
    right = [said == token for said, token in zip(favourites(guesses), plain)]
    print(f"places filled with {name}: row 0 right: {right[0]}, all rows right: {all(right)}")

# %% [markdown]
# Row 0 needs no guess, so it is always right. Every other row is an answer to the text it was given. With the right tokens
# in place, all five answers are right. With a filler they answer a text that nobody wrote.
#
# So known tokens can be judged together, and unknown ones cannot be written together. Somebody must guess, and the
# guess must be good. That is the draft's only job: **a bad guess costs time, never truth.**
#
# ### Exercise 02.5: a whole cycle
#
# Put it together, at temperature 0. Draft γ tokens, one pass each: the draft's favourite every time. Run the target once.
# Keep the drafts, from the left, as long as each is the target's favourite in its row. Then add the favourite of the next row:
# a correction or the bonus. Return the new tokens.

# %%
def one_cycle(target, draft, committed: list[int], gamma: int) -> list[int]:
    """The tokens that one greedy cycle adds."""
    # BEGIN SOLUTION
    drafts = []
    for _ in range(gamma):
        out = draft(input_ids=torch.tensor([committed + drafts]))
        drafts.append(int(out.logits[0, -1].argmax()))
    best = verify_rows(target, committed, drafts).argmax(-1).tolist()
    kept = 0
    while kept < gamma and drafts[kept] == best[kept]:
        kept += 1
    return [*drafts[:kept], best[kept]]
    # END SOLUTION


check("02.5", one_cycle)

# %% [markdown]
# <details><summary>Hint 1: the parts</summary>
#
# A loop that drafts, one call of your `verify_rows`, a count of the drafts that stand, and one token more.
# </details>
# <details><summary>Hint 2: the count</summary>
#
# `best = verify_rows(target, committed, drafts).argmax(-1).tolist()` has γ + 1 tokens. Draft number `k` from 0 stands if it
# equals `best[k]` and all drafts before it stand.
# </details>
# <details><summary>Hint 3: the last token</summary>
#
# With `kept` drafts standing it is `best[kept]`, whether a draft fell there or there was none left.
# </details>
#
# Yours reads the whole text again in every pass. The engine keeps caches, and that is lesson 05.
#
# ## Try it yourself
#
# - Put a word into `other` at another place, `other[0]` or `other[3]`. Say which rows change before you look.
# - Fill the places with `favourites([committed[-1]] * 4)[:4]` and look at the favourites again. Repeat. After how many passes
#   are all rows right, and how many would plain decoding take?
# - Let the two spies count after `[0, 1, 2]` with γ = 1 and with γ = 5. How many passes on each side?
# - Play a whole run, and name the row before the player does.

# %%
sd.play(engine, "Tom had a small boat and", sd.Sampling(temperature=0.8, seed=1), max_new_tokens=24)

# %% [markdown]
# ## Honest limits
#
# - A wide pass costs more than a narrow one. How much more depends on the machine: that is v(T) of lesson 01.
# - "The same rows" means the same up to rounding: a wide matrix product may add its terms in another order. In
#   float32 that moves the last digits of a logit. In 16 bits it can turn a tie. Lesson 13 is about that.
# - All of this needs a model that never looks ahead. One that reads in both directions cannot be verified this way.
# - Here the drafts form one chain. Lesson 09 verifies a whole tree of them, with a mask made for it.
#
# ## Can you?
#
# - [ ] say what p₃ and q₃ have read (02.1)
# - [ ] name the position that row r speaks of (02.2)
# - [ ] write the pass that gives γ + 1 rows (02.3)
# - [ ] say which rows are worth nothing after dⱼ has fallen (02.4)
# - [ ] write a greedy cycle without looking (02.5)
#
# ## In 60 seconds
#
# The draft guesses d₁ … d_γ one after another, since each guess reads the one before. The target then reads the pending
# token and all γ guesses in one pass and gives γ + 1 rows. Row 0 judges d₁, row i judges dᵢ₊₁, row γ gives the bonus. pᵢ and qᵢ
# have read the same text: everything committed and the drafts before dᵢ. Because nobody looks ahead, each row is what a
# single pass would have given. Rows behind the first rejected draft answer a text that is gone.
#
# **Red flags**: "row i judges dᵢ" · "γ rows for γ drafts" · "the correction needs another pass" · "the rows behind a rejection
# can be kept" · p and q compared after different histories.
#
# **Asked in interviews**
#
# <details><summary>The target can judge five positions in one pass. Why is it not trained to write five?</summary>
#
# It can be: extra heads guess several tokens from one row. But those guesses have not read each other, so they are drafts
# and have to be verified like any others. Lesson 08 has some.
# </details>
#
# <details><summary>Could the correction come from row j instead of row j − 1 when dⱼ falls?</summary>
#
# No. Row j has read dⱼ, which is being thrown away, and it speaks of the place behind it. Row j − 1 speaks of the place where dⱼ
# stood.
# </details>
#
# <details><summary>How many passes does a cycle take, and which of them wait for each other?</summary>
#
# γ passes through the draft, each waiting for the one before, then one through the target. What is saved are the target's
# passes. The draft's are the price.
# </details>
#
# <details><summary>Can one do without a draft and let the target correct its own filler?</summary>
#
# Yes: feed the favourites back and repeat until nothing changes. Each pass makes at least one more row right, so it ends,
# with the text of greedy decoding. Often that takes nearly as many passes. Look for "Jacobi decoding" and "lookahead decoding".
# </details>
#
# ## Where to read more
#
# Leviathan, Kalman, Matias, *Fast inference from transformers via speculative decoding* (2023), section 2.1 and algorithm 1.
# Stern, Shazeer, Uszkoreit, *Blockwise parallel decoding for deep autoregressive models* (2018), section 3: the greedy cycle.
# Fu and others, *Break the sequential dependency of LLM inference using lookahead decoding* (2024), on Jacobi decoding.
