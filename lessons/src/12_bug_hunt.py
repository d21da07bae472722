# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 60
#     outputs: 30
# ---

# %% [markdown]
# # 12 · Bug hunt
#
# **60 minutes · hard · you need lessons 03, 04 and 05; lesson 06 for the last engines. No GPU, no download.**
#
# Eighteen broken engines are in this package. Each is the honest one with a single component swapped, and each runs to the
# end. We take six of them apart together. The other twelve are yours.
#
# After it you can
#
# - say what a record, a law, a forced rejection, a fresh prefill, a self-draft and a second call each see, and what each misses;
# - diagnose an engine from its record and a few tests;
# - write a test that finds twelve mistakes and accuses no honest engine;
# - read a step log, and say whether a rejected draft's keys and values leaked, where, and which forced rejection proves it.

# %% [markdown]
# ## Two engines, one is broken
#
# The same prompt, seed and settings. Read both texts.

# %%
from textwrap import fill

import specdec_teach as sd
from specdec_teach.exercises import check, predict

pair = sd.load_pair()
engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
prompt = "Mira had a red lantern and"
story = sd.Sampling(temperature=0.8, seed=8)

two = {"left": engine, "right": sd.faults.inject(engine, "engine_q")}
runs = {name: one.generate(prompt, story, max_new_tokens=48) for name, one in two.items()}
for name, run in runs.items():
    judged = [d for c in run.trace.cycles for d in c.decisions if d.status in ("accepted", "rejected")]
    print(fill(f"{name}: {prompt}{run.text}", 100, subsequent_indent="   "))
    print(f"   {sum(d.accepted for d in judged)} of {len(judged)} judged drafts accepted")
    print(f"   broken invariants in its record: {len(sd.invariants.check(run.trace))}")
    print()

# %% [markdown]
# Both are fluent. Both have a clean record. One of them accepts every single draft.
#
# **Predict:** which engine is broken? `"left"` or `"right"`. The engine answers with the exact distribution of the first token
# over a tiny target that says p = [.6, .3, .1].

# %%
import torch

p, q = [0.6, 0.3, 0.1], [0.2, 0.5, 0.3]


def over_tables(engine, p=p, q=q, gamma=1):
    """This kind of engine, over a target that always says p and a draft that always says q."""
    target, draft = (sd.testing.TabularLM(torch.tensor(row, dtype=torch.float64).log()) for row in (p, q))
    drafter = engine.drafter.over(draft)
    return sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=gamma).variant(
        drafter=drafter, rule=engine.rule, parts=engine.parts
    )


def first_token(engine):
    law = sd.exact_law(over_tables(engine), [0], 1)
    return [round(law.get((token,), 0.0), 3) for token in range(len(p))]


# BEGIN SOLUTION
guess = "right"
# END SOLUTION
predict("12.p1", guess, lambda: next(name for name, one in two.items() if first_token(one) != p))

# %%
for name, one in two.items():
    print(f"{name:<5}  {first_token(one)}   the target says {p}")

# %% [markdown]
# It takes back every draft that the draft model itself found unlikely, *after* it has drawn it. So it looks at the dice and
# throws some away. What is left agrees with the target more often. But now token 1, the draft's favourite, comes with .45
# instead of .3.
#
# No invariant is broken. Yet the record holds a trace of it. Here are both runs on one clock. Look at cycle 0: how many drafts
# does each engine offer, and how far does its draft's cache go?

# %%
runs["left"].trace.compare(runs["right"].trace, ("left", "right")).show()

# %%
for name, run in runs.items():
    cycle = run.trace.cycles[0]
    print(f"{name:<5}  drafts offered: {len(cycle.proposed)}   slots the draft wrote: {cycle.draft_kv.written - cycle.draft_kv.before}")

