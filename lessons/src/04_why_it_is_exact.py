# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 35
#     outputs: 28
# ---

# %% [markdown]
# # 04 · Why it is exact
#
# **35 minutes · medium · you need lesson 03: when a draft is accepted. Sums of probabilities, nothing more. No GPU.**
#
# A small model guesses, and most of the words on the page are its guesses. Still, the page is distributed exactly as
# if the large model had written it alone. That is a claim about probabilities, so it can be proved.
#
# After it you can
#
# - derive *accepted + corrected = p*, token by token;
# - show by enumeration why drawing the correction from p is biased, and say how many runs a simulation needs to see it;
# - say what block and coupled verification keep exact, and what each of them costs;
# - explain why a random number used twice is harmless under one rule and breaks another.

# %% [markdown]
# ## A correction, close up
#
# Start with a real run. Press **R** to jump to a rejection, then step on with **→** until the correction ↺ appears.
# Look at the bars: where could the correction come from, and where could it not?

# %%
import specdec_teach as sd

pair = sd.load_pair()
engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
prompt = "Mira had a red lantern and"
story = sd.Sampling(temperature=0.8, seed=85)

sd.play(engine, prompt, story, max_new_tokens=48)

# %% [markdown]
# The first correction of that run as text. The last column is the distribution that it was drawn from.

# %%
trace = engine.generate(prompt, story, max_new_tokens=48).trace
cycle = next(cycle for cycle in trace.cycles if cycle.last_kind == "correction")
rejected = cycle.decisions[cycle.accepted]

print(f"rejected {trace.pieces[rejected.token]!r}, correction {trace.pieces[cycle.last]!r}")
print("token              p       q     correction")
first = (rejected.token, cycle.last)
for bar in sorted(rejected.bars, key=lambda bar: (bar.token not in first, -max(bar.p, bar.q)))[:4]:
    print(f"{trace.pieces[bar.token]!r:<14} {bar.p:.3f}   {bar.q:.3f}   {bar.residual:.3f}")

# %% [markdown]
# Wherever q is above p, the last column is zero. A token that the draft proposes too *often* is never a correction: not
# even " the", for which the target itself gives 0.817. Only tokens that it proposes too *seldom* are. The rest of the
# lesson is about that column.
#
# ## Two ways onto the page
#
# Take three tokens and one draft. The target says p, the draft says q.
# A token can get onto the page in two ways.
#
# **As an accepted draft.** The draft proposes it with chance q. It then stands with chance min(1, p/q).
# Multiply: q · min(1, p/q) = **min(p, q)**.
#
# **As a correction.** The draft, whatever it is, has to fall first. Summed over the tokens it stands with chance
# Σ min(p, q), so it falls with chance β = 1 − Σ min(p, q). The correction is then drawn from [p − q]₊ / Σ [p − q]₊, where [x]₊ is x, or 0 if x
# is negative.
#
# Now the one step that matters. Since p = min(p, q) + [p − q]₊ for every token, and p sums to 1, the sum of [p − q]₊
# is β as well. So the chance to reject and the normaliser cancel: β · [p − q]₊ / β = **[p − q]₊**.
#
# Add both ways: min(p, q) + [p − q]₊ = **p**.

# %%
p = [0.6, 0.3, 0.1]
q = [0.2, 0.5, 0.3]

print("token    p     q     accepted   corrected   together")
for token in range(3):
    accepted, corrected = min(p[token], q[token]), max(p[token] - q[token], 0.0)
    print(
        f"{token}       {p[token]:.1f}   {q[token]:.1f}   {accepted:.1f}        {corrected:.1f}         {accepted + corrected:.1f}"
    )
print(f"sum      1     1     {sum(map(min, p, q)):.1f}        {1 - sum(map(min, p, q)):.1f}         1")

# %% [markdown]
# The same as bars. The dashed frame is q: where it sticks out above the bar, drafts are thrown away; where it stays
# inside, something is missing, and the correction fills exactly that.

# %%
from specdec_teach.exercises.lesson_04 import expected_accepted, picture, rule_law

picture(p, q)

# %% [markdown]
# And the real rejection from the top of this lesson. Beside each stack stands the target's p: they are equally high, token by token.

# %%
trace.identity(cycle.index, cycle.accepted + 1)

# %% [markdown]
# ### Exercise 04.1: the correction
#
# Write the distribution that the correction is drawn from. You can leave out p = q: then nothing is ever rejected.

