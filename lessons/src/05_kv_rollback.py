# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 35
#     outputs: 24
# ---

# %% [markdown]
# # 05 · KV rollback
#
# **35 minutes · medium · you need lessons 00 and 02: the player, and the rows of a pass. No GPU, no download.**
#
# Verifying writes to the cache before it knows what will stay. Then something is rejected, and the cache holds tokens that
# are not in the text. This lesson is about getting rid of them, exactly. Many a speculative decoder was broken here, and its
# text still looked like text.
#
# After it you can
#
# - keep two numbers for each model, and say what both are at any moment of a cycle;
# - get the correction, the bonus and the all-accepted cycle right, for both models;
# - write the rewind;
# - say which test finds a wrong one, and which popular tests do not.

# %% [markdown]
# ## Tokens that must go
#
# A real run first. Every pass of a model leaves keys and values behind, for drafts too. How many of them belong to drafts
# that were then thrown away?

# %%
import torch

import specdec_teach as sd
from specdec_teach.exercises import check, predict

pair = sd.load_pair()
engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
prompt = "Mira had a red lantern and"
story = sd.Sampling(temperature=0.8, seed=8)

result = engine.generate(prompt, story, max_new_tokens=40)
run = result.trace
print(prompt + result.text)
print()
for name, pointers in (("target", [c.target_kv for c in run.cycles]), ("draft", [c.draft_kv for c in run.cycles])):
    computed = sum(kv.written - kv.before for kv in pointers)
    taken_back = sum(kv.written - kv.after for kv in pointers)
    print(f"{name:<6}  computed {computed} tokens in {len(pointers)} cycles, took {taken_back} of them back")

# %% [markdown]
# "Computed" means that the model has read the token and written its keys and values. If a later pass reads those of a token
# that was taken back, the next word continues a story that nobody sees. Further down you will read what that looks like.
#
# ## Two numbers
#
# For each model, keep two numbers:
#
# - **L**, the *committed* tokens: the prompt, and everything that was emitted and kept. It is one number for both models.
# - **C**, the *computed* tokens: those whose keys and values are in this model's cache. It is the cache's write pointer, and
#   each model has its own.
#
# Slots are counted from 0. Slot 6 holds the seventh token. With C = 6 the slots 0 to 5 are valid, and slot 6 is the next to
# be written.
#
# Many accounts say: *after the cycle, the cache holds exactly the committed tokens.* Test that.
#
# **Predict:** L = 7 and γ = 4. The drafts d₁ and d₂ stand, d₃ falls, and a correction is drawn. So L is now 10. How many tokens
# has the *target* computed, after the rewind? We force that very cycle.

# %%
forced = engine.generate(prompt, story, max_new_tokens=16, reject_at=3).trace
cycle = forced.cycles[0]

# BEGIN SOLUTION
guess = 9
# END SOLUTION
predict("05.p1", guess, lambda: cycle.target_kv.after)

# %% [markdown]
# Off by one. The correction has just been *drawn* from a row of probabilities. Nobody has read it, so it has no keys and
# values. It is the **pending** token. It will be read at the start of the next cycle, as the last prompt token was at the
# start of this one.
#
# ## Which slots?
#
# Another popular account: *if draft j is rejected, remove the positions j + 1 to γ.*
#
# **Predict:** the pass wrote the pending token to slot 6, d₁ to slot 7, and so on to d₄ in slot 10. Now d₃ has fallen. Which
# slots must the target give up? Give a list.

# %%
# BEGIN SOLUTION
guess = [9, 10]
# END SOLUTION
predict("05.p2", guess, lambda: list(range(cycle.target_kv.after, cycle.target_kv.written)))

# %% [markdown]
# Slot 10 alone would be d₄, the draft *behind* the rejected one. The rejected draft itself lies in slot 9, and it was read
# as well. It has to go with the rest. Its slot is where the correction will be written.
#
# ## Both caches, drawn
#
# That was the target. The draft has a cache too.
#
# **Predict:** in this same cycle, how many slots must the *draft* give up?