# %% [markdown]
# To offer γ drafts, a draft model computes the pending token and all drafts but the last: γ slots. The left one wrote
# four and offered four. The right one wrote four and offered one: it knew three more drafts, and nobody was to see them.
#
# A high acceptance rate is no proof of health, and neither is a fluent text. We need better instruments.
#
# ## Six instruments
#
# One demonstration each. The mistakes in this section are shown openly. Before each one, say to yourself whether the instrument
# will see it.
#
# ### 1. The record
#
# Every run leaves a record. Fifteen invariants must hold of any honest one, whatever its models and settings: they need
# no second run. `sd.invariants.check(trace)` lists what is broken. This engine throws the bonus away.

# %%
no_bonus = sd.faults.inject(engine, "engine_a")
broken = sd.invariants.check(no_bonus.generate(prompt, story, max_new_tokens=48).trace)
print(f"{len(broken)} violations; the first: {broken[0].name}, cycle {broken[0].cycle}")
print("  ", broken[0].message)
print("and its law:", first_token(no_bonus))

# %% [markdown]
# The law is right, token for token. This mistake costs time only, and the counts show it.
#
# Here are all fifteen. Keep them at hand for the hunt.

# %%
for name, sentence in sd.invariants.descriptions().items():
    print(fill(sentence, 104, initial_indent=f"{name:<26} ", subsequent_indent=" " * 27))

# %% [markdown]
# ### 2. The law
#
# `sd.exact_law` runs the engine once for *every* way its random choices can fall. You have just used it: it saw what the record
# of the engine on the right did not. It has a blind spot, though. It asks for all *choices*, so it never sees the random numbers
# themselves. An engine that uses one number twice looks perfect to it.
#
# The engine here numbers its draws by position, under block verification. A position whose draft was rejected gets its old number
# again.

# %%
blocks = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4, verify="block")
again = sd.faults.inject(blocks, "engine_p")
broken = sd.invariants.check(again.generate(prompt, story, max_new_tokens=48).trace)
print("law of the first token:", first_token(again))
print(f"its record: {broken[0].name}, cycle {broken[0].cycle}: {broken[0].message}")

# %% [markdown]
# ### 3. Forced rejections
#
# `reject_at=j` makes draft j fall in every cycle. So you know what must happen: j − 1 drafts stand, and a correction follows.
# The next engine reads the rows of the pass one place too late, and nobody judges its first draft.

# %%
unjudged = sd.faults.inject(engine, "engine_k")
print("forced at   honest: accepted   broken: accepted")
for j in (1, 2, 3, 4):
    runs = [one.generate(prompt, story, max_new_tokens=8, reject_at=j).trace for one in (engine, unjudged)]
    print(f"{j:>9}   {runs[0].cycles[0].accepted:>16}   {runs[1].cycles[0].accepted:>16}")

# %% [markdown]
# Only one of four forced rejections shows it. The first draft cannot be made to fall. In the record of that run it is accepted
# without a u. (The last two have none either: nobody reached them.)

# %%
trace = unjudged.generate(prompt, story, max_new_tokens=8, reject_at=1).trace
for draft in trace.cycles[0].decisions:
    u = "none" if draft.u is None else f"{draft.u:.2f}"
    print(f"{trace.pieces[draft.token]!r:<9} u {u:<6} {draft.status}")

# %% [markdown]
# ### 4. Against a fresh prefill
#
# To save memory, somebody rounds keys and values to multiples of ¼. Greedy text is compared with plain greedy text *of the
# same engine*, as everybody does.
#
# **Predict:** does that comparison pass? `True` or `False`.

# %%
from specdec_teach.exercises.lesson_05 import with_cache

greedy = sd.Sampling.greedy()