# %%
from specdec_teach.exercises import check, predict


def residual(p: list[float], q: list[float]) -> list[float]:
    """Return the probability of each token as a correction."""
    # BEGIN SOLUTION
    rest = [max(a - b, 0.0) for a, b in zip(p, q)]
    return [value / sum(rest) for value in rest]
    # END SOLUTION


check("04.1", residual)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# How much of each token is still missing after the accepted drafts have been counted?
# </details>
# <details><summary>Hint 2</summary>
#
# p − min(p, q). It is never negative. Write it with `max`.
# </details>
# <details><summary>Hint 3</summary>
#
# What is missing sums to β, not to 1. Divide by the sum.
# </details>

# %% [markdown]
# ## Ask the engine
#
# A derivation on paper says nothing about a program. So let the program speak. `sd.exact_law` runs the real engine once
# for *every* way its random choices can fall, and adds up the chances. No sampling, no error bars.

# %%
import torch


def engine_of(p, q, gamma=1, verify="rejection"):
    """A target that always says p, a draft that always says q."""
    target, draft = (sd.testing.TabularLM(torch.tensor(row, dtype=torch.float64).log()) for row in (p, q))
    return sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=gamma, verify=verify)


def first_token(engine):
    """The exact distribution of the first new token."""
    return [chance for _, chance in sorted(sd.exact_law(engine, [0], 1).items())]


def show(law):
    return "[" + ", ".join(f"{chance:.3f}" for chance in law) + "]"


found = first_token(engine_of(p, q))
print("engine ", show(found))
print("target ", show(p))
print("equal to 12 digits:", max(abs(a - b) for a, b in zip(found, p)) < 1e-12)

# %% [markdown]
# ## Predict: draw the correction from p
#
# Lesson 03 drew the correction from p itself, the target's own distribution, and the result leaned towards the draft. With the
# table above you can now say by how much.
#
# To try it, swap one function of the engine. `patch.object` does that inside its `with`, and puts the honest one back
# afterwards. With p = [.6, .3, .1] and q = [.2, .5, .3]: how often will the engine now say token 0? Give two decimals.

# %%
from unittest.mock import patch

from specdec_kernels import rejection as arithmetic
from specdec_teach.rules import rejection as rule


def redraw_from_p():
    return patch.object(rule, "residual", lambda p, q, token: (p, p.sum(-1)))


def token_0():
    with redraw_from_p():
        return round(first_token(engine_of(p, q))[0], 2)


# BEGIN SOLUTION
guess = 0.44
# END SOLUTION
predict("04.p1", guess, token_0)

# %% [markdown]
# Why it cannot be .6: token 0 already has its accepted drafts, .2. It still misses .4, and a draft falls with chance
# .4. So *every* correction has to be token 0. Drawn from p, only six in ten are.
#
# Here are all three tokens, and two other tempting shortcuts: forget the rejected drafts and keep the accepted ones
# only; or accept whenever p ≥ q, without any dice.

# %%
with redraw_from_p():
    redrawn = first_token(engine_of(p, q))
    with patch.object(arithmetic, "accepts", lambda u, p, q: p >= q):
        threshold = first_token(engine_of(p, q))
overlap = [min(a, b) for a, b in zip(p, q)]

print("target                      ", show(p))
print("honest engine               ", show(first_token(engine_of(p, q))))
print("redraw from p               ", show(redrawn))
print("accepted tokens only        ", show([value / sum(overlap) for value in overlap]))
print("accept iff p ≥ q, and redraw", show(threshold))

# %% [markdown]
# Each shortcut sounds fair, and each gives another distribution. The second line was computed after the mistakes were
# loaded and removed: the honest engine is as it was.
#
# ### Exercise 04.2: one cycle, enumerated
#
# Write the enumeration yourself, for one draft and any rule. `accept(p_y, q_y)` is the chance that a draft y stands;
# `redraw(p, q)` is the distribution of the token after a rejection.

# %%
from collections.abc import Callable

Accept = Callable[[float, float], float]
Redraw = Callable[[list[float], list[float]], list[float]]


def law(p: list[float], q: list[float], accept: Accept, redraw: Redraw) -> list[float]:
    """Return the probability of each token on the page."""
    # BEGIN SOLUTION
    kept = [q_y * accept(p_y, q_y) for p_y, q_y in zip(p, q)]
    fallen = 1.0 - sum(kept)
    return [stays + fallen * again for stays, again in zip(kept, redraw(p, q))]
    # END SOLUTION


