# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 35
#     outputs: 30
# ---

# %% [markdown]
# # 11 · Serving
#
# **35 minutes · medium · you need lessons 03 and 05, and lesson 06 for the word *block*. No GPU, no download.**
#
# So far one text was written at a time. A server writes many at once, and each of them wants something else: its own
# temperature, its own seed, its own end. In this lesson you see how they share every forward and stay strangers.
#
# After it you can
#
# - say why a batch is ragged, and what one forward over unequal rows looks like;
# - read a scheduler's timeline, and predict who is let in and who must give way;
# - cut a block at the first end, and count what is left;
# - stream text without ever showing half a character or half a stop string;
# - say which tokens a penalty or a grammar may look at in each row.

# %% [markdown]
# ## Three strangers in one batch
#
# Three requests in one call. Each has its own way of sampling, its own γ and its own limit. The last one also ends at the
# first full stop.

# %%
import specdec_teach as sd
from specdec_teach.exercises import check, predict

pair = sd.load_pair()


def engine_with(**settings):
    """An engine on the story pair."""
    return sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4, **settings)


engine = engine_with()
prompts = ["Mira had a red lantern and", "One day", "Once upon a time there was a"]
greedy = sd.Sampling.greedy()
ways = [sd.Sampling(temperature=0.8, seed=8), greedy, sd.Sampling(temperature=0.8, seed=3, stop=(".",))]
gammas, caps = [4, 2, 6], [24, 16, 40]

batch = engine.generate(prompts, ways, gamma=gammas, max_new_tokens=caps)

for result in batch:
    print(repr(result.text), "·", result.finish_reason)
    print("    accepted", [cycle.accepted for cycle in result.trace.cycles])

# %% [markdown]
# Read the lists from top to bottom: in one and the same cycle the rows accept different numbers of drafts. Such a batch is
# **ragged**. And the rows end when they end: after two cycles the third row is done.
#
# The claim of this lesson: **every row gets the text it would get alone.** Check it.

# %%
for row, result in enumerate(batch):
    alone = engine.generate(prompts[row], ways[row], gamma=gammas[row], max_new_tokens=caps[row])
    print(f"row {row}: {len(result.tokens)} tokens, the same as alone: {result.tokens == alone.tokens}")

# %% [markdown]
# ## One rollback for all?
#
# After a cycle each cache rewinds to what its row has kept. Unequal numbers are a nuisance on a GPU. It would be simpler
# to take *one* number of accepted drafts for the whole batch and rewind all caches alike. The **smallest** seems safe: then no
# rejected draft is left in any cache.
#
# **Predict:** the rows keep the tokens they have emitted, but every cache keeps only as many drafts as the *least* lucky row
# accepted. Is the next token of every row still right? "yes" or "no".
#
# We take it from real cycles of a greedy batch. K and V of a slot depend on the tokens up to there and on nothing else. So what
# a cache holds can be written down as tokens: we feed the target exactly those, and look at its favourite.

# %%
import torch

traces = [result.trace for result in engine.generate(prompts, greedy, max_new_tokens=40)]
together = min(len(trace.cycles) for trace in traces) - 1


def favourite(tokens):
    return int(pair.target(input_ids=torch.tensor([tokens])).logits[0, -1].argmax())


def reads(index, length):
    """Per row: what the target reads next, and whether its favourite is the right one.

    `length` makes one number of all rows' accepted counts; None lets each row keep its own.
    """
    cycles = [trace.cycles[index] for trace in traces]
    counts = [cycle.accepted for cycle in cycles]
    found = []
    for trace, cycle in zip(traces, cycles):
        text = [*trace.prompt, *(token for one in trace.cycles for token in one.emitted)]
        keep = cycle.accepted if length is None else length(counts)
        tokens = [*text[: cycle.committed_before], *cycle.proposed[:keep], cycle.emitted[-1]]
        right = text[: cycle.committed_after]
        found.append((pair.tokenizer.decode(tokens[-6:]), tokens == right, favourite(tokens) == favourite(right)))
    return found


def all_right(length):
    return "yes" if all(right for index in range(together) for _, _, right in reads(index, length)) else "no"


# BEGIN SOLUTION
guess = "no"
# END SOLUTION
predict("11.p1", guess, lambda: all_right(min))

# %%
index = 3
print("accepted:", [trace.cycles[index].accepted for trace in traces])
for name, length in (("own", None), ("min", min), ("max", max)):
    for row, (text, _, right) in enumerate(reads(index, length)):
        print(f"{name}  row {row}  …{text!r:<38} next token right: {right}")

