# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 10
#     outputs: 9
# ---

# %% [markdown]
# # 00 · Start here
#
# **10 minutes · easy · you need to know what a language model's next-token distribution is. No GPU, no download.**
#
# A language model writes one token at a time, and every token costs a full pass through all its weights.
# Speculative decoding makes one such pass judge several tokens at once. In this lesson you watch it happen.
#
# After it you can
#
# - play one cycle of speculative decoding, step by step;
# - read the player: what was proposed, what the target thought of it, what was kept, what each cache holds;
# - force a rejection at any draft, and say where both pointers end up.
#
# The pictures below are stills until you run the cells: **Run → Run All Cells** makes them play.

# %% [markdown]
# ## Two models that tell stories
#
# The **target** is the model whose text we want. The **draft** is a much smaller one that guesses ahead.
# Both come with this package. They were trained on little stories, and little stories are all they can write.

# %%
import specdec_teach as sd

pair = sd.load_pair()
for name, model in (("target", pair.target), ("draft", pair.draft)):
    millions = sum(weight.numel() for weight in model.parameters()) / 1e6
    layers = model.config.num_hidden_layers
    print(f"{name:<6}  {millions:4.1f} million parameters, {layers} layer{'s' if layers > 1 else ''}")
print(f"shared  {len(pair.tokenizer)} tokens in the vocabulary")

# %% [markdown]
# An **engine** puts them together. `gamma` (γ) is how many tokens the draft guesses in one cycle.

# %%
engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)

prompt = "Mira had a red lantern and"
story = sd.Sampling(temperature=0.8, seed=8)
result = engine.generate(prompt, story, max_new_tokens=60)

print(prompt + result.text)
print()
print(f"{result.stats.emitted} tokens in {result.stats.cycles} cycles, each one pass through the target")

# %% [markdown]
# More tokens than passes. (One more pass read the prompt at the start, as in plain decoding.) Plain decoding needs one
# pass for each token.
#
# ## What the draft gets wrong
#
# The draft writes good grammar and has a poor memory. Here is every draft that the target turned down in this run,
# and the token it put there instead.

# %%
word = result.trace.pieces
for cycle in result.trace.cycles:
    if cycle.last_kind == "correction":
        refused = cycle.decisions[cycle.accepted]
        print(f"cycle {cycle.index:>2}   draft {word[refused.token]!r:<12} target {word[cycle.last]!r}")

# %% [markdown]
# Most of these are things the story has already told: who it is about, what she carries, who her friend is. The target
# remembers. The draft, much smaller, does not.
#
# ## Play it
#
# Run the cell and click the player, so that it hears your keys. Step with **→**, or press **space** and watch. **R** jumps
# to the next rejection, **?** lists all keys. If you come back another day, run the cell again. At each step, ask four
# questions:
#
# 1. What was proposed? The draft's tokens appear one by one, hatched.
# 2. What did the target think of it? One pass gives a row of probabilities for every draft, and one row more. Row 0, made
#    by the last committed token, judges the first draft, row 1 the second, and so on. The verdicts follow from left to
#    right: ✓ accepted, ✗ rejected, · unused.
# 3. What was kept? The accepted drafts, and always one token more: a correction ↺ after a rejection, or a bonus ★.
# 4. What does each cache hold now? **C** is the pointer: how many tokens have their keys and values. It runs ahead
#    during the passes and rewinds when drafts are thrown away.

# %%
sd.play(engine, prompt, story, max_new_tokens=60)

# %% [markdown]
# ## One cycle in numbers
#
# The player draws nothing that the engine did not record. Here is a cycle that rejects its first or second draft, as text.
# `p` is the target's probability of the draft, `q` the draft model's own, and `u` a random number between 0 and 1.
# A draft is accepted when **u · q < p**. (The player writes the same as u < p/q.)

# %%
cycle = next(cycle for cycle in result.trace.cycles if cycle.last_kind == "correction" and cycle.accepted < 2)