class Rounded:
    """A cache that keeps two bits behind the point."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def write(self, layer, keys, values):
        return self.inner.write(layer, (keys * 4).round() / 4, (values * 4).round() / 4)


def greedy_equals_plain(engine):
    fast = engine.generate(prompt, greedy, max_new_tokens=32)
    return fast.tokens == engine.generate(prompt, greedy, max_new_tokens=32, speculate=False).tokens


rounded = with_cache(engine, Rounded)

# BEGIN SOLUTION
guess = True
# END SOLUTION
predict("12.p2", guess, lambda: greedy_equals_plain(rounded))


# %%
@torch.no_grad()
def distance(engine):
    """The largest difference between the target's cache after a run and a prefill by transformers."""
    stream = engine.stream(prompt, story, max_new_tokens=16)
    stream.finish()
    cache, tokens = stream.sequence.cache, stream.sequence.tokens
    fresh = pair.target(input_ids=torch.tensor([tokens[: cache.pointer]]), use_cache=True).past_key_values
    both = zip(fresh.layers, cache.contents())
    return max(float((a - b).abs().max()) for layer, (k, v) in both for a, b in ((layer.keys, k), (layer.values, v)))


for name, one in (("honest", engine), ("rounded", rounded)):
    print(f"{name:<8} the target's cache is {distance(one):.2f} away from a fresh prefill")

# %% [markdown]
# Plain decoding used the same rounded cache. Both texts are wrong in the same way, so they agree. **An oracle must not share the
# part that you test.** The prefill by transformers shares nothing with our caches.
#
# ### 5. Self-draft
#
# The target drafts for itself, so p = q and every draft must stand. It is the instrument for everything that only slows an
# engine down. This loader leaves one projection of the draft at zero.

# %%
import copy


def loaded(model):
    """A copy of a model, loaded with a mistake."""
    model = copy.deepcopy(model)
    torch.nn.init.zeros_(model.model.layers[0].self_attn.o_proj.weight)
    return model


plain = engine.generate(prompt, greedy, max_new_tokens=32, speculate=False).tokens
for name, load in (("honest loader", lambda model: model), ("broken loader", loaded)):
    usual = sd.Engine(pair.target, drafter=sd.ModelDrafter(load(pair.draft)), tokenizer=pair.tokenizer, gamma=4)
    itself = sd.Engine(pair.target, drafter=sd.ModelDrafter(load(pair.target)), tokenizer=pair.tokenizer, gamma=4)
    text = usual.generate(prompt, greedy, max_new_tokens=32)
    own = itself.generate(prompt, greedy, max_new_tokens=32).stats
    print(f"{name}: text right: {text.tokens == plain}, self-draft: {own.accepted} of {own.drafted} accepted")

# %% [markdown]
# ### 6. The second call, and the ends
#
# Make one call twice. The records must agree. And put a limit, or an end token, at *every* place of a cycle: mistakes at the
# end show only when the end falls inside a block. `sd.check` does that, among much else; each of its sections can be had alone.

# %%
memory = sd.faults.inject(engine, "engine_r")
for call in (1, 2):
    cycles = memory.generate(prompt, story, max_new_tokens=32).trace.cycles
    print(f"call {call}, γ of each cycle: {[c.gamma for c in cycles]}")

overshoot = sd.faults.inject(engine, "engine_o")
report = sd.check(overshoot, ["caps"])
print(f"{len(report.failures)} of {len(report.rows)} limits failed; the first: {report.failures[0].case}")

# %% [markdown]
# ## No test sees half of them
#
# All tests of the check and all invariants were run on all eighteen engines. The commonest test of all is "greedy text equals plain
# greedy text".
#
# **Predict:** how many of the eighteen does it see?

# %%
matrix = sd.faults.kill_matrix()["engines"]


def seen_by(test):
    return sum(column[test] for name, column in matrix.items() if name != "honest")


# BEGIN SOLUTION
guess = 4
# END SOLUTION
predict("12.p3", guess, lambda: seen_by("greedy == plain"))

# %%
print("how many of the 18 a test sees")
for test in sorted(sd.faults.kill_matrix()["tests"], key=lambda test: -seen_by(test)):
    if seen_by(test):
        print(f"{test:<38} {seen_by(test)}  {'█' * seen_by(test)}")