check("04.2", law)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Go through the drafts y. Each is proposed with chance q[y], and then two things can happen.
# </details>
# <details><summary>Hint 2</summary>
#
# It stands: add q[y] · accept(p[y], q[y]) to token y. It falls: add what is left of q[y] to one common sum.
# </details>
# <details><summary>Hint 3</summary>
#
# The common sum is the chance of a rejection. Spread it over all tokens in proportion to `redraw(p, q)`.
# </details>

# %% [markdown]
# ## From one token to a whole text
#
# With γ drafts the argument is used again and again. Row i is judged only if all drafts before it stand; so the text
# before it is known, and p and q of row i are both conditioned on that same text. Within the row the sum above holds.
# Each token has the target's distribution given what stands before it, and a product of such steps is the target's
# distribution of texts.
#
# So the test must be about texts. Below, what comes next depends on the last token, γ is 2, and all 27 texts of three
# tokens are compared with plain multiplication. This is the result that the lesson is named after.

# %%
P = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.5, 0.1, 0.4]], dtype=torch.float64)
Q = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.5, 0.1], [0.3, 0.4, 0.3]], dtype=torch.float64)
right = {(a, b, c): float(P[0, a] * P[a, b] * P[b, c]) for a in range(3) for b in range(3) for c in range(3)}


def largest_error(verify="rejection"):
    """The largest difference over all 27 texts."""
    target, draft = sd.testing.TabularLM(P.log()), sd.testing.TabularLM(Q.log())
    engine = sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=2, verify=verify)
    law = sd.exact_law(engine, [0], 3)
    return max(abs(law[text] - right[text]) for text in right)


print("27 texts, standard rule: every error below 1e-12:", largest_error() < 1e-12)

# %% [markdown]
# A check that cannot fail proves nothing. The same check, with the correction drawn from p:

# %%
with redraw_from_p():
    broken = largest_error()

print("27 texts, redraw from p: every error below 1e-12:", broken < 1e-12)
print(f"largest error {broken:.3f}")
print("and honest again:", largest_error() < 1e-12)

# %% [markdown]
# ## Predict: a mistake that hides
#
# Somebody finds drawing from the residual too slow and takes its *largest* entry instead. You test it on the case
# above, p = [.6, .3, .1] and q = [.2, .5, .3], by enumeration. Does the test notice? Answer `True` or `False`.


# %%
def largest_only():
    def swapped(p, q, token):
        rest = (p - q).clamp_min(0.0)
        one = torch.nn.functional.one_hot(rest.argmax(-1), rest.shape[-1]).double()
        return one, rest.sum(-1)

    return patch.object(rule, "residual", swapped)


def notices(p, q):
    with largest_only():
        return max(abs(a - b) for a, b in zip(first_token(engine_of(p, q)), p)) > 1e-12


# BEGIN SOLUTION
guess = False
# END SOLUTION
predict("04.p2", guess, lambda: notices(p, q))

# %% [markdown]
# Small cases like that one are used everywhere, and it hides the mistake. Its residual is [.4, 0, 0]: one token only.
# The largest of one is that one.
#
# Four tokens are enough to see it. From here on we use this pair as well:

# %%
p4 = [0.4, 0.3, 0.2, 0.1]
q4 = [0.1, 0.15, 0.25, 0.5]

with largest_only():
    print("textbook     ", show(first_token(engine_of(p, q))), "wanted", show(p))
    print("four tokens  ", show(first_token(engine_of(p4, q4))), "wanted", show(p4))
print("four, honest ", show(first_token(engine_of(p4, q4))))

# %% [markdown]
# The draft proposes two of these tokens too seldom, and two too often:

# %%
picture(p4, q4)

# %% [markdown]
# ### Exercise 04.3: make it show
#
# Four tokens are not needed, only a residual with more than one. Give p and q over **three** tokens for which taking
# the largest entry is off by at least 0.1 in some token.

# %%
# BEGIN SOLUTION
case = ([0.4, 0.4, 0.2], [0.1, 0.1, 0.8])
# END SOLUTION
check("04.3", case)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two tokens must have p above q. So the third must take all the blame.
# </details>
# <details><summary>Hint 2</summary>
#
# The token that is forgotten loses its whole p − q. That has to be 0.1 or more.
# </details>
# <details><summary>Hint 3</summary>
#
# Try p = [.4, .4, .2], and a q that puts nearly everything on token 2.
# </details>