# %% [markdown]
# With *min*, words are missing: the text has them, the cache does not, and the pending token is put right behind the hole.
# With *max*, rows 0 and 2 keep drafts that were rejected: a hat, a hut near the market. Now and then the favourite is
# right by luck. Over all cycles:

# %%
for name, length in (("own", None), ("min", min), ("max", max)):
    rows = [found for index in range(together) for found in reads(index, length)]
    other, wrong = sum(not same for _, same, _ in rows), sum(not right for _, _, right in rows)
    print(f"{name}  of {len(rows)} rows {other:2d} read another text, {wrong} get another next token")

# %% [markdown]
# This is the control that must fail: only *own* has two zeros. (One could also give the tokens back and go on from
# the smallest number. That is right, and throws accepted drafts away in every cycle.)
#
# ## One forward for unequal rows
#
# Three pointers, three feeds, three lengths. And yet there is *one* forward of the target for all. A hook on the model shows what
# it is given.
#
# **Predict:** alone, the three requests take 8, 7 and 3 target forwards, each with one for its prompt. How many does the batch
# take?


# %%
def forwards():
    """What the target is given in each forward of the batch."""
    seen, server = [], engine_with(decoder="hf")
    hook = pair.target.register_forward_pre_hook(lambda model, args, given: seen.append(given), with_kwargs=True)
    server.generate(prompts, ways, gamma=gammas, max_new_tokens=caps)
    hook.remove()
    return seen


# BEGIN SOLUTION
guess = 8
# END SOLUTION
predict("11.p2", guess, lambda: len(forwards()))

# %% [markdown]
# As many as the longest of them. Here is the first cycle's forward, as the model got it: `k` is a key from a cache, `n` a
# new token, `·` is padding that the attention mask hides.

# %%
given = forwards()[1]
width = given["input_ids"].shape[1]
for mask, positions in zip(given["attention_mask"].tolist(), given["position_ids"].tolist()):
    past = "".join("k" if real else "·" for real in mask[:-width])
    new = "".join("n" if real else "·" for real in mask[-width:])
    print(f"{past}|{new}   positions {positions[0]} … {positions[new.count('n') - 1]}")

# %% [markdown]
# Two paddings. On the **left**, so that all new tokens begin in one column. On the **right**, since γ differs: row 1 feeds
# 3 tokens, row 2 feeds 7. Each row has **positions of its own**: they count from its own first token, padding is
# no position. One common list of positions is the classic mistake; the short rows then turn to garbage.
#
# The draft model is called in the same manner, once for all rows. After the forward every row goes its own way: its own
# p, its own dice, its own verdict, its own rollback.
#
# ## A place that never stays empty
#
# In a batch that starts together, a row that ends leaves its place empty until the last one is done. **Continuous
# batching** fills it at once: after every step somebody new may come in. That is what a scheduler is for.

# %%
scheduler = sd.Scheduler(engine, max_batch=2, blocks=40)
for name, prompt, cap in (
    ("long", prompts[0], 40),
    ("short", prompts[1], 8),
    ("next", prompts[2], 12),
    ("last", prompts[1], 20),
):
    scheduler.submit(prompt, greedy, max_new_tokens=cap, name=name)
scheduler.run()

print(scheduler.timeline().to_table())

# %% [markdown]
# A line is a request, a column a step. `p` computes its prompt, a digit is a cycle and counts the tokens it emitted, `w` waits,
# `.` is over. There are two places. When `short` ends, `next` moves in, and `long` never notices.
#
# `run()` steps until nothing is left. `step()` runs one step, and `submit` and `cancel` may come between any two of them.
#
# ### The one rule for feeding
#
# A long prompt would hold everybody up for one step. So it is fed in **chunks**. No special code is needed: there are
# tokens that are committed, and tokens that are computed, and each step *computed catches up with committed*. When nothing is
# left but the pending token, the request is ready for a cycle.

# %%
tale = (
    "Once upon a time there was a girl called Mira. Mira had a red lantern and a best friend named Bo. Wherever Mira "
    "went, the lantern went too."
)
scheduler = sd.Scheduler(engine, max_batch=2, blocks=40, chunk=8)
scheduler.submit("One day", greedy, max_new_tokens=24, name="short")
scheduler.submit(tale, greedy, max_new_tokens=12, name="tale")
scheduler.run()

timeline = scheduler.timeline()
print(timeline.to_table())
print()
for step in timeline.steps[:6]:
    row = next(row for row in step.rows if row.request == 1)
    print(f"step {step.index}  {row.state:<8} fed {row.fed}   computed {row.computed:2d} of {row.committed} committed")

