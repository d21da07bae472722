# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 30
#     outputs: 28
# ---

# %% [markdown]
# # 06 · Paged cache
#
# **30 minutes · medium · you need lesson 05: pointers, rewinds and the pending token. No GPU, no download.**
#
# One request can keep its keys and values in one long strip. A server with many requests cannot: nobody knows how long each
# will get. So memory is cut into small blocks that are lent out and given back. Then drafts come, which take room and
# often vanish. In this lesson you follow every block through that.
#
# After it you can
#
# - read a block table, and say who holds a block and how much of it is filled;
# - say which blocks a rewind gives back, and why it need not give any;
# - say when a block may be published, and what goes wrong a moment earlier;
# - explain how a request reuses another's beginning, and how it survives losing its blocks;
# - choose between rewinding, freeing, masking and computing again.

# %% [markdown]
# ## Two requests, one pool
#
# The blocks here hold 4 tokens each, so that you can count along; servers use 16 and more. A `Scheduler` runs several
# requests in steps, and all of them take their blocks from one **pool**. (How it decides who runs is lesson 11.)
# A request's **block table** lists the blocks it holds, in the order of its text.

# %%
import math

import torch

import specdec_teach as sd
from specdec_teach.caches import PagedCache
from specdec_teach.caches.pool import chain_key
from specdec_teach.exercises import check, predict
from specdec_teach.parts import Parts

pair = sd.load_pair()
engine = sd.Engine(
    pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4, cache="paged", block_size=4
)
prompt, other_prompt = "Mira had a red lantern and", "Once upon a time"
story, other_story = sd.Sampling(temperature=0.8, seed=8), sd.Sampling(temperature=0.8, seed=3)

serving = sd.Scheduler(engine, max_batch=2, blocks=24)
mira = serving.submit(prompt, story, max_new_tokens=24, name="Mira")
ezra = serving.submit(other_prompt, other_story, max_new_tokens=24, name="Ezra")
for step in range(4):
    serving.step()
    for request in (mira, ezra):
        print(f"step {step}  {request.name}  {request.cache.pointer:2} tokens computed, table {request.cache.table}")

# %% [markdown]
# In step 0 both compute their prompts, all but the last token. Then each step is a cycle, and the tables grow by turns. So
# Mira's blocks are not neighbours. They need not be: the table says where to look.
#
# The place of one token's keys and values is a **slot**. Block b owns the slots 4 · b to 4 · b + 3, and
#
# **slot = table[position // 4] · 4 + position % 4**