print("on the honest engine:", sum(matrix["honest"].values()), "alarms")

# %% [markdown]
# The best sees eight. Most invariants see one or two each, and for some engines that one is all there is. Nobody can guess
# which test will be needed, so a suite needs all kinds.
#
# ### Exercise 12.1: an invariant of your own
#
# Write one for the draft's pointer C. Given a cycle, return whether it is fine. Lesson 05: after a rejection the draft's C is L′ − 1;
# after a bonus it may be L′ − 2; it never rises above what was written. A cycle without drafts says nothing. False alarms count
# as mistakes.


# %%
def pointer_is_fine(cycle: sd.Cycle) -> bool:
    """Whether the draft's pointer is where it must be: cycle.draft_kv, .committed_after, .last_kind, .proposed."""
    # BEGIN SOLUTION
    # 1. Nothing drafts: nothing can be wrong.
    kv = cycle.draft_kv
    if kv is None:
        return True
    # 2. Too high.
    if kv.after > min(kv.written, cycle.committed_after - 1):
        return False
    # 3. Too low.
    return not cycle.proposed or cycle.committed_after - kv.after <= (2 if cycle.last_kind == "bonus" else 1)
    # END SOLUTION


check("12.1", pointer_is_fine)

# %% [markdown]
# <details><summary>Hint 1: what can be missing</summary>
#
# `draft_kv` is None where nothing drafts. `proposed` is empty where a cycle had no room for drafts.
# </details>
# <details><summary>Hint 2: two sides</summary>
#
# Too high: `after` above `written`, or above L′ − 1. Too low: L′ − `after` is more than allowed.
# </details>
# <details><summary>Hint 3: how low</summary>
#
# Two behind if `last_kind` is "bonus", one behind otherwise. Judge it only if something was proposed.
# </details>
#
# ## The hunt
#
# Twelve engines, `engine_b` to `engine_n` without `engine_k`. Each is made of an honest one on the story pair, with γ = 4 and a paged cache
# of blocks of four. `suspect(name)` is such an engine, and `record(name)` its record of 48 tokens with top-k 6.
#
# The panel runs any of them. Choose a name, play the cycles, look which invariants turn red.

# %%
from specdec_teach.exercises.suspects import SECTIONS, THOUGHTS, TWELVE, base, dice, incident, record, suspect

sd.labs.hunt(base(), prompt)

# %%
print("   ".join(TWELVE[:6]))
print("   ".join(TWELVE[6:]))

# %% [markdown]
# ### Exercise 12.2: records that accuse
#
# Some engines give themselves away. Find all whose record breaks an invariant. For each, give the *first* violation that
# `sd.invariants.check` lists: its name and its cycle. Write `{"engine_x": ("name", cycle), …}`.

# %%
# BEGIN SOLUTION
accused = {}
for name in TWELVE:
    found = sd.invariants.check(record(name))
    if found:
        accused[name] = (found[0].name, found[0].cycle)
        print(f"{name}  {found[0].name}, cycle {found[0].cycle}: {found[0].message}")
# END SOLUTION
check("12.2", accused)

# %% [markdown]
# <details><summary>Hint 1: one of them</summary>
#
# `sd.invariants.check(record(name))` is a list. An empty one is a clean record.
# </details>
# <details><summary>Hint 2: all of them</summary>
#
# Loop over `TWELVE`. A violation has a `name`, a `cycle` and a `message`. Read the messages: you need them below.
# </details>
# <details><summary>Hint 3: how many</summary>
#
# More than half of the twelve. Put your dictionary into a variable called `accused`.
# </details>
#
# ### Exercise 12.3: clean records
#
# The others break no invariant. Find for each of them a section of `sd.check` that fails on it. These are the sections:

# %%
print(", ".join(SECTIONS))