# %%
# BEGIN SOLUTION
guess = 1
# END SOLUTION
predict("05.p3", guess, lambda: cycle.draft_kv.written - cycle.draft_kv.after)

# %% [markdown]
# Not none, and not two. See why:
#
# Step with **→** and watch C in both lanes.

# %%
forced.show()

# %% [markdown]
# The same, drawn from the trace. One line for each moment, one column for each slot from L − 2 on: **█** valid,
# **░** written in this cycle and no longer valid, **·** not yet written in this cycle.


# %%
def lane(kv, slots):
    """Three lines: what a cache holds at the start, at its fullest, and after the rewind."""
    for moment, C in (("start", kv.before), ("highest", kv.written), ("after", kv.after)):
        top = kv.before if moment == "start" else kv.written
        marks = "  ".join(f"{'█' if slot < C else '░' if slot < top else '·':>4}" for slot in slots)
        print(f"   {moment:<8} C = {C:<3} {marks}".rstrip())


def both_lanes(cycle):
    L, gamma = cycle.committed_before, len(cycle.proposed)
    slots = range(L - 2, L + gamma)
    print(f"L = {L} → {cycle.committed_after}, {cycle.accepted} of {gamma} drafts accepted, one {cycle.last_kind}")
    print(" " * 20 + "  ".join(f"{slot:>4}" for slot in slots) + "   slot")
    print(" " * 20 + "  ".join(f"{name:>4}" for name in ["text", "pend", *(f"d{i + 1}" for i in range(gamma))]))
    print("target")
    lane(cycle.target_kv, slots)
    print("draft")
    lane(cycle.draft_kv, slots)


both_lanes(cycle)

# %% [markdown]
# The target starts with C = L − 1 = 6. One pass reads the pending token and γ drafts, so C = L + γ = 11. Two drafts fell or were
# never judged, and their slots go: C = 9, the new L minus 1.
#
# The draft starts at 6 too. It reads the pending token to draw d₁, then d₁ to draw d₂, and so on. It *draws* d₄ and never
# reads it. So its highest is 10, one less, and only one slot has to go.
#
# ## All stand
#
# Now a cycle in which every draft stands. L grows by five: four drafts and a bonus. And the target has five new slots.
#
# **Predict:** whose slots are they? Name the five tokens, in order. Use "pending", "d1" to "d4" and "bonus".

# %%
full = engine.generate(prompt, story, max_new_tokens=16, reject_at=0).trace
every = full.cycles[0]


def new_slots(cycle):
    """The tokens whose keys and values the target gained."""
    names = ["pending", *(f"d{i + 1}" for i in range(len(cycle.proposed))), "bonus"]
    first = cycle.committed_before - 1
    return [names[slot - first] for slot in range(cycle.target_kv.before, cycle.target_kv.after)]


# BEGIN SOLUTION
guess = ["pending", "d1", "d2", "d3", "d4"]
# END SOLUTION
predict("05.p4", guess, lambda: new_slots(every))

# %%
both_lanes(every)

# %% [markdown]
# Five tokens committed and five slots written: the counts agree, the tokens do not. The bonus is pending, and the first of the
# five slots belongs to the token that was pending *before*.
#
# The draft's lane stays at its highest: there is nothing to take back.
#
# **Predict:** how many committed tokens must the draft read at the start of the next cycle, before it can draw?


# %%
def read_first(trace, index):
    """Committed tokens that the draft reads in a cycle; its own drafts but the last come on top."""
    kv, proposed = trace.cycles[index].draft_kv, trace.cycles[index].proposed
    return (kv.written - kv.before) - (len(proposed) - 1)


# BEGIN SOLUTION
guess = 2
# END SOLUTION
predict("05.p5", guess, lambda: read_first(full, 1))

# %%
both_lanes(full.cycles[1])

# %% [markdown]
# Compare the two lines that say *start*. The target lacks the pending token. The draft lacks that one, and in the column *text*
# it lacks d₄ of the cycle before: it drew that one and never read it. It reads both in one pass, and draws.
#
# ## The whole table
#
# Every n from 0 to γ, from real cycles. L′ is L after the cycle. `reject_at=j` accepts n = j − 1 drafts, and `reject_at=0`
# accepts all.