print(f"cycle {cycle.index}")
for draft in cycle.decisions:
    test = "not judged"
    if draft.u is not None:
        test = f"u·q = {draft.u * draft.q:.3f}  {'<' if draft.accepted else '≥'}  p = {draft.p:.3f}"
    print(f"draft {draft.position}  {word[draft.token]!r:<12} {test:<26} {draft.status}")
print(f"{cycle.last_kind} {word[cycle.last]!r}")

# %% [markdown]
# Nothing behind a rejection is judged: those drafts continued a text that no longer exists. The same cycle as a picture:

# %%
result.trace.four_steps(cycle.index)

# %% [markdown]
# ## Predict, then look
#
# γ is 4. Suppose the target accepts two drafts and rejects the third. Write your answers down before you go on.
#
# - How many tokens does the cycle add to the text?
# - The text had L tokens when the cycle began. How many tokens does the target's cache hold at its fullest?
# - And after the rewind?
#
# You do not have to wait for a rejection in the third place: the engine can make one. It lets the first two drafts pass,
# and puts in the third place a token that the target does not want.

# %%
forced = engine.generate(prompt, story, max_new_tokens=16, reject_at=3).trace
first = forced.cycles[0]
L, now = first.committed_before, first.committed_after
print(f"added      {len(first.emitted)} tokens: {first.accepted} accepted and one {first.last_kind}")
print(f"committed  {L} → {now}")
print(f"target C   {first.target_kv.before} → {first.target_kv.written} → {first.target_kv.after}")
print(f"draft C    {first.draft_kv.before} → {first.draft_kv.written} → {first.draft_kv.after}")

# %% [markdown]
# Three tokens. At its fullest the target's cache holds L + 4: everything committed, and all four drafts.
# Then it rewinds to L + 2, one *less* than the new length. The correction has just been drawn and no model has read it
# yet, so it has no keys and values. It is the **pending** token, and the next cycle feeds it first.
#
# ## A rejection at every position
#
# The same for each position, and for a cycle that accepts everything (`reject_at=0`). L′ is the length *after* the cycle.
# Look at the last two columns.

# %%
print("reject at   accepted   added   target C             draft C")
for position in (1, 2, 3, 4, 0):
    c = engine.generate(prompt, story, max_new_tokens=16, reject_at=position).trace.cycles[0]
    target, draft = c.target_kv, c.draft_kv
    print(
        f"{position or 'nowhere':<9}   {c.accepted:<8}   {len(c.emitted):<5}   "
        f"{target.before} → {target.written} → {target.after:>2} = L′ − {c.committed_after - target.after}   "
        f"{draft.before} → {draft.written} → {draft.after:>2} = L′ − {c.committed_after - draft.after}"
    )

# %% [markdown]
# The target always ends at L′ − 1. The draft does too, except in the last line. It never reads its own fourth guess, it
# only *draws* it. So if all four stand, it lacks two tokens, and reads both at the start of the next cycle. Real engines
# have forgotten that: the text stays right, and the draft slowly loses its touch.
#
# Now play one. The **reject at position** control in the player runs the engine again.

# %%
sd.play(engine, prompt, story, max_new_tokens=16, reject_at=3)

# %% [markdown]
# ## What speculation does not change
#
# Temperature 0 takes the likeliest token each time. With or without a draft, the text is the same, token for token.

# %%
greedy = sd.Sampling.greedy()
fast = engine.generate(prompt, greedy, max_new_tokens=60)
plain = engine.generate(prompt, greedy, max_new_tokens=60, speculate=False)

print(f"same tokens: {fast.tokens == plain.tokens}")
print(f"cycles, each one pass through the target: {plain.stats.cycles} without speculation, {fast.stats.cycles} with it")

# %% [markdown]
# A check that cannot fail proves nothing. So here is one that must: let the *draft* write alone. If its guesses were
# kept without being judged, this is the text you would get.