# %% [markdown]
# `sd.check(suspect(name), ["ends"]).ok` takes a moment; so do most. The slow ones are `chi-square` and `states`. Write
# `{"engine_x": "section", …}`.

# %%
# BEGIN SOLUTION
clean = {}
for name in (name for name in TWELVE if name not in accused):
    quick = ("ends", "penalties", "greedy")
    clean[name] = next((section for section in quick if not sd.check(suspect(name), [section]).ok), "chi-square")
    print(name, clean[name])
# END SOLUTION
check("12.3", clean)

# %% [markdown]
# <details><summary>Hint 1: think of what a record leaves out</summary>
#
# One run has one text, one end and few penalties. And a record shows which random numbers were *counted*, not what was drawn.
# </details>
# <details><summary>Hint 2: go on with the quick ones</summary>
#
# Try `ends`, `penalties` and `greedy` on each of the four. Three of them fail there, each in another.
# </details>
# <details><summary>Hint 3: the last</summary>
#
# The enumeration of all choices does not see it, and greedy runs do not. What is left counts real draws.
# </details>
#
# ### Exercise 12.4: the thought behind it
#
# Every mistake was somebody's reasonable thought. Match them: `{"engine_x": "A", …}`. A wrong match gets a test that speaks against it.

# %%
for letter, thought in THOUGHTS.items():
    print(f"{letter}   {thought}")

# %%
# BEGIN SOLUTION
thoughts = dict(zip(TWELVE, "KHJICFDGAELB"))
# END SOLUTION
check("12.4", thoughts)

# %% [markdown]
# <details><summary>Hint 1: from the record</summary>
#
# An invariant names the place: what a correction is drawn from, a row of q, a pointer, a published block.
# </details>
# <details><summary>Hint 2: two with the same invariant</summary>
#
# Two records break `draft-lag`. Read the messages: in one the pointer is too high, in the other too low.
# </details>
# <details><summary>Hint 3: a clean record and a wrong text</summary>
#
# Wrong at the end; wrong under penalties; wrong already when greedy, but only after a rejection; wrong only when counted.
# </details>
#
# ### Exercise 12.5: your test
#
# Now without names. Write a test that takes any engine and says whether it is fine. It is run on three honest engines, with the
# rejection, the block and the coupled rule, and on the twelve, all over a tiny random pair. The score is the number of mistakes it
# finds. **One false alarm, and the score is 0.**
#
# Use what you have: `engine.generate(...)`, `sd.invariants.check`, `sd.check(engine, [...]).ok`, and `dice(engine)`. The last one draws
# 1500 first tokens from a small crafted law, and returns their shares, and how likely so large a distance is by chance. Cheap
# instruments first: a test that has found something can stop.


# %%
def my_test(engine: sd.Engine) -> bool:
    """Whether the engine is fine."""
    # BEGIN SOLUTION
    return all(sd.check(engine, [name]).ok for name in ("runs", "ends", "penalties", "greedy")) and dice(engine)[1] > 1e-4
    # END SOLUTION


check("12.5", my_test)

# %% [markdown]
# <details><summary>Hint 1: begin</summary>
#
# `return sd.check(engine, ["runs"]).ok` looks through three records. What score does that give? Which engines pass?
# </details>
# <details><summary>Hint 2: go on</summary>
#
# Add the sections that you found in 12.3, joined with `and`, the cheap ones first.
# </details>
# <details><summary>Hint 3: the last one</summary>
#
# `dice(engine)[1]` is small if the shares are far from p. An honest engine is below 0.0001 once in ten thousand tests.
# </details>
#
# ## How much a test can see
#
# Two mistakes, made anew here. *Two filters*: draw from the filtered q, judge with the unfiltered one. *Loaded dice*: the noise that
# drew the rejected draft draws the correction too. And two pairs of laws: a realistic one of eight tokens, where the draft is
# close to the target, and small crafted ones, where it is far off. Filters are top-k 6 of 8, and top-k 2 of 4.
#
# **Predict:** a chi-square test over 1500 first tokens calls a share wrong if its distance has a chance below 1 in 10 000. Of the
# two mistakes, how many does it see on the realistic pair, and how many on crafted ones? Write `(…, …)`.