# %%
def first_cycle(n, gamma=4):
    """A real cycle that accepts n of gamma drafts."""
    reject_at = 0 if n == gamma else n + 1
    return engine.generate(prompt, story, max_new_tokens=16, gamma=gamma, reject_at=reject_at).trace.cycles[0]


print("         target C                 draft C")
print("n   L′   start  highest  after    start  highest  after    added")
for n in range(5):
    c = first_cycle(n)
    t, d, now = c.target_kv, c.draft_kv, c.committed_after
    print(
        f"{n}   {now:<2}   {t.before:>5}  {t.written:>7}  L′ − {now - t.after}   {d.before:>5}  {d.written:>7}  L′ − {now - d.after}"
        f"   {c.accepted} + {c.last_kind}"
    )

# %% [markdown]
# Each cycle adds n + 1 tokens: the drafts that stand, and a correction *or* a bonus. Never both, as one can read: a bonus would
# follow drafts that are no longer in the text.
#
# The target always ends at L′ − 1. So does the draft, except in the last line. There it ends at L′ − 2, although nothing was
# rejected. More than one real engine has forgotten that line.
#
# ### Exercise 05.1: by hand
#
# L = 20 and γ = 5. Give four numbers for each of two cycles: the target's C at its highest and after the rewind, then the
# draft's C at its highest and after. In the first cycle d₃ falls. In the second all five stand. Write `([…], […])`.

# %%
# BEGIN SOLUTION
cases = ([25, 22, 24, 22], [25, 25, 24, 24])
# END SOLUTION
check("05.1", cases)

# %% [markdown]
# <details><summary>Hint 1: the highest</summary>
#
# The target starts at L − 1 = 19 and reads the pending token and five drafts. The draft reads one token less.
# </details>
# <details><summary>Hint 2: after a rejection</summary>
#
# L′ = 20 + 2 + 1. Both pointers end one below.
# </details>
# <details><summary>Hint 3: when all stand</summary>
#
# L′ = 26. The target ends at L′ − 1. A rewind never *raises* a pointer, so the draft stays at its highest.
# </details>
#
# ### Exercise 05.2: stale slots
#
# A slot that was written and must not be read any more is **stale**. Draft j of γ is rejected (counted from 1), and at the
# start both models lacked the pending token only. List the stale slots after the rewind, for the target and for the draft.


# %%
def stale_slots(L: int, gamma: int, j: int) -> tuple[list[int], list[int]]:
    """(the target's stale slots, the draft's stale slots)."""
    # BEGIN SOLUTION
    return list(range(L - 1 + j, L + gamma)), list(range(L - 1 + j, L + gamma - 1))
    # END SOLUTION


check("05.2", stale_slots)

# %% [markdown]
# <details><summary>Hint 1: where a draft lies</summary>
#
# The pending token lies in slot L − 1, so d₁ lies in slot L, and dⱼ in slot L − 1 + j.
# </details>
# <details><summary>Hint 2: from where to where</summary>
#
# From the rejected draft's own slot up to the last slot that this model has written.
# </details>
# <details><summary>Hint 3: two ends</summary>
#
# The target has written up to slot L + γ − 1, the draft up to L + γ − 2. If dᵧ itself is rejected, the draft's list is empty.
# </details>
#
# ## One rule
#
# The table has an exception, and exceptions get forgotten. There is a way to need none:
#
# **Computed catches up with committed.** Whatever a model lacks, it is fed: `tokens[C:]`. And a rewind is
# `C = min(C, L − 1)`, for both models.
#
# For the target `tokens[C:]` is the pending token. For the draft it is that, or two tokens after a cycle that accepted
# everything, and nobody has to ask which. At the start it is the prompt: the prefill feeds all but its last token.

# %%
print(f"prompt    {len(run.prompt)} tokens, the prefill feeds {run.prefill.target}")
for index in range(1, 6):
    before, now = run.cycles[index - 1], run.cycles[index]
    print(
        f"cycle {index}   after {before.accepted} of {len(before.proposed)} accepted, "
        f"the draft reads {read_first(run, index)} before it draws"
    )