# %% [markdown]
# ## And by simulation?
#
# Enumeration needs a tiny vocabulary. For anything larger one has to sample: run the engine with many seeds and count.
# 400 seeded runs of the textbook case, honest and with the correction drawn from p:


# %%
def count_first(engine, width, runs):
    """How often each token came first, over seeds 0, 1, 2, …"""
    counts = [0] * width
    for seed in range(runs):
        result = engine.generate([0], sd.Sampling(seed=seed), max_new_tokens=2, trace=False)
        counts[result.tokens[0]] += 1
    return [count / runs for count in counts]


print("honest         ", show(count_first(engine_of(p, q), 3, 400)), "wanted", show(p))
with redraw_from_p():
    print("redraw from p  ", show(count_first(engine_of(p, q), 3, 400)), "wanted", show(p))

# %% [markdown]
# A bias of .16 is plain to see, although the honest line is not exact either. That is the trouble: a count of n runs
# wobbles by about √(p(1 − p)/n), its standard error. A bias has to stand out from the wobble.
#
# ### Exercise 04.4: how many runs?
#
# A token has probability p, a broken engine gives it p + bias. How many runs until the bias is z standard errors?


# %%
def runs_needed(p: float, bias: float, z: float) -> float:
    """Return the number of runs after which `bias` equals z standard errors (round up, or don't)."""
    # BEGIN SOLUTION
    return z**2 * p * (1 - p) / bias**2
    # END SOLUTION


check("04.4", runs_needed)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write down what you want: bias = z · √(p(1 − p)/n).
# </details>
# <details><summary>Hint 2</summary>
#
# Square both sides.
# </details>
# <details><summary>Hint 3</summary>
#
# n = z² · p(1 − p) / bias².
# </details>

# %% [markdown]
# A test that runs in every build should not cry wolf, so ask for four standard errors. For a token of probability .4:

# %%
print("bias     runs for four standard errors")
for bias in (0.16, 0.025, 0.01, 0.001):
    print(f"{bias:<6}   {16 * 0.4 * 0.6 / bias**2:>12,.0f}")

# %% [markdown]
# The bias of .16 needs 150 runs. A bias of .025, which the next section makes, needs six thousand. One of .001
# needs four million, and real vocabularies are full of tokens with a probability of .001. So: **enumerate first, then
# simulate**. Enumeration sees any bias of the rule, however small.
#
# ## Predict: what enumeration cannot see
#
# Enumeration gives every choice its right chance. It takes for granted that each choice is made with a *fresh* random
# number. Here is an engine that breaks that: the number u that rejected a draft also draws the correction.
#
# Does `exact_law` notice, on the four-token pair? Answer `True` or `False`.

# %%
from specdec_teach.noise import CounterNoise, StreamId

honest_draw = CounterNoise.draw


def same_u():
    def draw(self, stream, number, weights):
        return honest_draw(self, StreamId.ACCEPT if stream == StreamId.TOKEN else stream, number, weights)

    return patch.object(CounterNoise, "draw", draw)


def exact_law_notices():
    with same_u():
        return max(abs(a - b) for a, b in zip(first_token(engine_of(p4, q4)), p4)) > 1e-12


# BEGIN SOLUTION
guess = False
# END SOLUTION
predict("04.p3", guess, exact_law_notices)

# %% [markdown]
# It put its own choices in place of the random numbers, so it never met the mistake. Seeded runs of the engine, with
# its real numbers, do:

# %%
print("wanted     ", show(p4))
print("honest     ", show(count_first(engine_of(p4, q4), 4, 3000)))
with same_u():
    print("same u     ", show(count_first(engine_of(p4, q4), 4, 3000)))

# %% [markdown]
# On paper the same u gives [.333, .367, .200, .100]; the exercise below shows how.
#
# Each of the two tests sees what the other cannot. Enumeration proves the *rule*, at any size of bias. Simulation
# with the real generator checks the *dice*, for a bias that is not too small.
#
# ### Exercise 04.5: loaded dice
#
# Work out why, for the draft of token 3. It has p = .1 and q = .5, so it is accepted iff u · .5 < .1. After its
# rejection the residual is [2/3, 1/3, 0, 0]: token 0 is drawn if the number is below 2/3, else token 1.
# How likely is token 0 after that rejection, with a fresh number? And with the same u again? Give both as a tuple.