# %% [markdown]
# The story goes on in the upper line while the prompt is computed in the lower one. The same rule serves a request that
# has lost its blocks and comes back. That happens next.
#
# ## Too few blocks
#
# K and V live in blocks of one pool (lesson 06). The scheduler keeps three promises:
#
# - **Nobody overtakes.** Requests are let in by age. If the oldest that waits does not fit, those behind it wait too.
# - A request is let in if there is a place, room for all it has committed, and one block to spare for each that runs.
# - **The youngest gives way.** If a request cannot grow by even one token, the youngest that runs loses its blocks and
#   waits in its old place in the queue. It keeps its text, and computes it again later.
#
# `crowd()` is a small example, without drafts, so that you can count along: one token a step. 7 blocks of 4 tokens, 3 places.
# a, b, c and d come with prompts of 5, 6, 12 and 2 tokens.
#
# **Predict:** who is let in at the first step? Give a list of names, such as `["a", "d"]`.

# %%
from specdec_teach.exercises.lesson_11 import crowd, recites, states

# BEGIN SOLUTION
guess = ["a", "b"]
# END SOLUTION
predict("11.p3", guess, lambda: [name for name, state in states(crowd()).items() if state != "waiting"])

# %% [markdown]
# a and b take two blocks each, so 3 of 7 are left. c needs exactly 3, and none would be to spare. d would fit with ease: a
# place is free, it needs one block, and two remain for a and b. It waits all the same. If small requests could slip past, a
# large one might wait for ever.
#
# ### Exercise 11.1: the next step
#
# Nine steps later:

# %%
scheduler = crowd(9)
for request in scheduler.live:
    committed, computed = len(request.stream.sequence.tokens), request.cache.pointer
    print(f"{request.name}  committed {committed:2d}  computed {computed:2d}  blocks {len(request.cache.table)}")
print("free blocks:", scheduler.pool.blocks - scheduler.blocks_in_use)

# %% [markdown]
# What does each of the four do in the coming step? The words are "cycle", "prefill", "preempted" and "waiting".

# %%
# BEGIN SOLUTION
coming = {"a": "cycle", "b": "preempted", "c": "waiting", "d": "waiting"}
# END SOLUTION
check("11.1", coming)

# %% [markdown]
# <details><summary>Hint 1: who needs a block?</summary>
#
# A cycle without drafts computes one token: the pending one. Where will it be written? Position 12 is the first of the fourth
# block.
# </details>
# <details><summary>Hint 2: who has to give one?</summary>
#
# Not the one that asks. The youngest that runs.
# </details>
# <details><summary>Hint 3: and the freed blocks?</summary>
#
# They come free in the middle of the step, after the door was opened. And c would still be before d.
# </details>
#
# The whole run, with `x` for the step in which a request loses its blocks:

# %%
scheduler.run()
print(scheduler.timeline().to_table())

# %% [markdown]
# c and d wait long. That is the price of the first promise. Note b's return: one `p`, and it goes on where it was.
#
# ## Fewer drafts, another text?
#
# Before the scheduler takes blocks from anybody, it asks for less: drafts need slots too, so **γ shrinks to what fits**, down to 0. Does
# that change what is written?
#
# Three requests, once in a pool with plenty of blocks and once in a pool of 9. We do it under two rules: the standard one,
# and `coupled` from lesson 04, where the noise belongs to positions.
#
# **Predict:** under which of the rules are all three texts the same in both pools? Give a list.

# %%
from functools import cache

jobs = {
    "greedy": (prompts[0], greedy),
    "sampled": (prompts[0], sd.Sampling(temperature=0.8, seed=8)),
    "young": ("One day Tom went to the sea.", sd.Sampling(temperature=0.8, seed=8)),
}


@cache
def serve(verify, blocks):
    """The requests and the timeline after a run in a pool of so many blocks."""
    scheduler = sd.Scheduler(engine_with(verify=verify, block_size=8), max_batch=3, blocks=blocks)
    requests = [scheduler.submit(*job, max_new_tokens=32, name=name) for name, job in jobs.items()]
    scheduler.run()
    return requests, scheduler.timeline()


def same_texts(verify):
    small, large = serve(verify, 9)[0], serve(verify, 40)[0]
    return [one.result.tokens == other.result.tokens for one, other in zip(small, large)]


# BEGIN SOLUTION
guess = ["coupled"]
# END SOLUTION
predict("11.p4", guess, lambda: [verify for verify in ("rejection", "coupled") if all(same_texts(verify))])

# %%
for verify in ("rejection", "coupled"):
    requests, timeline = serve(verify, 9)
    print(f"{verify}, 9 blocks")
    print(timeline.to_table())
    for request, same in zip(requests, same_texts(verify)):
        drafts = "".join(str(cycle.gamma) for cycle in request.trace.cycles)
        print(f"{request.name:<8} γ {drafts:<17}same text as with plenty: {same}")
    print()