# %%
from specdec_teach.exercises.suspects import CRAFTED, NEAR, loaded_dice, two_filters

FILTERED = ((0.4, 0.3, 0.2, 0.1), (0.1, 0.35, 0.3, 0.25))
cases = {
    "honest": (engine, [(NEAR, 6), (FILTERED, 2)]),
    "two filters": (two_filters(engine), [(NEAR, 6), (FILTERED, 2)]),
    "loaded dice": (loaded_dice(engine), [(NEAR, 0), (CRAFTED, 0)]),
}
found = {}


def power():
    for name, (one, laws) in cases.items():
        found[name] = [dice(one, *law, sampling=sd.Sampling(top_k=k)) for law, k in laws]
    wrong = [found["two filters"], found["loaded dice"]]
    return tuple(sum(both[at][1] < 1e-4 for both in wrong) for at in (0, 1))


# BEGIN SOLUTION
guess = (0, 2)
# END SOLUTION
predict("12.p4", guess, power)

# %%
found or power()
for name, both in found.items():
    for kind, (shares, chance) in zip(("realistic", "crafted"), both):
        verdict = "seen" if chance < 1e-4 else "not seen"
        print(f"{name:<11}  {kind:<9}  {verdict:<8}  first shares {shares[0]:.3f}, {shares[1]:.3f}")

# %% [markdown]
# The mistakes are the same, only the pair has changed. With a good draft there are few rejections, and most mistakes live
# behind a rejection. A test on a realistic pair is a test of the easy cases. **Craft the law so that the mistake has to show**: a far
# draft, several tokens in the residual, filters that cut where q is large.
#
# ### Exercise 12.6: how many draws
#
# A chi-square adds (count − expected)² / expected over all tokens. If the true law is `wrong` and the test expects `p`, the sum grows by
# Σ (wrong − p)² / p with each draw. How many draws until that is 30, far beyond chance? Return `math.inf` if it never is.

# %%
import math


def needed(p: list[float], wrong: list[float]) -> float:
    """The number of draws until the expected excess is 30."""
    # BEGIN SOLUTION
    # What one draw adds.
    each = sum((b - a) ** 2 / a for a, b in zip(p, wrong))
    return 30 / each if each > 1e-12 else math.inf
    # END SOLUTION


check("12.6", needed)

# %% [markdown]
# <details><summary>Hint 1: one draw</summary>
#
# Compute the sum for a single draw first. Each token's square is divided by what was expected of it.
# </details>
# <details><summary>Hint 2: many draws</summary>
#
# The excess is n times that sum. Solve n · sum = 30.
# </details>
# <details><summary>Hint 3: the honest engine</summary>
#
# If both laws are equal, the sum is 0, up to rounding. Then return `math.inf`.
# </details>
#
# ## Incident drill
#
# Three engines with paged caches, blocks of four. All you get is a step log. `blocks` is the request's block table, in order of
# position: the first block holds positions 0 to 3, the second 4 to 7, and so on. `offered` are blocks that other requests may now adopt.


# %%
def log(name):
    print(name)
    print("cycle  drafts  stood  then        L → L′    target C        draft C         blocks  freed  offered")
    for c in incident(name):
        t, d, b = c.target_kv, c.draft_kv, c.blocks
        print(
            f"{c.index:>5}  {len(c.proposed):>6}  {c.accepted:>5}  {c.last_kind:<10}  {c.committed_before:>2} → {c.committed_after:<2}"
            f"   {t.before:>2} → {t.written:>2} → {t.after:<2}    {d.before:>2} → {d.written:>2} → {d.after:<2}"
            f"    {f'{b.owned[0]}–{b.owned[-1]}':<7} {', '.join(map(str, b.freed)) or '–':<6} {', '.join(map(str, b.published)) or '–'}"
        )
    print()