# %%
# BEGIN SOLUTION
token_0_after_rejection = (2 / 3, (2 / 3 - 0.2) / 0.8)
# END SOLUTION
check("04.5", token_0_after_rejection)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A fresh number knows nothing of what happened before. The first answer is in the question.
# </details>
# <details><summary>Hint 2</summary>
#
# Which u reject this draft? They are an interval that ends at 1.
# </details>
# <details><summary>Hint 3</summary>
#
# u lies somewhere in [.2, 1), all places alike. Which part of that interval is below 2/3?
# </details>

# %% [markdown]
# ## One noise vector, twice
#
# The same mistake in another dress. Many engines sample by **Gumbel-max**: add noise to the log-probabilities, take the
# largest. It is fast on a GPU, and it is tempting to make the noise once per position: the draft uses it to draw, and
# later the correction uses the same vector.
#
# The draft's choice then tells something about the noise. `gumbel_joint` knows how much, in closed form.

# %%
from specdec_teach.exact import gumbel_joint

rest4 = [2 / 3, 1 / 3, 0.0, 0.0]
accepted = [min(a, b) for a, b in zip(p4, q4)]
falls = [1 - min(1, a / b) for a, b in zip(p4, q4)]
shared = [
    accepted[token] + sum(falls[draft] * gumbel_joint(rest4, q4, token, draft) for draft in range(4))
    for token in range(4)
]
print("fresh noise       ", show(p4))
print("one vector, twice ", show(shared))

# %% [markdown]
# Off by .025, in two tokens of four. That is the bias that needs six thousand runs.
#
# ## Block: the same law, and more drafts kept
#
# The standard rule judges draft by draft and forgets. Suppose the first draft has p/q = 1/2 and the second p/q = 2. The
# first stands half of the time, and the luck of the second is wasted: 2 counts as 1. Yet the two *together* are as
# likely under the target as under the draft. Why reject them at all?
#
# **Block verification** keeps a running weight instead: w₀ = 1, wᵢ = min(1, wᵢ₋₁ · p/q). The whole block stands
# with chance w. If it does not, shorter prefixes get their turn, from long to short, and the correction comes from
# [w · p − q]₊. It is a different rule with a different residual, so it has to be checked again:

# %%
for verify in ("rejection", "block", "coupled"):
    print(f"{verify:<10} 27 texts, every error below 1e-12: {largest_error(verify) < 1e-12}")

# %% [markdown]
# ### Exercise 04.6: does the whole block stand?
#
# Given the ratios p/q of all drafts, return the chance that *all* of them are accepted: by the standard rule, and by
# block.


# %%
def whole_block(ratios: list[float]) -> tuple[float, float]:
    """Return (standard, block)."""
    # BEGIN SOLUTION
    standard = weight = 1.0
    for ratio in ratios:
        standard *= min(1.0, ratio)
        weight = min(1.0, weight * ratio)
    return standard, weight
    # END SOLUTION


check("04.6", whole_block)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Standard: each draft stands on its own with chance min(1, ratio), and all of them must.
# </details>
# <details><summary>Hint 2</summary>
#
# Block: multiply the ratios one after the other, but cut at 1 after *every* step.
# </details>
# <details><summary>Hint 3</summary>
#
# [.5, 2] gives (.5, 1), and [2, .5] gives (.5, .5): luck must come after the misfortune that it pays for.
# </details>

# %% [markdown]
# Does it pay? Here is the exact expectation of tokens per cycle: the accepted drafts and one more. The third pair is a
# draft that is close to its target.

# %%
near = ([0.5, 0.3, 0.2], [0.4, 0.35, 0.25])

print("pair          γ   standard   block    more")
for name, (a, b) in {"textbook": (p, q), "four tokens": (p4, q4), "close": near}.items():
    for gamma in (1, 2, 4):
        plain, block = (1 + expected_accepted(verify, a, b, gamma) for verify in ("rejection", "block"))
        print(f"{name:<12}  {gamma}   {plain:.3f}      {block:.3f}    {block / plain - 1:.1%}")