# %% [markdown]
# Each digit behind γ is a cycle. Under the standard rule `young` once drafted nothing, and got another text. A cycle with fewer
# drafts draws fewer numbers, so everything behind it meets other numbers. `greedy` had its γ cut to 2 for a cycle as well, and
# does not care: it draws none. Coupled looks them up by position. Those two always keep their text. (The last cycles of a
# request draft less in any pool: there is less left to say.)
#
# Is the other text a *wrong* one? No. Each cycle follows the target whatever γ is, so the **law** of the text is the same. Here
# it is for every text of three tokens, with γ = 1 and γ = 3. The two runs of one seed differ, the two laws do not.

# %%
P = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.5, 0.1, 0.4]], dtype=torch.float64)
Q = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.5, 0.1], [0.3, 0.4, 0.3]], dtype=torch.float64)
tiny = [
    sd.Engine(sd.testing.TabularLM(P.log()), drafter=sd.ModelDrafter(sd.testing.TabularLM(Q.log())), gamma=gamma)
    for gamma in (1, 3)
]
for one in tiny:
    print(f"γ = {one.gamma}  seed 1 gives", one.generate([0], sd.Sampling(seed=1), max_new_tokens=12).tokens)
one, three = (sd.exact_law(engine, [0], 3) for engine in tiny)
print("all 27 laws equal to 12 digits:", max(abs(one[text] - three[text]) for text in one) < 1e-12)

# %% [markdown]
# So *same seed, same text* needs a γ that nothing shrinks, or greedy, or coupled.
#
# ## An end in the middle
#
# A cycle brings several tokens at once, and the end token can be any of them. Looking only at the *last* token of the block misses
# it, and the text goes on behind its end.
#
# To see it at every place, let the target draft for itself: then every draft stands. We declare the 1st, 2nd, … token of the
# greedy story to be the end token.

# %%
plain = engine.generate(prompts[0], greedy, max_new_tokens=9, speculate=False)
selfish = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.target), tokenizer=pair.tokenizer, gamma=4)

for place, token in enumerate(plain.tokens, start=1):
    result = selfish.generate(prompts[0], sd.Sampling(temperature=0.0, eos_token_id=token), max_new_tokens=20)
    last = result.trace.cycles[-1]
    print(
        f"end at token {place}: {len(result.tokens)} tokens, {result.finish_reason}   last cycle: "
        f"{len(last.proposed)} drafted, {last.accepted} accepted, {last.stop_cut} cut, then {last.last_kind}"
    )

# %% [markdown]
# The text always has as many tokens as it should. Look at the counts of the last cycle. The drafts behind the end are
# **cut**: neither accepted nor rejected. And if a draft was the end, there is no correction and no bonus.
#
# Three more ends, all cut in the same way: a stop string, `max_new_tokens`, and a full context. The first in token order wins.
# If an end token is also the last one allowed, it is an end token.
#
# ### Exercise 11.2: count by hand
#
# γ is 5. The target agrees with drafts 1, 2, 3 and 4, and not with draft 5. Draft 3 is the end token. 20 more tokens would be
# allowed. What are `emitted`, `accepted`, `stop_cut` and `finish_reason`?

# %%
# BEGIN SOLUTION
counts = (3, 3, 2, "eos")
# END SOLUTION
check("11.2", counts)

# %% [markdown]
# <details><summary>Hint 1: emitted</summary>
#
# Write the block down, d₁ d₂ d₃ d₄ and a correction, and draw a line behind d₃.
# </details>
# <details><summary>Hint 2: accepted</summary>
#
# Drafts that are kept. d₃ is kept: the end token belongs to `tokens`, though not to `text`.
# </details>
# <details><summary>Hint 3: cut</summary>
#
# d₄ would have stood and d₅ would have fallen. Both lie behind the line, and neither counts as judged.
# </details>
#
# ### Exercise 11.3: cut
#
# `block` is what a cycle wants to emit, `remaining` how many tokens are still allowed. Return the tokens that are kept, and
# "eos", "length" or None.


# %%
def cut(block: list[int], eos: int, remaining: int) -> tuple[list[int], str | None]:
    """The kept tokens, and why the text ends with them, if it does."""
    # BEGIN SOLUTION
    for place, token in enumerate(block[:remaining], start=1):
        if token == eos:
            return block[:place], "eos"
    return block[:remaining], "length" if len(block) >= remaining else None
    # END SOLUTION


check("11.3", cut)