# %% [markdown]
# The same rule brings back a request that has lost its whole cache: C is 0, so it is fed everything. Lesson 06 does that.
#
# And if a rewind goes wrong by one? Too far back costs a little: a token is read twice. Not far enough, and too little is left to
# feed. Here is a cache that keeps everything. (`with_cache` puts any cache around the target's own.)

# %%
from specdec_teach.exercises.lesson_05 import step_log, with_cache


class NeverRewinds:
    """A cache that is asked to go back, and does not."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def rollback(self, to):
        return self.inner.pointer


try:
    with_cache(engine, NeverRewinds).generate(prompt, story, max_new_tokens=40)
except sd.SpecDecError as error:
    print(error)

# %% [markdown]
# Five rows were wanted, for the pending token and four drafts. The pointer stood past the pending token, so only the drafts were
# left. Loud, at once, with the numbers: that is the second gift of the rule.
#
# ### Exercise 05.3: the rewind
#
# Write it, from counts: L when the cycle began, how many drafts were proposed (at least one), and how many tokens the cycle
# *emitted*. Return both pointers. Why emitted, and not accepted + 1? A text may end among the drafts. Then no token follows
# them. The check runs the engine, with texts that end there too.


# %%
def rewind(committed: int, proposed: int, emitted: int) -> tuple[int, int]:
    """(the target's C, the draft's C) after the cycle."""
    # BEGIN SOLUTION
    return tuple(min(highest, committed + emitted - 1) for highest in (committed + proposed, committed + proposed - 1))
    # END SOLUTION


check("05.3", rewind)

# %% [markdown]
# <details><summary>Hint 1: two questions</summary>
#
# How far did each model read? And how far may it stay?
# </details>
# <details><summary>Hint 2: how far it may stay</summary>
#
# All committed tokens but the last: L′ − 1, with L′ = committed + emitted.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# The smaller of the two answers, for each model. The target read up to committed + proposed, the draft one less.
# </details>
#
# ## What lies behind the pointer
#
# A rewind moves a number. The stale keys and values are still in memory, ░ in the picture. Is that all right?
#
# We spoil them. After every cycle, `poison` fills all slots at or past the pointer with NaN, in both caches. One NaN that is
# read turns every logit into NaN.
#
# **Predict:** what does the run give now? Answer "the same story", "another story" or "an error".


# %%
def outcome(stream):
    """How a run ends, compared with the honest one."""
    try:
        found = stream.finish().tokens
    except sd.SpecDecError:
        return "an error"
    return "the same story" if found == result.tokens else "another story"


def poisoned_run():
    stream = engine.stream(prompt, story, max_new_tokens=40)
    for _ in stream:
        stream.sequence.cache.poison()
        stream.sequence.draft.poison()
    return outcome(stream)


# BEGIN SOLUTION
guess = "the same story"
# END SOLUTION
predict("05.p6", guess, poisoned_run)

# %% [markdown]
# Nobody reads a slot at or past the pointer before it has been written again. So nothing need be erased: **the pointer is
# the rewind.**
#
# The control: the same poison, one slot lower. We take the pointer back by one, poison, and put it forth again. Now the
# newest valid slot holds NaN.

# %%
stream = engine.stream(prompt, story, max_new_tokens=40)
for _ in range(3):
    next(stream)
cache = stream.sequence.cache
cache.rollback(cache.pointer - 1)
cache.poison()
cache.advance(1)
print(f"one slot below the pointer poisoned: {outcome(stream)}")

# %% [markdown]
# The engine refuses logits that are not numbers. So the poison works, and the first run really never touched it.
#
# ## The result: against a fresh cache
#
# How do you prove that a cache is right? Make another one that cannot be wrong. After the run, feed the committed tokens to
# the model in a single fresh pass, and compare all keys and values. We let transformers make the fresh cache with its own
# code, not ours.


# %%
@torch.no_grad()
def distance(model, cache, tokens):
    """The largest difference between a cache and a fresh prefill, over all layers, keys and values."""
    fresh = model(input_ids=torch.tensor([tokens[: cache.pointer]]), use_cache=True).past_key_values
    pairs = zip(fresh.layers, cache.contents())
    return max(float((a - b).abs().max()) for layer, (k, v) in pairs for a, b in ((layer.keys, k), (layer.values, v)))


def after_run(engine, reject_at):
    """Both distances, after a run that forces a rejection at one position in every cycle."""
    stream = engine.stream(prompt, story, max_new_tokens=16, reject_at=reject_at)
    stream.finish()
    sequence = stream.sequence
    return distance(pair.target, sequence.cache, sequence.tokens), distance(pair.draft, sequence.draft, sequence.tokens)


print("rejected at   target   draft    largest difference to a fresh cache")
for position in (1, 2, 3, 4, 0):
    target_off, draft_off = after_run(engine, position)
    print(f"{position or 'nowhere':<11}   {target_off:.3f}    {draft_off:.3f}")

# %% [markdown]
# Zero to three decimals, wherever the rejection falls. Not zero to all digits: a wide and a narrow pass round differently.
#
# Would that table notice anything? In `WritesOnce` the pointer goes back as it should, and a slot is written once: what was put
# there first stays. So the correction's place keeps the keys and values of the rejected draft.

# %%
from specdec_teach.exercises.lesson_05 import WritesOnce

broken = with_cache(engine, WritesOnce)
print("rejected at   target   draft    largest difference to a fresh cache")
for position in (1, 2, 3, 4, 0):
    target_off, draft_off = after_run(broken, position)
    print(f"{position or 'nowhere':<11}   {target_off:>5.1f}    {draft_off:.3f}")

# %% [markdown]
# Far off at every position, and **right when nothing is rejected**. Keep that last line in mind. The draft is right too: only
# the target's cache was broken.
#
# And what does it sound like? Greedy, honest and broken:

# %%
greedy = sd.Sampling.greedy()
for name, one in (("honest", engine), ("broken", broken)):
    print(f"{name}: {prompt}{one.generate(prompt, greedy, max_new_tokens=36).text}")
    print()

# %% [markdown]
# The beginning is fine. Then the friend changes her name, and the sentences come apart. Somebody who sees the second text
# only may well blame the model.
#
# ## A test that proves nothing
#
# Somebody tests the rewind like this: let the target draft for itself, at temperature 0. Every draft must be accepted, and the
# text must be the target's own. A clean test, without any chance in it.
#
# **Predict:** the broken cache takes that test. Does it pass? `True` or `False`.

# %%
itself = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.target), tokenizer=pair.tokenizer, gamma=4)
plain = itself.generate(prompt, greedy, max_new_tokens=28, speculate=False).tokens


def passes(engine):
    run = engine.generate(prompt, greedy, max_new_tokens=28)
    return run.stats.acceptance_rate == 1.0 and run.tokens == plain


# BEGIN SOLUTION
guess = True
# END SOLUTION
predict("05.p7", guess, lambda: passes(with_cache(itself, WritesOnce)))

# %% [markdown]
# Nothing was rejected, so nothing was rewound. An all-accepted run says nothing about the rewind. A test of the rewind
# forces a rejection at **every** position, at least twice in a row, and looks at what comes after.
#
# ## An incident
#
# The log of an engine. Its text is right, token for token. Only its acceptance rate is lower than it used to be.

# %%
print("cycle  drafts  accepted   L → L′     target C         draft C")
for c in step_log():
    t, d = c.target_kv, c.draft_kv
    print(
        f"{c.index:>5}  {len(c.proposed):>6}  {c.accepted:>8}   {c.committed_before:>2} → {c.committed_after:<2}"
        f"    {t.before:>2} → {t.written:>2} → {t.after:<2}    {d.before:>2} → {d.written:>2} → {d.after:<2}"
    )

# %% [markdown]
# ### Exercise 05.4: find it
#
# In which cycle does it first go wrong, in whose cache, and which slot is counted as computed although nothing was ever
# written to it? Your `rewind` says what every last column should be.

# %%
# BEGIN SOLUTION
finding = (4, "draft", 23)
# END SOLUTION
check("05.4", finding)  # (cycle, "target" or "draft", slot)

# %% [markdown]
# <details><summary>Hint 1: the target</summary>
#
# Its last number is L′ − 1 in every line. Nothing is wrong there.
# </details>
# <details><summary>Hint 2: the draft</summary>
#
# A rewind can leave a pointer or lower it. In two lines it does neither; the first of them counts.
# </details>
# <details><summary>Hint 3: the slot</summary>
#
# C counts the slots that are written, from slot 0. So the first slot that is not written has the number C.
# </details>
#
# The author reasoned: *all drafts stand, so the draft has them all.* Here is that line of thought as code. `patch.object`
# puts it into the drafter inside its `with`, and takes it out again.

# %%
from unittest.mock import patch


def has_them_all(self, sequence):
    cache, settled = sequence.draft, len(sequence.tokens) - 1
    cache.rollback(min(cache.pointer, settled))
    cache.advance(settled - cache.pointer)  # the last draft too, which was drawn and never read


def hole():
    return patch.object(sd.ModelDrafter, "commit", has_them_all)


# %% [markdown]
# It is an old and common bug. One slot of the draft's cache holds nothing, or what was there before.
#
# **Predict:** at temperature 0, does the text change? `True` or `False`.


# %%
def text_changes():
    with hole():
        return engine.generate(prompt, greedy, max_new_tokens=60).tokens != wanted


wanted = engine.generate(prompt, greedy, max_new_tokens=60, speculate=False).tokens

# BEGIN SOLUTION
guess = False
# END SOLUTION
predict("05.p8", guess, text_changes)

# %% [markdown]
# The target decides about every token, and *its* cache is right. A bad draft is a bad guess, and guesses are judged. So the
# commonest test, "greedy equals plain decoding", cannot see a mistake in the draft's cache.
#
# Two other tests can. Let the target draft for itself again: now every draft must stand. And compare the *draft's* cache with
# a fresh one.


# %%
def examine(name):
    alone = itself.generate(prompt, greedy, max_new_tokens=60)
    _, draft_off = after_run(engine, 0)
    run = engine.generate(prompt, greedy, max_new_tokens=60)
    print(
        f"{name:<8}  same text: {run.tokens == wanted}   target drafts for itself: {alone.stats.accepted} of "
        f"{alone.stats.drafted} accepted   draft cache: {'right' if draft_off < 0.001 else 'WRONG'}"
    )


examine("honest")
with hole():
    examine("hole")

# %% [markdown]
# So the test that was worthless for the target's rewind finds the draft's hole: it is *made* of cycles that accept everything.
# Forced rejections and an all-accepted run, text and acceptance, both caches against fresh ones: each sees
# what the others miss.
#
# (Moving a pointer is the cheapest rewind, not the only one. Blocks that are given back, masks, scratch spaces: these are
# lesson 06. They keep the same promise: **a slot at or past the pointer is not read before it is written again.**)
#
# ## Caches that cannot go back
#
# A pointer helps only if the old contents are still there. In a **ring buffer** of the last 8 tokens they are not. Thirteen
# tokens are computed, a pass writes five more, and four of those are rejected:

# %%
from collections import deque

ring = deque(range(13), maxlen=8)
ring.extend(range(13, 18))
needed = range(6, 14)
print(f"the window of token 13 is {list(needed)}")
print(f"still in the ring         {[token for token in needed if token in ring]}")

# %% [markdown]
# Four tokens are gone, one for each rejected draft. (In this engine windowed models keep all their keys, and the window lives
# in the mask.) A **recurrent state** is worse: it is one tensor that every token has changed, and no token can be taken out
# of it. Such a model starts again from nothing after a rejection, or it keeps a **snapshot** from before the pass, returns to it,
# and reads the kept tokens once more.
#
# The engine takes snapshots by itself when a model needs them. Here is a real recurrent one, tiny, with random weights and
# nothing to say. The drafts are its own tokens, every fourth one spoilt.

# %%
import transformers

from specdec_teach.caches import SnapshotCache

transformers.logging.set_verbosity_error()  # it would like faster kernels
torch.manual_seed(0)
tiny = transformers.MambaConfig(
    vocab_size=64, hidden_size=16, num_hidden_layers=2, state_size=4, initializer_range=1.0, eos_token_id=None
)
recurrent = transformers.MambaForCausalLM(tiny).eval()

own = sd.Engine(recurrent).generate([1, 2, 3], greedy, max_new_tokens=24).tokens
spoilt = [token if at % 4 != 3 else (token + 1) % 64 for at, token in enumerate(own)]
speculative = sd.Engine(recurrent, drafter=sd.ScriptedDrafter(spoilt), gamma=4)
told = speculative.generate([1, 2, 3], greedy, max_new_tokens=24)
print(f"cache: {told.trace.meta.cache}, same tokens: {told.tokens == own}")
rejections = sum(c.last_kind == "correction" for c in told.trace.cycles)
print(f"cycles with a rejection: {rejections}, tokens computed again: {sum(c.caught_up for c in told.trace.cycles)}")

# %% [markdown]
# Nothing was computed again, and that has its price. This model takes one token at a time, so the engine keeps a snapshot after
# each: five narrow passes where slots need one wide pass. A recurrent model that takes several at once has one snapshot for
# each pass, and after a rejection computed catches up with committed.
#
# The control: a cache that moves its pointer to where it should be, and keeps the state.
#
# **Predict:** are the tokens still those of plain decoding? `True` or `False`.


# %%
def moves_the_number(self, to):
    self.pointer = to
    return to


def same_tokens():
    with patch.object(SnapshotCache, "rollback", moves_the_number):
        return speculative.generate([1, 2, 3], greedy, max_new_tokens=24).tokens == own


# BEGIN SOLUTION
guess = False
# END SOLUTION
predict("05.p9", guess, same_tokens)

# %% [markdown]
# A pointer *is* the rewind only where there are slots. A state has none, and there a pointer that moves alone is a lie.
#
# ## Many rows, many rewinds
#
# Three stories in one batch. All rows share the passes, and each row has verdicts of its own.

# %%
prompts = [prompt, "Tom had a small boat and", "Once upon a time"]
seeds = [sd.Sampling(temperature=0.8, seed=seed) for seed in (8, 1, 2)]
rows = [one.trace for one in engine.generate(prompts, seeds, max_new_tokens=24)]

print("cycle   rewind of the target's pointer in row 0, 1, 2")
for index in range(4):
    print(f"{index:>5}   {[row.cycles[index].target_kv.written - row.cycles[index].target_kv.after for row in rows]}")

# %% [markdown]
# ### Exercise 05.5: one length for all, a prediction
#
# Somebody keeps a rectangular cache and takes one number off all three pointers. So that no row loses a token it needs, they
# take the *smallest* of the three rewinds. Look at cycle 0. In which rows does a rejected draft stay below the pointer? Give
# a list of rows.


# %%
def still_holding(index):
    """The rows that keep a rejected draft if all rewind by the smallest of their lengths."""
    lengths = [row.cycles[index].target_kv.written - row.cycles[index].target_kv.after for row in rows]
    return [number for number, length in enumerate(lengths) if length > min(lengths)]


# BEGIN SOLUTION
guess = [1, 2]
# END SOLUTION
predict("05.5", guess, lambda: still_holding(0))

# %% [markdown]
# <details><summary>Hint 1: what a row needs</summary>
#
# Its own length, as printed. Anything less leaves something behind.
# </details>
# <details><summary>Hint 2: compare</summary>
#
# Which rows have a larger number than the smallest in that line?
# </details>
# <details><summary>Hint 3: the other way</summary>
#
# With the *largest* of the three no row holds a rejected draft. But some rows lose valid tokens and must compute them again.
# </details>
#
# Each row has its own L and its own C. And the rows of a batch tell the same stories as they do alone:

# %%
alone = [engine.generate(text, how, max_new_tokens=24).trace for text, how in zip(prompts, seeds)]
print([[c.emitted for c in a.cycles] == [c.emitted for c in b.cycles] for a, b in zip(rows, alone)])

# %% [markdown]
# ## Try it yourself
#
# - Force a rejection at 1 and call `both_lanes` on the second cycle. Where does the correction's slot come in?
# - In `after_run`, write `next(stream)` in place of `stream.finish()`, and ask again about `broken`. Why is every cache right?
# - Take `drafter=sd.ModelDrafter(pair.target)` and the hole, with γ = 1, 2 and 8. Which loses most?

# %%
both_lanes(engine.generate(prompt, story, max_new_tokens=16, reject_at=1).trace.cycles[1])

# %% [markdown]
# ## Honest limits
#
# - A forced rejection is a demonstration: the dice are loaded, and its trace says `not lossless`. The pointers are real.
# - A cache that equals a fresh one up to rounding is right in float32. In 16 bits the same comparison needs a wider margin.
# - Who may share a block, and when, is lesson 06. A tree of drafts needs more than a pointer: lesson 09.
# - The caches that we made here stand in the *target's* place only. The draft has the same duties, and the same tests.
#
# ## Can you?
#
# - [ ] give both pointers at their highest and after, for any n and γ (05.1)
# - [ ] name the stale slots after a rejection at j (05.2)
# - [ ] write the rewind, texts that end among the drafts included (05.3)
# - [ ] find a hole in a step log (05.4)
# - [ ] say why every row of a batch has a rewind of its own (05.5)
# - [ ] name the test that finds a broken rewind, and the one that finds a hole in the draft
#
# ## In 60 seconds
#
# L counts committed tokens, C computed ones, for each model. A cycle starts at C = L − 1 with one token pending. The target
# reads that and γ drafts and stands at L + γ; the draft reads one less. n drafts stand, one token more is drawn, L′ = L + n + 1,
# and the last token has been read by nobody. Both pointers go to min(C, L′ − 1). If all drafts stand, the draft lacks two
# tokens. Nobody needs a special case if every model is fed `tokens[C:]`. What lies behind the pointer may stay there, as long as
# it is written again before it is read.
#
# **Red flags**: "the cache holds exactly the committed tokens" · "remove positions j + 1 to γ" · "a correction and a bonus" · only
# one of the two caches is rewound · one rewind for a whole batch · `trim` returns how much it trimmed, and nobody looks ·
# "greedy equals plain decoding, so the caches are right" · a test of the rewind in which every draft is accepted.
#
# **Asked in interviews**
#
# <details><summary>γ = 5, two drafts accepted. Where do both pointers end, and which token is pending?</summary>
#
# L′ = L + 3. Both end at L′ − 1 = L + 2. The correction is pending: it was drawn from the row that rejected d₃, and no model has
# read it.
# </details>
#
# <details><summary>When does the draft lag behind the target?</summary>
#
# After a cycle that accepted every draft. The draft drew its last draft and never read it, so it lacks that one and the bonus.
# It reads two tokens at the start of the next cycle.
# </details>
#
# <details><summary>Must stale keys and values be erased?</summary>
#
# No. They must not be read before they are written again. A pointer that bounds all reads is enough; so is a mask, if every read
# uses it. Filling them with NaN in a test shows that it holds.
# </details>
#
# <details><summary>The text is right, and the acceptance rate falls slowly. Where do you look?</summary>
#
# At the draft's cache. Print both pointers after each cycle: L′ − 1, or L′ − 2 after all were accepted. Then compare the draft's
# keys and values with a fresh prefill. The text cannot show it: the target overrules a bad draft.
# </details>
#
# <details><summary>How do you verify drafts with a recurrent model?</summary>
#
# Keep the state from before the pass. After a rejection return to it and read the kept tokens again. A model that cannot give its
# state back has to be refused.
# </details>
#
# ## Where to read more
#
# Leviathan, Kalman, Matias, *Fast inference from transformers via speculative decoding* (2023), algorithm 1; the cache is left to
# the reader.
# Gu, Dao, *Mamba: linear-time sequence modeling with selective state spaces* (2023), section 2, for a state without slots.