# %% [markdown]
# With one draft the two rules are the same. With more, block never keeps fewer, and here it keeps more. Poor drafts gain
# the most, since they have the most bad luck to make up for. For a draft worth having it is a few percent, for nothing
# but some sums.
#
# ## Coupled: the same text
#
# Exactness is about distributions. It does not say that one *seed* gives one *text*.
#
# **Coupled verification** goes further. At each position it fixes one Gumbel vector, from the seed and the position.
# The target draws its token with it. The draft, guessing ahead, draws with it too. A draft stands if it *is* the
# target's token.
#
# Predict: run each rule with seed 1, once with speculation and once without, on the four-token pair. Under which rules
# are the two texts the same? Give a list, such as `["rejection", "block"]`.


# %%
def same_text(verify):
    engine = engine_of(p4, q4, gamma=3, verify=verify)
    seeded = sd.Sampling(seed=1)
    fast = engine.generate([0], seeded, max_new_tokens=40)
    return fast.tokens == engine.generate([0], seeded, max_new_tokens=40, speculate=False).tokens


# BEGIN SOLUTION
guess = ["coupled"]
# END SOLUTION
predict("04.p4", guess, lambda: [verify for verify in ("rejection", "block", "coupled") if same_text(verify)])

# %% [markdown]
# Under `coupled` every token on the page is the target's own choice with that position's noise. The draft changes only
# how many of them come per pass. The same with the story pair, five seeds:

# %%
for verify in ("rejection", "coupled"):
    teller = sd.Engine(
        pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4, verify=verify
    )
    same = 0
    for seed in range(5):
        seeded = sd.Sampling(seed=seed)
        fast = teller.generate(prompt, seeded, max_new_tokens=32, trace=False)
        same += fast.tokens == teller.generate(prompt, seeded, max_new_tokens=32, speculate=False, trace=False).tokens
    print(f"{verify:<10} same text for {same} of 5 seeds")

# %% [markdown]
# The price is acceptance. Nothing can accept more than Σ min(p, q) of the first drafts, and shared noise stays below
# that. It never falls under (1 − TV)/(1 + TV), where TV = 1 − Σ min(p, q).

# %%
print("pair          standard   coupled   never under")
for name, (a, b) in {"textbook": (p, q), "four tokens": (p4, q4)}.items():
    overlap = sum(map(min, a, b))
    agree = sum(gumbel_joint(a, b, token, token) for token in range(len(a)))
    print(f"{name:<12}  {overlap:.3f}      {agree:.3f}     {overlap / (2 - overlap):.3f}")

# %% [markdown]
# That is for drafts that are drawn. A draft that takes its likeliest token pays nothing: it stands with chance p(y)
# under either rule.
#
# ## A draw used twice: harmless here, fatal there
#
# Coupled ties its noise to positions. Could the standard rule do the same? After a rejection the positions behind it
# are drafted again. They would meet the numbers of the drafts that were thrown away.
#
# `rule_law` enumerates the engine's rules once more, but with a memory: for every position it remembers which draft its
# number gives, and in which interval its u must lie by now. γ is 2, and we look at texts of two tokens.

# %%
print("rule        numbers   largest error     text     wanted   found")
for verify in ("rejection", "block"):
    for numbers in ("fresh", "reused"):
        law2 = rule_law(verify, p4, q4, gamma=2, tokens=2, reuse=numbers == "reused")
        error = {text: abs(chance - p4[text[0]] * p4[text[1]]) for text, chance in law2.items()}
        text = max(error, key=error.get)
        if error[text] < 1e-12:
            print(f"{verify:<10}  {numbers:<7}   below 1e-12")
        else:
            wanted = p4[text[0]] * p4[text[1]]
            print(f"{verify:<10}  {numbers:<7}   {error[text]:.4f}            {text}   {wanted:.4f}   {law2[text]:.4f}")

# %% [markdown]
# The standard rule goes from left to right and stops at the first draft that falls. Nobody has looked at what is behind
# it. A number that nobody has looked at is as good as a fresh one.
#
# Block starts from the *end*. Before it settles for a short prefix, it has looked at every later draft and every later
# number, and they have failed. Those numbers are no longer just any numbers. Meeting them again tilts the next cycle:
# the text (0, 3) comes up nearly a fifth too often.
#
# Why may coupled do it? Because the number of a position decides one token only, the target's own, and the
# text that is kept never depends on what was drafted.
#
# So this engine numbers its draws and never uses a number twice, not even that of a discarded draft. Only coupled ties
# them to positions, and there it is the whole idea.
#
# ## Try it yourself
#
# - Swap p and q in `engine_of`. What is served now, and does the acceptance change?
# - A q with a zero where p is positive, then a p with a zero where q is positive. Does either break the law?
# - `rule_law` with γ = 3 and three tokens. Is the largest error of the reused numbers larger or smaller than here?
# - In the player below, block judges. Step through the verdicts: some drafts are accepted without a number u of their
#   own. Which, and why do they need none?