# %% [markdown]
# <details><summary>Hint 1: the order</summary>
#
# Go through the block from the left and stop at the first end of any kind.
# </details>
# <details><summary>Hint 2: both at once</summary>
#
# At each token ask for the end token first and for the limit second.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# Only `block[:remaining]` matters. If it holds no end token, the reason is "length" when it has `remaining` tokens, else
# None.
# </details>
#
# ## What a reader may see
#
# A stream shows text while it grows, and what has been shown cannot be taken back. Two things must never be shown: **half a
# character**, and **the beginning of a stop string**. The target below recites a line, so that we know what comes. γ is 2.

# %%
tokenizer = pair.tokenizer
line = tokenizer(" lit the 🏮 at the café — it shone.").input_ids
reciter = sd.Engine(
    recites(line, after=len(tokenizer("Mira").input_ids), vocab=len(tokenizer)),
    drafter=sd.ScriptedDrafter(line),
    tokenizer=tokenizer,
    gamma=2,
)

for cycle in reciter.stream("Mira", greedy, max_new_tokens=len(line)):
    tokens = [tokenizer.decode([token]) for token in cycle.emitted]
    print(f"{tokens!s:<26} shows {cycle.text!r}")

# %% [markdown]
# The lantern is four tokens, one for each of its bytes, and each alone decodes to `�`. Cycle 1 shows nothing at all: it ends
# inside the character.
#
# Now with a stop string, and through a scheduler. `pieces()` yields a request's text while the scheduler serves everybody.

# %%
scheduler = sd.Scheduler(reciter, max_batch=2, blocks=8)
request = scheduler.submit("Mira", sd.Sampling(temperature=0.0, stop=("— it shone",)), max_new_tokens=len(line))
print(list(request.pieces()), request.result.finish_reason)

request = scheduler.submit("Mira", sd.Sampling(temperature=0.0, stop=("— it rained",)), max_new_tokens=len(line))
print(list(request.pieces()), request.result.finish_reason)

# %% [markdown]
# In the first run nothing behind `café ` was ever shown. In the second the same letters were held back, and given out as soon as
# they could no longer become the stop string.
#
# Stop strings are a matter of *text*, not of tokens. They can begin in one block and end in the next, or lie inside a single token:

# %%
for stop in ("t f", "d named Bo", "end"):
    stream = engine.stream(prompts[0], sd.Sampling(temperature=0.0, stop=(stop,)), max_new_tokens=20)
    blocks = [[tokenizer.decode([token]) for token in cycle.emitted] for cycle in stream]
    print(f"{stop!r:<13} {blocks}")
    print(f"{'':<13} text {stream.result().text!r}")

# %% [markdown]
# `tokens` includes the token that completes the stop string. `text` ends before the string.
#
# ### Exercise 11.4: hold back
#
# A new `piece` of text comes; `held` is what was held back before. Return what may be shown now, what is held back, and
# whether the text has ended. When it has, show what stands before the stop string and hold nothing.


# %%
def show(held: str, piece: str, stop: str) -> tuple[str, str, bool]:
    """What to show, what to hold back, and whether the stop string is complete."""
    # BEGIN SOLUTION
    text = held + piece
    if stop in text:
        return text[: text.index(stop)], "", True
    for size in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:size]):
            return text[:-size], text[-size:], False
    return text, "", False
    # END SOLUTION


check("11.4", show)

# %% [markdown]
# <details><summary>Hint 1: put together</summary>
#
# Look at `held + piece` as a whole. First ask whether the stop string is in it.
# </details>
# <details><summary>Hint 2: what could begin it</summary>
#
# Hold back the longest end of the text that is a beginning of the stop string.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# Try sizes from `len(stop) - 1` down to 1: does the text end with `stop[:size]`? If none fits, show everything.
# </details>
#
# ## Row i sees the drafts before it
#
# Penalties depend on what has been said. In a cycle that is different for every row: the row that judges dᵢ₊₁ must see the
# **committed tokens and d₁ … dᵢ**, as if they had been written one by one. If all rows look at the committed tokens only, the first
# row is right and the others are blind.
#
# A target that likes token 0 best, then 1, then 2. Each time a token is said, 1 is taken off its logit. The draft says 0, 0, 0.
# To break the engine, we put another part into it: a policy that hides the drafts from every row.

# %%
from dataclasses import replace

from specdec_teach.policy import Policy


class Blind:
    """Every row is told the committed tokens and no drafts."""

    def __init__(self, sampling, history):
        self.sampling, self.honest = sampling, Policy(sampling, history)
        self.legal, self.rows = self.honest.legal, self.honest.rows

    def scores(self, logits_RV, prefix, drafts, parents=None):
        return torch.cat([self.honest.scores(row_V[None], prefix, ()) for row_V in logits_RV])


def with_policy(honest, policy):
    return honest.variant(parts=replace(honest.parts, policy=policy))