for name in ("red", "green", "blue"):
    log(name)

# %% [markdown]
# ### Exercise 12.7: did it leak?
#
# A rejected draft's keys and values have *leaked* if a slot that holds them is counted as computed, or is offered to others. For each
# engine: `None` if nothing leaked, otherwise the first cycle in which it happens, and the text position whose slot it is. (A slot that
# nobody wrote is another matter: it holds no rejected draft.)

# %%
# BEGIN SOLUTION
leaks = {"red": (1, 13), "green": None, "blue": (3, 15)}
# END SOLUTION
check("12.7", leaks)

# %% [markdown]
# <details><summary>Hint 1: which slot</summary>
#
# After a correction, position L′ − 1 belongs to the correction. Nobody has read it. What was written there in this cycle?
# </details>
# <details><summary>Hint 2: who counts it</summary>
#
# The target's C after the cycle should be L′ − 1. And a block k places down the table ends at position 4k + 3.
# </details>
# <details><summary>Hint 3: a bonus is no rejection</summary>
#
# Blue offers a block too early more than once. After a bonus the missing slot was never written. Look for a correction.
# </details>
#
# ### Exercise 12.8: prove it
#
# Now force it. The prompt has L = 7 tokens, γ = 4, blocks of four. `reject_at=j` with j from 1 to 4. For which j does the *first*
# cycle leak, in the red engine and in the blue one? Write `{"red": […], "blue": […]}`. The check forces the real engines.

# %%
# BEGIN SOLUTION
proofs = {"red": [1, 2, 3, 4], "blue": [1]}
# END SOLUTION
check("12.8", proofs)

# %% [markdown]
# <details><summary>Hint 1: L′</summary>
#
# Forced at j, j − 1 drafts stand and one correction follows: L′ = 7 + j.
# </details>
# <details><summary>Hint 2: red</summary>
#
# Does its mistake depend on where a block ends?
# </details>
# <details><summary>Hint 3: blue</summary>
#
# It offers a block as soon as the last *committed* token fills it. When is L′ a multiple of four?
# </details>

# %% [markdown]
# A leak can depend on where in a block the rejection falls. And one that goes through an offered block needs a second request to
# do harm, or a look at what is offered: the first request itself is fine. So force **every** position, at every place in a block.
#
# ## Controls
#
# Instruments can be broken too. An invariant that is always silent, and one that always cries, are both worthless. The honest engine
# under every exact rule and three layouts of the cache:

# %%
for verify in ("rejection", "block", "coupled"):
    for cache in ("contiguous", "paged", "masked"):
        drafter = sd.ModelDrafter(pair.draft)
        honest = sd.Engine(pair.target, drafter=drafter, tokenizer=pair.tokenizer, verify=verify, cache=cache)
        alarms = len(sd.invariants.check(honest.generate(prompt, story, max_new_tokens=24).trace))
        print(f"{verify:<9}  {cache:<10}  {alarms} violations")

# %% [markdown]
# And one that must fail: take a true record, and change a single number in it.

# %%
from dataclasses import replace

true = engine.generate(prompt, story, max_new_tokens=24).trace
first = true.cycles[0]
pointer = replace(first.target_kv, after=first.target_kv.after + 1)
forged = replace(true, cycles=(replace(first, target_kv=pointer), *true.cycles[1:]))
print("true record:  ", len(sd.invariants.check(true)), "violations")
print("forged record:", sd.invariants.check(forged)[0].name)