# %%
blocks = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4, verify="block")
sd.play(blocks, prompt, story, max_new_tokens=32)

# %% [markdown]
# ## Honest limits
#
# - *Exact* means the target's **processed** distribution: after temperature, top-k and penalties. If the target is
#   quantised, it is the quantised target that is reproduced.
# - It is a statement about distributions, not about texts. Only coupled and greedy give the same text.
# - We enumerated float64 models with three or four tokens. At real sizes the rule is the same, but sums are rounded, and a
#   kernel can have mistakes of its own. It needs tests of its own.
# - A proof of the rule is not a proof of the caches. If a rejected draft stays in a cache, p itself is wrong. Lesson 05.
# - Some rules are lossy on purpose: `"threshold"`, `"typical"`, `"synthetic"`. Their traces say `not lossless`.
#
# ## Can you?
#
# - [ ] write the correction's distribution, and say why its normaliser is the chance of a rejection (04.1)
# - [ ] enumerate one cycle of any rule on paper (04.2)
# - [ ] give a case in which a wrong residual shows, and one in which it hides (04.3)
# - [ ] say how many runs a bias of .01 needs (04.4)
# - [ ] explain what enumeration sees and seeded runs do not, and the other way round (04.5)
# - [ ] say what block's weight remembers and the standard rule forgets (04.6)
#
# ## In 60 seconds
#
# A token gets onto the page as an accepted draft, with chance min(p, q), or as a correction, with chance [p − q]₊. The
# sum is p. That works since the chance of a rejection and the mass of the residual are the same number. Drawing the
# correction from p counts the accepted share twice. Enumerate small cases, with a residual of more than one token;
# then run real seeds, since enumeration takes fresh numbers for granted. Block judges the drafts together and is exact
# with fresh numbers. Coupled gives the same text for one seed, for a little acceptance.
#
# **Red flags** when you read about it or review an engine: "rejected, so sample from the target" · one random vector per
# position for everything · a test of the sampler with the textbook case only · "ten thousand samples agree, so it is
# exact" · "lossless, so the same text".
#
# **Asked in interviews**
#
# <details><summary>Why is the correction not drawn from p?</summary>
#
# Accepted drafts have already brought min(p, q) of every token. Missing is [p − q]₊, and only that may be filled up. Drawing
# from p adds again to tokens that have their share, and takes from those that the draft proposes too seldom.
# </details>
#
# <details><summary>Does the proof need a good draft?</summary>
#
# No. It needs that drafts are really drawn from the q that is reported. A poor q costs acceptance. A wrong q, such as the
# softmax of a draft that takes its argmax, costs exactness.
# </details>
#
# <details><summary>Your enumeration passes at 1e-12. Which bugs can still be there?</summary>
#
# Random numbers that are not fresh or not uniform. Caches of the real model. Anything that happens only at real size: padding
# of the vocabulary, rounding of sums, an empty residual. And whatever the small case hides, such as a residual of one token.
# </details>
#
# <details><summary>A chi-square on a real pair passes with 10,000 samples. Are you convinced?</summary>
#
# Ask for its power: which bias would it have seen? For a token of probability .4 about .02, at four standard errors.
# Show that it fails on an engine with a known mistake of the size you care about.
# </details>
#
# <details><summary>Block accepts more and is exact. Why is it not used everywhere?</summary>
#
# The gain is small where drafts are short. It needs the sums of all rows, not only of the first rejected one. And it
# forbids a habit that the standard rule forgives: reusing the numbers of discarded drafts.
# </details>
#
# ## Where to read more
#
# Leviathan, Kalman, Matias, *Fast inference from transformers via speculative decoding* (2023), section 2.3 and appendix A.1.
# Chen and others, *Accelerating large language model decoding with speculative sampling* (2023), theorem 1.
# Sun and others, *Block verification accelerates speculative decoding* (2024), algorithm 2 and its theorem of exactness.
# Daliri and others, *Coupling without communication and drafter-invariant speculative decoding* (2024), for shared noise.