likes = sd.testing.TabularLM(torch.tensor([2.0, 1.5, 1.2, 0.0]))
monotone = sd.Engine(likes, drafter=sd.ScriptedDrafter([0] * 12), gamma=3)
penalised = sd.Sampling(temperature=0.0, frequency_penalty=1.0)
print("plain   ", monotone.generate([3], penalised, max_new_tokens=8, speculate=False).tokens)
print("honest  ", monotone.generate([3], penalised, max_new_tokens=8).tokens)
print("blind   ", with_policy(monotone, Blind).generate([3], penalised, max_new_tokens=8).tokens)

# %% [markdown]
# Without drafts the penalty works. With drafts and honest rows the tokens are the same. Blind rows let the same token through again and
# again, until the cycle is over. The same on the story pair, where no pair of neighbouring tokens may come twice:

# %%
never_twice = sd.Sampling(temperature=0.0, no_repeat_ngram_size=2)
plain = engine.generate(prompts[0], never_twice, max_new_tokens=40, speculate=False)
for name, one in (("honest", engine), ("blind", with_policy(engine, Blind))):
    result = one.generate(prompts[0], never_twice, max_new_tokens=40)
    print(f"{name:<7} same as plain: {result.tokens == plain.tokens!s:<6} …{result.text[66:120]!r}")

# %% [markdown]
# Note that a test *without* a penalty could never see this.
#
# ### Exercise 11.5: the prefix of each row
#
# Return what each of the γ + 1 rows sees.


# %%
def rows(committed: list[int], drafts: list[int]) -> list[list[int]]:
    """The tokens before each row, from the first row to the bonus row."""
    # BEGIN SOLUTION
    return [committed + drafts[:index] for index in range(len(drafts) + 1)]
    # END SOLUTION


check("11.5", rows)

# %% [markdown]
# <details><summary>Hint 1: the first row</summary>
#
# It judges d₁, so it must not see it. It sees `committed`.
# </details>
# <details><summary>Hint 2: the last row</summary>
#
# It gives the bonus, and sees all drafts.
# </details>
# <details><summary>Hint 3: in between</summary>
#
# Row i sees `committed + drafts[:i]`.
# </details>
#
# ### A grammar has a memory
#
# A grammar says which tokens may come next. Its matcher is a little machine that moves along with every token. Drafts move it
# forward, row by row; a rejection must move it **back**, exactly like a cache.
#
# The control is a matcher that is never moved back: what it was fed stays fed.

# %%
import re


class NeverBack(Blind):
    """Rejected drafts stay in what the matcher has read."""

    fed = None

    def scores(self, logits_RV, prefix, drafts, parents=None):
        self.fed = list(prefix) if self.fed is None else [*self.fed, prefix[-1]]
        scores_RV = self.honest.scores(logits_RV, self.fed, drafts)
        self.fed += drafts
        return scores_RV


counting = "( (one|two|three|four|five|six),)+ seven\\."
counts_up = sd.Sampling(temperature=0.8, seed=1, grammar=sd.Grammar.regex(counting))
for name, one in (("honest", engine), ("never back", with_policy(engine, NeverBack))):
    text = one.generate("Mira counted:", counts_up, max_new_tokens=24).text
    print(f"{name:<11} in the language: {re.fullmatch(counting, text) is not None!s:<6} {text!r}")

# %% [markdown]
# The draft model's q is put through the same grammar, so it drafts nothing forbidden. A drafter that copies knows no grammar. Its
# drafts are certain, so those that the grammar forbids can be dropped before the target runs; a draft that was drawn could not
# (lesson 08).
#
# A processor of your own may have a memory too, and the engine cannot move it back. So it tries the processor out and refuses it by
# name:


# %%
class NotAgain:
    """Forbids whatever it has met at the end of a prefix, and remembers it."""

    def __init__(self):
        self.met = set()

    def __call__(self, ids, logits):
        self.met.add(int(ids[0, -1]))
        logits[:, list(self.met)] = -torch.inf
        return logits


try:
    engine.generate(prompts[0], sd.Sampling(processors=(NotAgain(),)))
except sd.SpecDecError as error:
    print(error)

# %% [markdown]
# ## What the numbers mean
#
# `result.stats` counts. Each number has one meaning:
#
# | number | counts |
# | --- | --- |
# | `drafted` | tokens really proposed; γ may have shrunk |
# | `accepted` | drafts that were kept; a bonus is no draft |
# | `stop_cut` | drafts behind an end |
# | `emitted` | all tokens that were kept |
# | `acceptance_rate` | accepted / (drafted − stop_cut) |
# | `tokens_per_cycle` | emitted / cycles |
#
# `accepted` is the length of a *prefix*. A draft behind a rejection may well be the favourite of its row, but that row read a
# text that does not exist. Here is a real cycle where adding up such ticks would give 3:

# %%
cycle = traces[0].cycles[5]
for draft in cycle.decisions:
    print(f"{traces[0].pieces[draft.token]!r:<8} favourite of its row: {draft.p == 1.0!s:<6} {draft.status}")
print("accepted:", cycle.accepted)

# %% [markdown]
# **Predict:** a plain run, `speculate=False`. What is its acceptance rate: 0, 1 or "none"?


# %%
def plain_rate():
    rate = engine.generate(prompts[0], greedy, max_new_tokens=8, speculate=False).stats.acceptance_rate
    return "none" if rate is None else rate


# BEGIN SOLUTION
guess = "none"
# END SOLUTION
predict("11.p5", guess, plain_rate)

# %% [markdown]
# Nothing was tried, so nothing failed. 0 would pull down an average to which this run has nothing to say.
#
# ## All of it at once
#
# Six requests, a pool of 10 blocks, 4 places. One is greedy, one sampled, one has a penalty, one a grammar, one a stop string; and one
# is cancelled after five steps, in the middle of its text. The rule is `coupled`, so the pool may shrink γ as it likes.

# %%
served = {
    "greedy": (prompts[0], greedy, 32),
    "sampled": (prompts[0], sd.Sampling(temperature=0.8, seed=8), 32),
    "cancelled": (prompts[2], greedy, 48),
    "penalised": (prompts[0], sd.Sampling(temperature=0.0, repetition_penalty=1.3), 24),
    "grammar": ("Mira counted:", counts_up, 24),
    "stop": (prompts[0], sd.Sampling(temperature=0.8, seed=2, stop=(". It",)), 40),
}
server = engine_with(verify="coupled", block_size=8)
scheduler = sd.Scheduler(server, max_batch=4, blocks=10)
requests = {
    name: scheduler.submit(prompt, how, max_new_tokens=cap, name=name) for name, (prompt, how, cap) in served.items()
}
for _ in range(5):
    scheduler.step()
scheduler.cancel(requests["cancelled"])
scheduler.run()

print(scheduler.timeline().to_table())
print("blocks still held:", scheduler.blocks_in_use)

# %% [markdown]
# And the proof: each request again, alone, with the whole machine for itself.

# %%
for name, (prompt, how, cap) in served.items():
    result, alone = requests[name].result, server.generate(prompt, how, max_new_tokens=cap)
    same = alone.tokens[: len(result.tokens)] == result.tokens if name == "cancelled" else alone.tokens == result.tokens
    print(
        f"{name:<10} {requests[name].state:<10} {result.finish_reason!s:<7} as alone: {same!s:<6} …{result.text[-32:]!r}"
    )

# %% [markdown]
# **Whoever shares its forwards, whatever it had to give up on the way, each request says what it says alone.** The cancelled
# one is a beginning of what it would have said.
#
# The same run as a picture: requests by steps, and below them whose blocks the pool holds. Step through it. Find the two
# steps in which `penalised` loses its blocks, and look where they go.

# %%
scheduler.timeline().show()

# %% [markdown]
# How it came back, in numbers. Its full blocks had stayed in the pool under the name of their tokens (lesson 06), so it
# took over what nobody had needed meanwhile. The rest was computed again.

# %%
for step in scheduler.timeline().steps:
    for row in step.rows:
        if row.request == requests["penalised"].number and (row.state == "preempted" or row.adopted):
            print(
                f"step {step.index:2d}  {row.state:<9}  taken over {row.adopted:2d}  computed again {row.fed}  "
                f"committed {row.committed} tokens"
            )

# %% [markdown]
# ## Try it yourself
#
# - Seeds are per request. Put the rows of the first batch in another order, or take one away. Does any text change? Then
#   leave out a seed: does a neighbour notice?
# - In the last run, give the pool 40 blocks. How many steps are left, and which `w` stay?
# - Set `chunk=8` there, and a prompt of 60 tokens for `greedy`. Who waits for whom?
# - Cancel `greedy` instead, in the cell below, at a step of your choice. Are the blocks free in the same step?

# %%
scheduler = sd.Scheduler(server, max_batch=4, blocks=10)
requests = {
    name: scheduler.submit(prompt, how, max_new_tokens=cap, name=name) for name, (prompt, how, cap) in served.items()
}
scheduler.step()
scheduler.step()
print("held before:", scheduler.blocks_in_use)
scheduler.cancel(requests["greedy"])
print("held after: ", scheduler.blocks_in_use)
scheduler.run()
print(scheduler.timeline().to_table())