# %%
alone = sd.Engine(pair.draft, tokenizer=pair.tokenizer).generate(prompt, greedy, max_new_tokens=60)
differ = next(i for i, (a, b) in enumerate(zip(plain.tokens, alone.tokens)) if a != b)
before = prompt + pair.tokenizer.decode(plain.tokens[:differ])

print(f"same tokens: {alone.tokens == plain.tokens}")
target_says, draft_says = (pair.tokenizer.decode([run.tokens[differ]]) for run in (plain, alone))
print(f"after {before[-24:]!r} the target says {target_says!r}, the draft {draft_says!r}")

# %% [markdown]
# ## Try it yourself
#
# - Another prompt. Give your hero a name, a thing and a colour, and see whether the draft remembers them.
# - γ = 1, then γ = 8. When does a longer guess stop paying?
# - Temperature 0.2, then 1.5. What happens to the rejections?
# - Set **reject at position** to 1 and play. How many tokens does each cycle add now, and what would plain decoding add?

# %%
sd.play(engine, "Once upon a time", sd.Sampling(temperature=0.8, seed=1), max_new_tokens=32, gamma=6)

# %% [markdown]
# From the next lesson on, exercises check themselves. What you predicted and what you solved is kept in a small file on your
# own machine; `from specdec_teach.exercises import report; report()` shows it whenever you like, and
# `report().save("mine.html")` makes a page of it.
#
# ## Honest limits
#
# - These two models know stories and nothing else. The engine takes any pair that shares a tokenizer:
#   `sd.load_pair("target", draft="draft")`.
# - With temperature above 0 the *distribution* of the text is unchanged, not the text: the two ways spend their random
#   numbers differently. Lesson 04 proves it, without a single experiment.
# - A forced rejection is a demonstration. Its trace says `forced` and `not lossless`, since the dice were loaded.
# - Fewer passes are not yet less time: a pass over five tokens costs more than a pass over one, and drafts cost too.
# - Near the end of a text γ shrinks: a draft that could not be kept is not asked for.
#
# ## Can you?
#
# - [ ] say which row of the target's pass judges which draft
# - [ ] say why nothing behind a rejection is judged
# - [ ] give both pointers after a cycle that accepts n of γ drafts, for n < γ and for n = γ
# - [ ] name the token that has no keys and values yet
#
# ## In 60 seconds
#
# The draft guesses γ tokens, one by one, cheaply. The target reads the pending token and all γ guesses in **one** pass and
# gets γ + 1 rows of probabilities. From left to right, each guess stands if u · q < p. The first that falls is replaced by
# a correction; if none falls, the last row gives a bonus. Either way the cycle adds at least one token. What either cache
# holds beyond the committed text is rewound, the last token is still to be read, and the next cycle begins.
#
# **Red flags** when you read about it or review an engine: "a correction *and* a bonus" · "the cache holds exactly the
# text" · "accept if the target agrees" · only one of the two caches is rewound.
#
# **Asked in interviews**
#
# <details><summary>Why can the target judge four drafts in one pass, but not write four tokens in one pass?</summary>
#
# Row i depends on the tokens before it. The drafts are known, so all rows can be computed side by side. Tokens that the
# target would write itself are not known until the row before them has been.
# </details>
#
# <details><summary>What does a cycle add in the worst case?</summary>
#
# One token: the correction in the first place. That is what plain decoding adds per pass, so the text still moves on,
# but the work for the drafts was wasted.
# </details>
#
# <details><summary>Which models need a rewind after a rejection?</summary>
#
# The target, always. The draft too, unless the rejected one was its last draft: that one it drew and never read.
# </details>
#
# ## Where to read more
#
# Leviathan, Kalman, Matias, *Fast inference from transformers via speculative decoding* (2023), sections 1 and 2.
# Chen and others, *Accelerating large language model decoding with speculative sampling* (2023), algorithm 2.