# %% [markdown]
# ## Try it yourself
#
# - Run `my_test` on the six engines of the first half, which it was not made for. Which does it let pass?
# - In `dice`, take p = [.6, .3, .1] and q = [.2, .5, .3] with `loaded_dice`, as below. Why is nothing seen? Count the tokens in the
#   residual.
# - Break an engine yourself, with `with_cache` or `engine.variant(parts=…)`, and give it to somebody.

# %%
print("dice with one token in the residual:", [round(share, 2) for share in dice(loaded_dice(engine), p, q)[0]])

# %% [markdown]
# ## Honest limits
#
# - A clean record and a passed check prove what was looked at. They do not prove that there is no nineteenth mistake.
# - Our mistakes come one at a time. Two at once can hide each other.
# - An engine that leaks memory, or is merely slow, passes everything here.
# - Float32 on a CPU makes texts comparable token by token. In 16 bits ties flip, and tests of equality need the bounds of lesson 13.
# - Trees and graphs have mistakes of their own. Lesson 09 has the tree's.
#
# ## Can you?
#
# - [ ] write an invariant that never accuses an honest run (12.1)
# - [ ] name the first broken invariant of a record, and its cycle (12.2)
# - [ ] choose a test for an engine whose record is clean (12.3)
# - [ ] name the thought behind each of twelve mistakes (12.4)
# - [ ] write a test that finds all twelve without a false alarm (12.5)
# - [ ] say how many draws a test needs (12.6)
# - [ ] say from a log whether a rejected draft leaked, and which forced rejection proves it (12.7, 12.8)
#
# ## In 60 seconds
#
# A broken engine writes good text. Mistakes in the rule change the law, mistakes in the draft's cache only the speed, mistakes in the
# target's cache the text after the first rejection; ends, penalties and shared blocks have mistakes of their own. The record of a run
# can be checked without a second run. The law is checked by enumeration, and by counting where random numbers may be shared. Force
# a rejection at every position. Compare caches with a fresh prefill that shares no code. Let the target draft for itself. Call
# twice. Craft the law so that the mistake must show. No single test sees half of the mistakes.
#
# **Red flags**: "the samples look fine" · "acceptance went up, so it is better" · one test for everything · an oracle that uses the part
# under test · only greedy tests · only a draft close to the target · rejections tested at one position · tests with one request · a
# test that has never failed.
#
# **Asked in interviews**
#
# <details><summary>Acceptance rose overnight from 70 to 95 per cent, the text is fine. What do you do?</summary>
#
# Ask what changed in the draft or the rule. Run the exact law over small tables. A drafter that takes back what it drew, or a rule
# that counts ticks behind a rejection, raises acceptance and breaks the law.
# </details>
#
# <details><summary>Greedy equals plain decoding on a thousand prompts. What has been shown?</summary>
#
# That the target's cache and the greedy rule agree with the same engine's plain path. Nothing about sampling, the draft's
# cache, ends, penalties, shared blocks, or anything that both paths share.
# </details>
#
# <details><summary>Which test sees a random number that is used twice?</summary>
#
# Counting real draws from a law with several tokens in the residual, or an audit of which numbers were used. Enumeration does not.
# </details>
#
# <details><summary>How do you prove that a rejected draft's keys and values never leak?</summary>
#
# Force a rejection at each draft, for each place in a block, twice in a row. After each cycle compare both caches with fresh
# prefills, and every offered block with committed and computed tokens. Then send a second request with the same beginning.
# </details>
#
# <details><summary>Your new test has never failed. Keep it?</summary>
#
# Put in the mistake that it is for. If it still passes, it is no test.
# </details>
#
# ## Where to read more
#
# Leviathan, Kalman, Matias, *Fast inference from transformers via speculative decoding* (2023), algorithm 1 and appendix A: the law that
# each of these engines should follow.
# Sun and others, *Block verification accelerates speculative decoding* (2024), algorithm 2, for the rule that one random number too few
# breaks.
# Kwon and others, *Efficient memory management for large language model serving with PagedAttention* (2023), section 4, for blocks and
# who may share them.