# %%
table, position = mira.cache.table, 14
block = table[position // 4]
slot = block * 4 + position % 4
print(
    f"position {position}: entry {position // 4} of the table, block {block}, slot {block} · 4 + {position % 4} = {slot}"
)

tokens = pair.tokenizer(prompt).input_ids + list(mira.result.tokens)
with torch.no_grad():
    fresh = pair.target(torch.tensor([tokens])).past_key_values.layers[0].keys


def apart(slot, position):
    """How far the keys in a slot are from what a fresh pass over Mira's text computes for that position."""
    keys, _ = serving.pool.store.get(0, slice(slot, slot + 1))
    return (keys - fresh[:, :, position : position + 1]).abs().max().item()


print(f"keys in slot {slot} against a fresh pass: {apart(slot, position):.3f}")
print(f"keys in slot {position} against it:        {apart(position, position):.3f}")

# %% [markdown]
# Slot 22 holds the keys of Mira's position 14. Slot 14 holds something else: block 3 stands in Mira's table too, and its slots
# are her positions 8 to 11.
#
# Mira has 19 tokens computed and five blocks, with room for 20. The last block is **partial**: three slots are
# filled, and the fourth waits.
#
# ### Exercise 06.1
#
# A request has the table (7, 2, 9, 4), with blocks of 4. In which slot does position 9 live? And how many blocks must the
# target's cache hold during a pass with γ = 4, if 20 tokens are committed? If 25 are?

# %%
# BEGIN SOLUTION
answer = (37, 6, 8)
# END SOLUTION
check("06.1", answer)

# %% [markdown]
# <details><summary>Hint 1: the slot</summary>
#
# 9 // 4 is 2 and 9 % 4 is 1. The entries of a table are counted from 0.
# </details>
# <details><summary>Hint 2: the room</summary>
#
# The pass is over the pending token and four drafts. With L tokens committed the pointer gets to L + 4.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# 24 tokens, and 29. A block that is only begun is a whole block.
# </details>
#
# ## Room for drafts
#
# Before the pass, blocks are taken for everything it will write: the pending token and all γ drafts. That is
# **lookahead allocation**. Nobody knows yet which drafts will stand. Let both requests finish, and look at one of Mira's
# cycles.

# %%
serving.run()
cycle = mira.trace.cycles[4]
kv, blocks = cycle.target_kv, cycle.blocks
print(f"before the pass {kv.before} tokens are computed: {math.ceil(kv.before / 4)} blocks, all of them full")
print(f"the pass writes {kv.written - kv.before} tokens and takes the blocks {blocks.taken}")
print(f"{cycle.accepted} of {len(cycle.proposed)} drafts stands, so the pointer goes back to {kv.after}")

# %% [markdown]
# **Predict:** how many blocks does this rewind give back to the pool?

# %%
# BEGIN SOLUTION
guess = 1
# END SOLUTION
predict("06.p1", guess, lambda: len(blocks.freed))

# %%
print("cycle  pointer         taken     freed   table after the rewind               filled in the last block")
for c in mira.trace.cycles:
    way = f"{c.target_kv.before} → {c.target_kv.written} → {c.target_kv.after}"
    filled = c.target_kv.after - 4 * (len(c.blocks.owned) - 1)
    print(f"{c.index}      {way:<14}  {c.blocks.taken!s:<9} {c.blocks.freed!s:<7} {c.blocks.owned!s:<36} {filled} of 4")

# %% [markdown]
# In cycle 4 the pass wrote positions 24 to 28. After the rewind positions 24 and 25 stay. They live in block 11, so that
# block stays, although most of it is rubbish now. Block 12 held position 28 alone and goes back, and the next cycle takes it
# again. **A rewind can only give back whole blocks behind the pointer.** In the other cycles there was none.
#
# ### Exercise 06.2
#
# Write the rewind: the pointer goes back to `to`. Return the table that stays, and the blocks that are freed.


# %%
def rollback(table: list[int], pointer: int, to: int, size: int) -> tuple[list[int], list[int]]:
    """The table after a rewind from `pointer` to `to` tokens, and the freed blocks."""
    # BEGIN SOLUTION
    needed = -(-to // size)
    return table[:needed], table[needed:]
    # END SOLUTION


check("06.2", rollback)

# %% [markdown]
# <details><summary>Hint 1: what counts</summary>
#
# Only `to` does. How many blocks do that many tokens need?
# </details>
# <details><summary>Hint 2: a block that is begun</summary>
#
# 8 tokens need two blocks of 4, 9 tokens need three. So divide and round up.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# `-(-to // size)` rounds up. Cut the table there.
# </details>
#
# ## Must they go back at once?
#
# One could also keep them: the next cycle wants the room again anyway. Some servers never free a block after a rejection.
# They count the computed tokens down and leave rejected drafts in blocks that the request still holds. The cache here can do
# either. (`variant` makes an engine like this one with something exchanged, here the part that makes the caches.)
#
# **Predict:** if no block is given back, is the text still the "same", or an "other" one?

# %%
plain = engine.generate(prompt, story, max_new_tokens=40)


def with_policy(policy):
    """The same run, with a cache that trims its table at a rewind, or keeps it."""
    parts = Parts(cache=lambda kind, capacity, pool: PagedCache(pool, capacity, policy))
    return engine.variant(parts=parts).generate(prompt, story, max_new_tokens=40)


# BEGIN SOLUTION
guess = "same"
# END SOLUTION
predict("06.p2", guess, lambda: "same" if with_policy("keep").tokens == plain.tokens else "other")

# %%
for policy in ("trim", "keep"):
    run = with_policy(policy)
    taken, freed = (sum(len(getattr(c.blocks, name)) for c in run.trace.cycles) for name in ("taken", "freed"))
    print(f"{policy}  {taken} blocks taken, {freed} freed by a rewind, same text: {run.text == plain.text}")

# %% [markdown]
# Freeing lets others have the room for a moment. Keeping saves the bookkeeping. Both are right, since both keep the one
# rule that matters: **a slot at or past the pointer is never read before it is written again.**
#
# You can test that rule. After each cycle, fill all that must not matter with NaN, the number that spoils every sum it
# enters. Then the control: one slot *below* the pointer, position 5, set to zero.


# %%
def after_each_cycle(harm):
    """The text of a run whose cache is harmed after every cycle."""
    run = engine.stream(prompt, story, max_new_tokens=24)
    for _ in run:
        harm(run.sequence.cache)
    return run.result().text


def forget(cache, position=5):
    slot = int(cache.slots(position, position + 1))
    cache.pool.store.fill(slice(slot, slot + 1), 0.0)


for name, text in (
    ("untouched", engine.generate(prompt, story, max_new_tokens=24).text),
    ("NaN past the pointer", after_each_cycle(lambda cache: cache.poison())),
    ("position 5 set to zero", after_each_cycle(forget)),
):
    print(f"{name:<23} …{text.split('.')[1]}.")

# %% [markdown]
# NaN behind the pointer changes nothing. One slot below it is another matter: position 5 is " lantern", and with its keys and
# values gone the story has a kite.
#
# ## Two owners
#
# A block can stand in several tables. The pool counts its **holders**, and a block is free only when nobody holds it. Here
# Mira runs again alone, and after three cycles her cache is forked, as when one prompt is to get two continuations. The twin copies
# no keys: it holds the same blocks.

# %%
alone = engine.stream(prompt, story, max_new_tokens=24)
for _ in range(3):
    next(alone)
cache = alone.sequence.cache
twin = cache.fork()
print(f"{cache.pointer} tokens computed, the last block is partly filled")
print(f"Mira {cache.table}  twin {twin.table}  holders {[cache.pool.holders[b] for b in cache.table]}")

cycle = next(alone)  # Mira goes on, the twin waits
print()
print(f"Mira {cache.table}  twin {twin.table}")
print(f"copied (from, to) {cycle.blocks.copied}, still shared {cycle.blocks.shared}")

# %% [markdown]
# Mira's next token belongs into block 4, beside three tokens that are the twin's too. Before she writes, she takes a new
# block, copies the old one into it, and puts it into *her* table. That is **copy on write**. The full blocks stay shared:
# both pointers are past them, so nobody writes there.
#
# ### Exercise 06.3
#
# A diagnosis. B holds the blocks 0 and 1, filled with the tokens 10 to 16. A is a fork of B that has rewound its last token,
# so A's pointer stands at 6, and both still hold block 1. A now computes a token of its own, 26, for position 6. What must
# happen, in which order? Give a list of these acts; there may be more than one good order.
#
# | act | what happens |
# | --- | --- |
# | `"write"` | A writes 26 through its table |
# | `"take"` | A takes a free block |
# | `"drop"` | block 1 is held once less |
# | `"copy"` | the slots of block 1 are copied to the new block |
# | `"swap"` | A's table gets the new block in the place of block 1 |

# %%
# BEGIN SOLUTION
acts = ["take", "copy", "swap", "drop", "write"]
# END SOLUTION
check("06.3", acts)

# %% [markdown]
# <details><summary>Hint 1: who must not notice</summary>
#
# B reads position 6 too, and there stands 16.
# </details>
# <details><summary>Hint 2: where the write goes</summary>
#
# It follows A's table. So the table has to be right before it.
# </details>
# <details><summary>Hint 3: the count</summary>
#
# All five acts are needed. Without `"drop"` block 1 would never be free again.
# </details>
#
# ## The same beginning again
#
# Many requests begin alike: a system prompt, the chat so far. Then the beginning need not be computed again. For that a full
# block can be **published**: others may find it, by its tokens *and all tokens before them*, since keys and values
# depend on the whole text to the left. A hash says that in few bytes, if each block's hash includes the one before:
# a **chain**.

# %%
few = [5, 6, 7, 8]
first = chain_key(b"", few)
print("the same tokens at the start and behind others have one key:", first == chain_key(first, few))

# %% [markdown]
# Two requests, one after the other on one pool: first Mira's story, then a prompt that begins like it. For comparison, the
# second prompt is also run on a pool of its own: a **cold start**. From here on at temperature 0, so that texts can be
# compared.

# %%
greedy = sd.Sampling.greedy()
una = prompt + " a best friend named Una"


def serve(engine, *prompts, watch=None):
    """Serve prompts one after the other on one pool."""
    scheduler = sd.Scheduler(engine, max_batch=1, blocks=64)
    if watch is not None:
        watch.scheduler = scheduler
    requests = []
    for text in prompts:
        requests.append(scheduler.submit(text, greedy, max_new_tokens=24))
        scheduler.run()
    return scheduler, requests


scheduler, (earlier, later) = serve(engine, prompt, una)
cold = engine.generate(una, greedy, max_new_tokens=24)
for name, trace in (("cold", cold.trace), ("after Mira", later.trace)):
    print(
        f"{name:<11} {trace.prefill.adopted:2} tokens found, {trace.prefill.target:2} computed before the first cycle"
    )

# %% [markdown]
# When the second request came, the first was over and held nothing any more. But its published blocks were still there:
# nobody's, and not forgotten. Such a block is **idle**. The second request took hold of two of them, which is 8 tokens, and
# computed only the rest.
#
# And does the target say the same as after a cold start? Compare every p of every verdict, and the text.

# %%
pairs = [
    (a.p, b.p)
    for here, there in zip(later.trace.cycles, cold.trace.cycles)
    for a, b in zip(here.decisions, there.decisions)
]
print(
    f"{len(pairs)} verdicts, largest difference between two p below 0.00001: {max(abs(a - b) for a, b in pairs) < 1e-5}"
)
print(f"same tokens: {later.result.tokens == cold.tokens}")
print(una + later.result.text)

# %% [markdown]
# ### Exercise 06.4
#
# Write the search. `index` is a dict from key to block. `chain_key(before, tokens)` makes a key from the key before it
# (`b""` at the beginning) and a block's tokens. Return the blocks to hold.


# %%
def adopt(index: dict[bytes, int], tokens: list[int], size: int) -> list[int]:
    """The published blocks of the beginning of `tokens`."""
    # BEGIN SOLUTION
    found, key = [], b""
    for start in range(0, len(tokens) - size + 1, size):
        key = chain_key(key, tokens[start : start + size])
        if key not in index:
            break
        found.append(index[key])
    return found
    # END SOLUTION


check("06.4", adopt)

# %% [markdown]
# <details><summary>Hint 1: the loop</summary>
#
# Go through `tokens` in steps of `size`, full blocks only, and carry the key along.
# </details>
# <details><summary>Hint 2: the end</summary>
#
# At the first key that is not in `index`, stop. What comes behind a gap is of no use: attention needs everything to the left.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# `key = chain_key(key, tokens[start : start + size])`, starting from `b""`.
# </details>
#
# ## When may a block be published?
#
# Mira's prompt has 7 tokens: one full block, published as soon as it was computed, and three tokens in the next. Four
# drafts follow, and the engine is made to reject one of them. Suppose it is the first. The correction takes its place, and
# 8 tokens are committed: two blocks' worth.
#
# **Predict:** how many blocks can others find after this cycle?


# %%
def one_cycle(reject_at):
    """The cycle and the cache after it."""
    run = engine.stream(prompt, story, max_new_tokens=16, reject_at=reject_at)
    return next(run), run.sequence


def can_be_found(reject_at):
    _, sequence = one_cycle(reject_at)
    return len(sequence.cache.pool.published)


# BEGIN SOLUTION
guess = 1
# END SOLUTION
predict("06.p3", guess, lambda: can_be_found(1))

# %%
print("rejected  committed  computed  full of computed tokens  published")
for reject_at in (1, 2, 3, 4, 0):
    c, sequence = one_cycle(reject_at)
    computed, known = sequence.cache.pointer, sequence.cache.pool.published
    name = f"draft {reject_at}" if reject_at else "none"
    print(f"{name:<9} {c.committed_after:>9} {computed:>9}  {computed // 4:>23}  {sorted(known)}")

# %% [markdown]
# Look at the first line. 8 tokens are committed, but the eighth is the correction: just drawn, the pending token, and no
# model has read it. Its slot is not empty, though. It still holds what the pass wrote there.

# %%
c, sequence = one_cycle(1)
with torch.no_grad():
    right = pair.target(torch.tensor([sequence.tokens])).past_key_values.layers[0].keys
for position in (6, 7):
    slot = int(sequence.cache.slots(position, position + 1))
    keys, _ = sequence.cache.pool.store.get(0, slice(slot, slot + 1))
    away = (keys - right[:, :, position : position + 1]).abs().max().item()
    print(
        f"position {position} {pair.tokenizer.decode([sequence.tokens[position]])!r:<7} slot {slot}: off by {away:.2f}"
    )
print(f"rejected there: {pair.tokenizer.decode([c.proposed[0]])!r}")

# %% [markdown]
# Slot 7 holds the keys of the *rejected* draft. Publish that block as "Mira had a red lantern and a", and others get the
# wrong keys for " a". So a block may be published when all its tokens are **committed and computed**:
#
# - committed, or it holds drafts that may vanish;
# - computed, or it holds something else where the pending token will be.
#
# ### The control: publish when written
#
# Here is a scheduler that finds the rule too strict. It makes two assumptions that were true before there were drafts: a
# block that is full is finished, and a finished block never changes. So it publishes each block as soon as the pass has
# filled it, before any verdict, and never takes one off the list.


# %%
class NeverTakenBack:
    """A pool that does not believe that a listed block can be written again."""

    def __init__(self, pool):
        self.pool = pool

    def __getattr__(self, name):
        return getattr(self.pool, name)

    def withdraw(self, block):
        pass


class EarlyPublisher:
    """Publishes blocks when the pass has written them: the committed tokens and the drafts."""

    def on_event(self, event):
        if isinstance(event, sd.events.Drafted):
            self.drafts = list(event.tokens)
        if isinstance(event, sd.events.TargetRan):
            (request,) = self.scheduler.live
            request.cache.publish(request.stream.sequence.tokens + self.drafts)


early = engine.variant(parts=Parts(cache=lambda kind, capacity, pool: PagedCache(NeverTakenBack(pool), capacity)))
watch = EarlyPublisher()
early.observers.append(watch)

# %% [markdown]
# The same two requests as before: first Mira's story, then the prompt with Una. In Mira's story the draft once proposed
# " Una" as her friend, and the target wanted " Bo". That friend was never told to anybody.
#
# **Predict:** with the early publisher, does the second request write the text of a cold start? "yes" or "no".

# %%
# BEGIN SOLUTION
guess = "no"
# END SOLUTION
scheduler, (first, second) = serve(early, prompt, una, watch=watch)
predict("06.p4", guess, lambda: "yes" if second.result.tokens == cold.tokens else "no")

# %%
print("first request, honest:", earlier.result.text)
print("first request, early: ", first.result.text)
print()
print("second, cold start:", una + cold.text)
print("second, early:     ", una + second.result.text)
print()
print(f"tokens found: {later.trace.prefill.adopted} by the honest one, {second.trace.prefill.adopted} by this one")

# %% [markdown]
# The first request is right to the letter. Its own cache was always in order. The *second* is told of Una and writes of Bo.
# It found one block more, listed as "… a best friend named U". But after the rejection that block had been
# written again: its last slot holds the keys and values of " Bo", from another customer's story.
#
# No test of a single request can see this. What sees it is a probe: prompts made of what was *proposed*, compared with a cold
# start. The honest cache takes a block off the list before it writes to it, and it never lists a draft.
#
# ### Exercise 06.5
#
# Write the rule. The first `already` blocks of the table are published. Return the places in the table that can be added now.


# %%
def blocks_to_publish(committed: int, computed: int, size: int, already: int) -> list[int]:
    """Places in the table, counted from 0, of the blocks to publish now."""
    # BEGIN SOLUTION
    return list(range(already, min(committed, computed) // size))
    # END SOLUTION


check("06.5", blocks_to_publish)

# %% [markdown]
# <details><summary>Hint 1: how far</summary>
#
# A token counts if it is committed *and* computed. How many are both?
# </details>
# <details><summary>Hint 2: whole blocks</summary>
#
# This time the division rounds down: a partial block stays private.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# From `already` up to, and without, `min(committed, computed) // size`.
# </details>
#
# ## When the blocks run out
#
# Two requests, back at temperature 0.8: Mira, and Pia, who gets the other prompt. They need 8 and 7 blocks at their longest,
# and the pool has 12. Two things can happen.
#
# - **Eviction**: an idle block is forgotten and lent out again. The one that was unused for longest goes first. A request
#   that ends gives its last block back first, so the beginnings of texts, the most useful parts, stay longest.
# - **Preemption**: if there is nothing to evict, the youngest request loses all its blocks and waits. Later it comes back and
#   *computes again* what it had: its committed tokens are kept, only keys and values are lost.
#
# **Predict:** a request is thrown out in the middle of its story and comes back later. Temperature 0.8, one seed. Is its text
# the "same" as without neighbours, or an "other" one?

# %%
tight = sd.Scheduler(engine, max_batch=2, blocks=12)
names, prompts = ("Mira", "Pia"), (prompt, other_prompt)
squeezed = [tight.submit(text, story, max_new_tokens=24, name=name) for name, text in zip(names, prompts)]
tight.run()
unhindered = [engine.generate(text, story, max_new_tokens=24) for text in prompts]

# BEGIN SOLUTION
guess = "same"
# END SOLUTION
predict("06.p5", guess, lambda: "same" if squeezed[1].result.tokens == unhindered[1].tokens else "other")

# %%
timeline = tight.timeline()
print("step  Mira             Pia              owned  idle  free  published  evicted")
for step in timeline.steps:
    cells = ["", ""]
    for row in step.rows:
        again = f"{row.adopted} found " if row.adopted else ""
        told = f"cycle, +{row.emitted}" if row.cycle is not None else f"{again}{row.fed} fed" if row.fed else row.state
        cells[row.request] = told
    owned = len({block for row in step.rows for block in row.table})
    free = timeline.meta.blocks - owned - len(step.idle)
    counts = f"{owned:>5} {len(step.idle):>5} {free:>5} {len(step.published):>10}  {', '.join(map(str, step.evicted))}"
    print(f"{step.index:>4}  {cells[0]:<16} {cells[1]:<16} {counts}".rstrip())

# %% [markdown]
# Follow Pia. After step 4 the pool is full. In step 5 Mira needs two blocks, and nobody has one to spare. So Pia, who came
# later, is preempted. Her partial block becomes free and her five published ones idle. Mira takes the free one and evicts
# number 9, the end of Pia's text, and gives it back when her drafts fall. Pia waits while Mira finishes. In step 8 she is
# back: of her 22 computed tokens 16 are found in her own old blocks, and 6 are fed again. Nothing is emitted twice.

# %%
for request, free in zip(squeezed, unhindered):
    print(f"{request.name:<5} same text as alone: {request.result.text == free.text}")
    print(f"      γ in each cycle: {[c.gamma for c in request.trace.cycles]}")
    print(f"      tokens computed again: {sum(c.caught_up for c in request.trace.cycles)}")

# %% [markdown]
# And the picture of it. Step through it with **→**: requests above, blocks below, each block with its owner.

# %%
timeline.show()

# %% [markdown]
# Why the *same* text? Her committed tokens were kept, and so was the number of the next random draw. The rows that are
# computed again are the rows that were lost.
#
# One thing has to hold: γ must not be cut for lack of room. (Mira's last two are small because her text ends; they would be
# alone too.) In a smaller pool there is room for fewer drafts. Then fewer random numbers are drawn in a cycle, and all
# later ones are used for something else.

# %%
for how, name in ((greedy, "greedy"), (story, "T = 0.8")):
    for blocks in (12, 10):
        small = sd.Scheduler(engine, max_batch=2, blocks=blocks)
        requests = [small.submit(text, how, max_new_tokens=24) for text in prompts]
        small.run()
        alone = [engine.generate(text, how, max_new_tokens=24) for text in prompts]
        print(f"{name:<8} {blocks} blocks, same text: {[r.result.text == a.text for r, a in zip(requests, alone)]}")

# %% [markdown]
# At temperature 0 the text never changes. With sampling a cut γ gives another sample *of the same distribution*: not an
# error, but not the same text.
#
# ## Rewind, free, mask or compute again
#
# A rejected draft has been written. What becomes of it? Blocks are one answer. The engine has four others:
#
# - **contiguous**: one strip of slots, and a pointer that goes back.
# - **masked**: the pointer goes back too, but all slots ever written are read, and a mask hides the stale ones.
# - **selective**: drafts go to a scratch space, and only what stands is copied into the cache.
# - **recompute**: it cannot go back. After a rejection it starts from nothing, and computed catches up with committed.
#
# **Predict:** which of the five write the same text as `contiguous`? Give a list of names, itself included.

# %%
KINDS = ["contiguous", "paged", "masked", "selective", "recompute"]


def caching(kind):
    """An engine with another kind of cache."""
    return sd.Engine(
        pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4, cache=kind, block_size=4
    )


def run_with(kind):
    """Mira's run with another kind of cache."""
    return caching(kind).stream(prompt, story, max_new_tokens=40)


# BEGIN SOLUTION
guess = ["contiguous", "paged", "masked", "selective", "recompute"]
# END SOLUTION
strip = run_with("contiguous").finish()
predict("06.p6", guess, lambda: [kind for kind in KINDS if run_with(kind).finish().tokens == strip.tokens])

# %% [markdown]
# The text is the same. The work is not. Look at the cycle that kept one draft of four:

# %%
print("cache       same text  pointer after  keys the next token reads  computed again in the run")
for kind in KINDS:
    run = run_with(kind)
    cycles, reads = [], []
    for c in run:
        cycles.append(c)
        reads.append(run.sequence.cache.span(1))
    at = next(i for i, c in enumerate(cycles) if c.accepted == 1)
    again = sum(c.caught_up for c in cycles)
    same = "yes" if run.result().text == plain.text else "no"
    print(f"{kind:<11} {same:<9}  {cycles[at].target_kv.after:>13}  {reads[at]:>25}  {again:>25}")

# %% [markdown]
# `recompute` has nothing left: it computes 26 tokens again before the next one, and so after every rejection. And `masked`
# would read 29 keys for one more token where 27 count: two stale ones, which a mask has to hide. But is the next pass so
# short? `metered` counts the slots that are read, once as before, and once on a busy machine, where every other cycle may
# draft nothing.

# %%
from specdec_teach.exercises.lesson_05 import metered

for name, busy in (("every cycle drafts", False), ("every other one drafts nothing", True)):
    watched, meter = metered(caching("masked"))
    run = watched.stream(prompt, story, max_new_tokens=40)
    for c in run:
        run.fits = 0 if busy and c.proposed else None
    print(f"{name:<31} {meter.read} slots read, {meter.stale} of them stale")

# %% [markdown]
# A pass over γ + 1 tokens overwrites every stale slot before it reads. Only a short pass behind a rejection meets one. So stale
# keys behind a mask are fine, and a missing mask can hide for a long time.
#
# | what | how | good when | price |
# | --- | --- | --- | --- |
# | rewind | the pointer moves back, the slots are overwritten (`contiguous`) | one request, or "keep" in blocks | room stays taken |
# | free | rewind, and give whole blocks back (`paged`) | many requests share a pool | a table, and bookkeeping |
# | mask | the slots are still read and hidden (`masked`) | shapes must not change, as in compiled graphs | stale keys are read; the mask must be right |
# | copy what is kept | drafts go to a scratch space first (`selective`) | the cache must never hold a draft | every kept token is copied |
# | compute again | throw the state away (`recompute`) | it cannot be rewound and no snapshot was kept; or after a preemption | the pass over all those tokens |
#
# ## Try it yourself
#
# - `block_size=1` and `block_size=16` in the table of Mira's cycles: how many slots are taken and empty in each?
# - Three requests on 12 blocks. Who is preempted first, and who comes back first?
# - Give `EarlyPublisher` the honest pool (leave `parts` away). Is the second text still wrong? Which blocks are listed in
#   vain?
# - Play a run in a pool of your own size:

# %%
roomy = sd.Scheduler(engine, max_batch=2, blocks=16)
for name, text in zip(names, prompts):
    roomy.submit(text, story, max_new_tokens=24, name=name)
roomy.run()
print(roomy.timeline().to_table())

# %% [markdown]
# `p` computes its prompt, `w` waits, `x` loses its blocks, a number counts the tokens of a cycle.
#
# ## Honest limits
#
# - These runs gather the blocks into one piece before each pass reads them. A server has a kernel that reads them in place.
# - Only the target's cache is paged. The draft model's is small and stays in one piece; after a preemption it is computed anew.
# - The hash is 256 bits and taken as unique. A server also puts into it whatever else changes keys and values, such as an
#   adapter or an image.
# - "Same text" after a preemption is up to the last bits of wide and narrow passes. Lesson 13 has the bounds.
#
# ## Can you?
#
# - [ ] find the slot of a position, and count the blocks a pass needs (06.1)
# - [ ] rewind a block table (06.2)
# - [ ] share a partial block without hurting its other holder (06.3)
# - [ ] find a published beginning (06.4)
# - [ ] say which blocks may be published after a rejection, and why not one more (06.5)
#
# ## In 60 seconds
#
# Keys and values live in blocks; a table says which. slot = table[pos // size] · size + pos % size, and the last block is
# partial. A pass takes blocks for γ drafts in advance. A rewind moves the pointer back and may free the whole blocks behind it, or
# keep them; what lies at or past the pointer is never read. Whoever writes to a shared block copies it first. Full blocks
# of committed *and* computed tokens are published under a chained hash, so that others can start from them. Publish earlier,
# and a later request gets somebody else's story. When blocks run out, idle ones are evicted; then the youngest request is
# preempted, and comes back by computing again what it had committed.
#
# **Red flags**: "a block is hashed when it is full" · "the cache holds what is committed" · a rewind that frees the block
# the pointer stands in · a write to a block without a look at its holders · a key made of a block's own tokens only · tests
# with one request.
#
# **Asked in interviews**
#
# <details><summary>A block is full of committed tokens. Why may it still not be published?</summary>
#
# The last of them may be the pending token, the correction or the bonus. It has been drawn and not read. Its slot holds the
# keys of a rejected draft, or nothing.
# </details>
#
# <details><summary>After a rejection no block is freed. Is that a leak?</summary>
#
# No. The request has moved its pointer back and will overwrite the slots. It is a leak only if the blocks are still held when
# the request is over.
# </details>
#
# <details><summary>Is copy on write ever needed for a full block?</summary>
#
# Not while the pointer stays past it: tokens are only written at the pointer. But somebody may rewind into it. Then it is
# open again, and two questions come before a write: does anybody else hold it, and can anybody find it?
# </details>
#
# <details><summary>What does a preempted request lose?</summary>
#
# Keys and values, that is, time. Its text, its random numbers and its place in the queue are kept. What was published and not
# evicted, it finds again.
# </details>
#
# <details><summary>An early publisher passes all your tests. Which one is missing?</summary>
#
# One with two requests. Force a rejection at each draft. Then send a prompt made of the tokens that were proposed, long enough to
# fill the block, and compare it with a cold start, token by token.
# </details>
#
# ## Where to read more
#
# Kwon and others, *Efficient memory management for large language model serving with PagedAttention* (2023), sections 4.1 to
# 4.5: block tables, sharing, preemption.
# Zheng and others, *SGLang: efficient execution of structured language model programs* (2024), section 3, for prefixes kept in
# a tree and evicted by last use.