# %% [markdown]
# ## Honest limits
#
# - The same text as alone: in float32, up to the last bits. A wider forward may round differently, and where two tokens
#   are nearly tied the favourite can flip. Lesson 13 says how near is near.
# - Under the standard rule, a request with a temperature keeps its text only while nothing shrinks its γ. Its law it always
#   keeps.
# - This scheduler is fair and simple. Real ones also weigh priorities and deadlines, and may move blocks to other memory
#   instead of computing again.
# - Padding costs: the forward is as wide as its widest row. Kernels that take unequal rows as they are need no padding.
# - Nothing here says that it is *faster*. Large batches leave less idle arithmetic for drafts (lesson 10).
#
# ## Can you?
#
# - [ ] say what goes wrong with one rollback length, for the smallest and for the largest count (11.p1)
# - [ ] draw the two paddings and the positions of a ragged forward (11.p2)
# - [ ] say who is let in, who gives way, and why (11.p3, 11.1)
# - [ ] say when a shrunk γ changes the text, and that it never changes the law (11.p4)
# - [ ] count and cut a block with an end in the middle (11.2, 11.3)
# - [ ] stream without leaking a stop string (11.4)
# - [ ] write the prefix of each row, and name the test that catches blind rows (11.5)
# - [ ] define the acceptance rate, with its two special cases (11.p5)
#
# ## In 60 seconds
#
# In a batch each row accepts its own number of drafts, so each cache has its own pointer and rewinds by its own length. One forward
# serves all: padded left to line up the new tokens, padded right where γ differs, with positions per row. A scheduler fills
# places as they come free. Prefill, chunks and coming back are one rule: computed catches up with committed. The oldest is let in
# first, the youngest gives way, and γ shrinks before anybody loses a block. A shrunk γ keeps the law; greedy and coupled
# keep the text too. A block is cut at the first end; what lies behind it is neither shown nor counted. What could still become
# a stop string, or is half a character, is held back. Row i sees the committed tokens and d₁ … dᵢ, in penalties and grammars alike,
# and a matcher rolls back like a cache.
#
# **Red flags**: `min(accepted)` over the batch · one position vector for all rows · `if tokens[-1] == eos` · penalties computed
# once a cycle · a matcher without a rollback · a smaller request let in first "because it fits" · `accepted = flags.sum()` ·
# an acceptance rate of 0 for a run without drafts · `decode(token)` sent to the client token by token.
#
# **Asked in interviews**
#
# <details><summary>Two rows accept 4 and 0 of 4 drafts. What do their caches do?</summary>
#
# With L the committed tokens before the cycle, both have written up to L + 4. The first rewinds by 0, the second by 4. Each then stands
# at its own committed length minus one: the last token, bonus or correction, is pending.
# </details>
#
# <details><summary>Why is rewinding all rows by the longest rollback not safe?</summary>
#
# No rejected draft stays, but rows that accepted more lose the keys of tokens they have already emitted. Unless these are fed
# again, the next token is put behind a hole. If they are fed again, it is right and wasteful.
# </details>
#
# <details><summary>A user says: same seed, same prompt, another answer under load. A bug?</summary>
#
# Not necessarily. If the pool was short, γ shrank, a cycle drew fewer numbers, and all later draws moved. The law is the same. Who
# needs the same text takes greedy or coupled, or a γ that is never shrunk.
# </details>
#
# <details><summary>Where do you test for the end token?</summary>
#
# At every kept token of the block, in order, before anything is streamed or counted. The test case puts the end at each draft
# index in turn.
# </details>
#
# <details><summary>A repetition penalty seems to work, yet words repeat now and then. What do you suspect?</summary>
#
# Rows that see the committed tokens only. Within a block nothing is penalised. Compare greedy with the penalty, with and without
# speculation: they must agree token by token.
# </details>
#
# <details><summary>Why not let a small request slip in when the big one at the front does not fit?</summary>
#
# Small ones may keep coming, and the big one would never find enough blocks. Fairness costs some idle blocks and gives everybody an
# end to the waiting.
# </details>
#
# ## Where to read more
#
# Yu and others, *Orca: a distributed serving system for transformer-based generative models* (2022), section 3, for continuous batching.
# Kwon and others, *Efficient memory management for large language model serving with PagedAttention* (2023), section 4.5, for preemption.
# Agrawal and others, *Taming throughput-latency tradeoff in LLM inference with Sarathi-Serve* (2024), section 4, for chunked prefill.
# Qian and others, *BASS: batched attention-optimized speculative sampling* (2024), for ragged speculative batches.
# Dong and others, *XGrammar: flexible and efficient structured generation engine for large language models* (2024), for matchers that roll back.
