# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 30
#     outputs: 22
# ---

# %% [markdown]
# # 03 · Acceptance
#
# **30 minutes · medium · you need lesson 02, and to know what sampling with a temperature is. No GPU, no download.**
#
# The target has given a row for every draft. Now somebody must decide which drafts stand. The rule is one line long, and
# nearly every word of it can be got wrong. In this lesson you write it, and let the engine say what each mistake does.
#
# After it you can
#
# - write the rule for temperature 0 and the rule for sampling;
# - say how often a draft stands, before any dice are thrown;
# - judge drafts that come without probabilities;
# - say which p and which q the rule means.
#
# *Why* the rule gives back the target's distribution is [lesson 04](04_why_it_is_exact.ipynb). Here you see *that* it does.

# %% [markdown]
# ## The favourite is not the test
#
# First a look at real verdicts: some runs at temperature 0.8, and every draft that was judged in them. The target's
# *favourite* is the likeliest token of its row.

# %%
import specdec_teach as sd
from specdec_kernels import rejection
from specdec_teach.exercises import check, predict
from specdec_teach.exercises.laws import engine_with, first_token, model_of

pair = sd.load_pair()
real = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
prompt = "Mira had a red lantern and"
runs = [
    real.generate(prompt, sd.Sampling(temperature=0.8, seed=seed), max_new_tokens=60).trace for seed in range(1, 9)
]

judged = [d for run in runs for cycle in run.cycles for d in cycle.decisions if d.status in ("accepted", "rejected")]
liked = [d.token == d.p_top.tokens[0][0] for d in judged]
for status in ("accepted", "rejected"):
    verdicts = [favourite for d, favourite in zip(judged, liked) if d.status == status]
    print(f"{status}  {len(verdicts):3d}   favourite: {sum(verdicts):3d}   something else: {verdicts.count(False):3d}")

# %% [markdown]
# Read the upper row: drafts stand that are *not* the favourite. They have to. A target that says something else now and
# then must go on saying it now and then.
#
# Play one of the runs. **R** jumps to the next rejection. At each verdict compare the target's bar with the draft's.

# %%
runs[0].show()

# %% [markdown]
# ## Temperature 0: the favourite after all
#
# To see every number, we go on with models of three tokens. `model_of` makes a model that always has the same opinion.
# This pair stays with us: the target's p and the draft's q.

# %%
p = [0.6, 0.3, 0.1]
q = [0.2, 0.5, 0.3]
small = sd.Engine(model_of(p), drafter=sd.ModelDrafter(model_of(q)), gamma=1)

cycle = next(small.stream([0], sd.Sampling.greedy(), max_new_tokens=2))
draft = cycle.decisions[0]
print(f"temperature 0: token {draft.token} is drafted, with p = {draft.p:.0f} and q = {draft.q:.0f}: {draft.status}")
print(f"the {cycle.last_kind} is token {cycle.last}")

# %% [markdown]
# At temperature 0 all of the probability is on the favourite. So p is 1 or 0, and the rule is short: **a draft stands if it
# is the favourite of its row.** The first that is not is replaced by the favourite. If all stand, the last row adds its own.
#
# If two tokens share the top, somebody has to choose. Here the lowest id counts, everywhere: in the target, in the
# draft, in the rule. Two parts that break ties differently give different texts.
#
# ### Exercise 03.1
#
# `rows` holds γ + 1 lists of logits, `drafts` γ tokens. Return the tokens that the cycle adds.

# %%
def greedy_tokens(rows: list[list[float]], drafts: list[int]) -> list[int]:
    """The drafts that stand, and one token more."""
    # BEGIN SOLUTION
    added = []
    for row, draft in zip(rows, drafts):
        favourite = row.index(max(row))
        added.append(favourite)
        if draft != favourite:
            return added
    return [*added, rows[-1].index(max(rows[-1]))]
    # END SOLUTION


check("03.1", greedy_tokens)

# %% [markdown]
# <details><summary>Hint 1: the favourite</summary>
#
# `row.index(max(row))` gives the lowest id at the top.
# </details>
# <details><summary>Hint 2: the order</summary>
#
# Go through rows and drafts from the left. At the first draft that is not the favourite, add the favourite and stop.
# </details>
# <details><summary>Hint 3: the end</summary>
#
# If the loop ends without a stop, all drafts stand, and `rows[-1]` has one token to add. Never both.
# </details>
#
# ### A control: the same rule while sampling
#
# What if one keeps this rule at temperature 1: a draft stands if it is the favourite, else the favourite is taken?
# `engine_with` puts any rule into the engine. It takes two functions of (p, q, draft): the chance that the draft
# stands, and what a correction is drawn from. `first_token` then asks `sd.exact_law`, which runs the engine through *every*
# way the dice can fall and adds up their probabilities. No sample is drawn, so the answer is exact.
#
# **Predict:** p is [0.6, 0.3, 0.1]. How often does such an engine emit token 0? Give a number from 0 to 1.

# %%
def show(name, law):
    print(f"{name:<34} {[round(chance, 3) for chance in law]}")


def is_favourite(p, q, draft):
    return float(draft == p.index(max(p)))


def only_favourite(p, q, draft):
    return [is_favourite(p, q, token) for token in range(len(p))]


match = engine_with(model_of(p), sd.ModelDrafter(model_of(q)), is_favourite, only_favourite)

# BEGIN SOLUTION
guess = 1.0
# END SOLUTION
predict("03.p1", guess, lambda: round(first_token(match)[0], 3))

# %%
show("the target's p", p)
show("matching the favourite", first_token(match))

# %% [markdown]
# Token 0 every time. Matching the favourite turns sampling into temperature 0, whatever you asked for.
#
# ## Sampling: one line
#
# **Draw u evenly between 0 and 1. The draft stands if u · q < p.** p and q are the two models' probabilities of the *drafted*
# token.
#
# **Predict:** token 1 is drafted, with p = 0.3 and q = 0.5. How often does it stand? Give a number from 0 to 1.

# %%
def chance_to_stand(token, mode="sample"):
    """How often the engine accepts this draft: taken from the trace of a run in which it is drafted."""
    engine = sd.Engine(model_of(p), drafter=sd.ModelDrafter(model_of(q), mode=mode), gamma=1)
    run = engine.generate([0], sd.Sampling(seed=1), max_new_tokens=60).trace
    judged = (d for cycle in run.cycles for d in cycle.decisions if d.token == token and d.accept_probability is not None)
    return round(next(judged).accept_probability, 3)


# BEGIN SOLUTION
guess = 0.6
# END SOLUTION
predict("03.p2", guess, lambda: chance_to_stand(1))

# %%
for token in range(3):
    print(f"token {token}  p = {p[token]}  q = {q[token]}  stands with chance {chance_to_stand(token)}")

# %% [markdown]
# u · q < p means u < p/q. So the chance is p/q, or 1 if p is the larger. A token that the target likes *less* than the draft
# does still stands sometimes. A token that it likes more always stands.
#
# Now the small print. The test multiplies and never divides, since q may be 0 after rounding. It is strict, and u is
# never exactly 0, so a token with p = 0 has no way through.

# %%
for u, p_of, q_of in ((0.5, 0.2, 0.4), (0.000001, 0.0, 0.4), (0.5, 0.0, 0.0), (0.5, 0.2, 0.0)):
    stands = rejection.accepts(u, p_of, q_of)
    print(f"u = {u:<8.6g}  q = {q_of}  p = {p_of}   u·q = {u * q_of:<8.2g}  stands: {stands}")

# %% [markdown]
# ### Exercise 03.2
#
# Write the test.

# %%
def accepts(u: float, p: float, q: float) -> bool:
    """Whether a draft with these probabilities stands."""
    # BEGIN SOLUTION
    return u * q < p
    # END SOLUTION


check("03.2", accepts)

# %% [markdown]
# <details><summary>Hint 1: what it is not</summary>
#
# Not `p >= q`: that would never let a draft stand that the target likes a little less. And nothing is divided.
# </details>
# <details><summary>Hint 2: the border</summary>
#
# If u · q equals p, the draft falls.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# One comparison of `u * q` with `p`.
# </details>
#
# ## After a rejection
#
# A draft has fallen, and its place needs a token. The obvious choice: draw it from p.
#
# **Predict:** drafts are judged by u · q < p, and after a rejection the token is drawn from p. Does the engine then emit
# tokens as often as p says? Answer "yes" or "no".

# %%
def fair(p, q, draft):
    """The chance that the sampling rule gives a draft."""
    return rejection.accept_probability(p[draft], q[draft])


def same(law, p):
    """Whether two laws are equal, up to rounding."""
    return "yes" if max(abs(a - b) for a, b in zip(law, p)) < 1e-12 else "no"


redraw = engine_with(model_of(p), sd.ModelDrafter(model_of(q)), fair, lambda p, q, draft: p)

# BEGIN SOLUTION
guess = "no"
# END SOLUTION
predict("03.p3", guess, lambda: same(first_token(redraw), p))

# %%
show("the target's p", p)
show("after a rejection, draw from p", first_token(redraw))

# %% [markdown]
# Token 0 has lost, tokens 1 and 2 have gained: the result leans towards the draft. The accepted drafts have already
# brought much of token 1. Drawing from the whole of p brings it again.
#
# What is missing is what q offered *too little* of. So a correction is drawn from the **residual**: p − q where that is
# positive, 0 elsewhere, scaled to sum to 1.

# %%
for token in range(3):
    left = max(p[token] - q[token], 0.0)
    print(f"token {token}  p = {p[token]}  q = {q[token]}  p − q = {p[token] - q[token]:+.1f}  residual before scaling {left:.1f}")

# %% [markdown]
# Here one token is left, so every correction is token 0. If nothing is left at all, p and q are the same. A rejection is
# then impossible except by rounding, and the engine draws from p and counts the event.
#
# ### Exercise 03.3
#
# Write the distribution of the correction. If the residual is empty, return p.

# %%
def correction(p: list[float], q: list[float]) -> list[float]:
    """What the token after a rejection is drawn from; sums to 1."""
    # BEGIN SOLUTION
    left = [max(a - b, 0.0) for a, b in zip(p, q)]
    return [part / sum(left) for part in left] if sum(left) > 0 else p
    # END SOLUTION


check("03.3", correction)

# %% [markdown]
# <details><summary>Hint 1: where q offered enough</summary>
#
# There p − q is 0 or less, and the token gets 0. `max(a - b, 0.0)` does that.
# </details>
# <details><summary>Hint 2: to sum to 1</summary>
#
# Divide every part by the sum of the parts.
# </details>
# <details><summary>Hint 3: the rare case</summary>
#
# If that sum is 0 you cannot divide. Return `p`.
# </details>
#
# ### A safe little epsilon
#
# To divide without a thought, somebody adds 10⁻⁹ to every entry of the residual. That looks harmless. But a real vocabulary
# is long: take 151,000 tokens, and a good draft, which moves a thousandth of p from token 0 to token 1. So a draft falls once in
# a thousand times, and every correction should be token 0.
#
# **Predict:** of 100 corrections, how many are now some *other* token? Choose 0, 1, 13 or 50.

# %%
import torch

V = 151_000
close_p = torch.full((V,), 1 / V, dtype=torch.float64)
close_p[:2] += torch.tensor([0.001, 0.001], dtype=torch.float64)
close_p /= close_p.sum()
close_q = close_p.clone()
close_q[:2] += torch.tensor([-0.001, 0.001], dtype=torch.float64)


def strays(epsilon):
    """Of 100 corrections, those that are not token 0."""
    left, _ = rejection.residual(close_p, close_q, torch.tensor(1))
    left = left + epsilon
    return round(100 * (1 - left[0] / left.sum()).item())


# BEGIN SOLUTION
guess = 13
# END SOLUTION
predict("03.p4", guess, lambda: strays(1e-9))

# %%
for epsilon in (0.0, 1e-12, 1e-9, 1e-6):
    print(f"epsilon {epsilon:<7g} {strays(epsilon):>3} of 100 corrections are strays")

# %% [markdown]
# The epsilon is added 151,000 times, and together that is 0.00015 beside a residual of 0.001. The better the draft, the smaller
# its residual, and the more of it is noise. So nothing is added. An empty residual is a case of its own.
#
# ## The result
#
# The two halves together, on the real engine. Not a sample: every way the dice can fall.

# %%
law = first_token(small)
show("the target's p", p)
show("u·q < p, then the residual", law)
print(f"largest difference below 1e-12: {max(abs(a - b) for a, b in zip(law, p)) < 1e-12}")

# %% [markdown]
# **What comes out is the target's p, whatever q was.** Change q above and run again: only the number of rejections changes.
#
# The control: two rules that look as reasonable. Both let a draft stand if and only if p ≥ q, without any dice. The first
# draws its corrections from p, the second from the residual.
#
# **Predict:** which of them emits tokens as p says? "first", "second", "both" or "neither".

# %%
def at_least(p, q, draft):
    return float(p[draft] >= q[draft])


def residual(p, q, draft):
    return [max(a - b, 0.0) for a, b in zip(p, q)]


drafter = sd.ModelDrafter(model_of(q))
from_p = engine_with(model_of(p), drafter, at_least, lambda p, q, draft: p)
from_rest = engine_with(model_of(p), drafter, at_least, residual)


def right_ones():
    found = tuple(same(first_token(engine), p) == "yes" for engine in (from_p, from_rest))
    return {(True, True): "both", (True, False): "first", (False, True): "second", (False, False): "neither"}[found]


# BEGIN SOLUTION
guess = "neither"
# END SOLUTION
predict("03.p5", guess, right_ones)

# %%
show("the target's p", p)
show("p ≥ q, then draw from p", first_token(from_p))
show("p ≥ q, then the residual", first_token(from_rest))

# %% [markdown]
# With the residual it is worse: tokens 1 and 2 never come. The draft brings too much of them, so a threshold turns every one away,
# and the residual has nothing of them.
#
# A warning about test cases. With these p and q the residual has a single token, so a wrong correction can pass. Take the
# correction "always the token with the largest p − q". Three tokens do not catch it. Four do.

# %%
def largest(p, q, draft):
    left = residual(p, q, draft)
    return [float(part == max(left)) for part in left]


p4, q4 = [0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5]
for target_p, draft_q in ((p, q), (p4, q4)):
    wrong = engine_with(model_of(target_p), sd.ModelDrafter(model_of(draft_q)), fair, largest)
    show("the target's p", target_p)
    show("largest p − q", first_token(wrong))

# %% [markdown]
# ## How often does a draft stand?
#
# A token is drafted with chance q, and then it stands with chance min(1, p/q). Multiply the two, and add up over all tokens:
# that is how often *some* draft stands. It is called **α**, the overlap of the two distributions.

# %%
alpha = next(small.stream([0], sd.Sampling(seed=1), max_new_tokens=2)).decisions[0].alpha
parts = [q[token] * chance_to_stand(token) for token in range(3)]
for token, part in enumerate(parts):
    print(f"token {token}  drafted {q[token]}  stands {chance_to_stand(token):<5}  both {part:.1f}")
print(f"added up          {sum(parts):.1f}")
print(f"α in the trace    {alpha:.1f}")

# %% [markdown]
# And in the real runs from the top of this lesson? Each judged draft has an α of its own. Their sum is how many
# acceptances one should expect. Compare it with how many there were.

# %%
print(f"judged    {len(judged)}")
print(f"expected  {sum(d.alpha for d in judged):.0f}")
print(f"accepted  {sum(d.accepted for d in judged)}")

# %% [markdown]
# The two numbers are near each other and not equal: dice were thrown. α is a property of the two distributions, the
# acceptance rate is what happened.
#
# ### Exercise 03.4
#
# Write α. One `min` is enough, and nothing need be divided. Compare the last column above with p and q.

# %%
def overlap(p: list[float], q: list[float]) -> float:
    """The chance that a draft drawn from q stands."""
    # BEGIN SOLUTION
    return sum(min(a, b) for a, b in zip(p, q))
    # END SOLUTION


check("03.4", overlap)

# %% [markdown]
# <details><summary>Hint 1: one token</summary>
#
# q · min(1, p/q) is the smaller of p and q.
# </details>
# <details><summary>Hint 2: all tokens</summary>
#
# Add it up over the vocabulary.
# </details>
# <details><summary>Hint 3: a check</summary>
#
# Equal distributions give 1. Distributions with no token in common give 0.
# </details>
#
# ## Drafts without probabilities
#
# A draft need not be drawn at all. It may be the draft model's favourite, or copied from earlier text. Then there was no
# choice: the token was certain, and the q it was drawn from is **one-hot**, 1 for that token and 0 for all others.
#
# **Predict:** the draft model now proposes its favourite, token 1, every time. Still p = 0.3, and its softmax still says 0.5.
# How often does the draft stand?

# %%
# BEGIN SOLUTION
guess = 0.3
# END SOLUTION
predict("03.p6", guess, lambda: chance_to_stand(1, mode="argmax"))

# %%
certain = sd.Engine(model_of(p), drafter=sd.ModelDrafter(model_of(q), mode="argmax"), gamma=1)
d = next(certain.stream([0], sd.Sampling(seed=1), max_new_tokens=2)).decisions[0]
print(f"draft {d.token}, p = {d.p:.1f}, q as reported = {d.q:.1f}, stands with chance {d.accept_probability:.1f}")
show("the target's p", p)
show("favourite drafted, q one-hot", first_token(certain))

# %% [markdown]
# With q = 1 the test is u < p: the draft stands with chance p. The residual is p without that token. And what comes out is
# still p.
#
# The control is the commonest mistake with such drafters: report the softmax, although nothing was drawn from it.
# `ScriptedDrafter` proposes what it is told and reports what it is told.

# %%
pretends = sd.Engine(model_of(p), drafter=sd.ScriptedDrafter([1, 1], q=q), gamma=1)
show("the target's p", p)
show("favourite drafted, softmax q", first_token(pretends))

# %% [markdown]
# Token 1 comes twice as often as it should, and token 2 never. The rule trusts q. If q is not what the draft was drawn from,
# the result is wrong, and no error is raised.
#
# ### Exercise 03.5
#
# A drafter proposes the favourite of `q`. Return the distribution it must report. Ties go to the lowest id.

# %%
def reported(q: list[float]) -> list[float]:
    """The distribution that the proposed token was really drawn from."""
    # BEGIN SOLUTION
    favourite = q.index(max(q))
    return [float(token == favourite) for token in range(len(q))]
    # END SOLUTION


check("03.5", reported)

# %% [markdown]
# <details><summary>Hint 1: the question</summary>
#
# If you could run the drafter a thousand times, how often would each token be proposed?
# </details>
# <details><summary>Hint 2: the shape</summary>
#
# As many numbers as `q` has. One of them is 1.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# `q.index(max(q))` is the proposed token.
# </details>
#
# ## Which p, which q?
#
# A model gives logits. Then come temperature, top-k, top-p, penalties and bans, and only then is a token drawn. What it is
# really drawn from is the **processed** distribution. Take top-k with k = 2: each side keeps its two likeliest tokens and
# scales them to sum to 1.

# %%
p_raw, q_raw = [0.4, 0.3, 0.2, 0.1], [0.1, 0.35, 0.3, 0.25]
top2 = sd.Sampling(top_k=2)
both_sides = sd.Engine(model_of(p_raw), drafter=sd.ModelDrafter(model_of(q_raw)), gamma=1)
d = next(both_sides.stream([0], sd.Sampling(top_k=2, seed=1), max_new_tokens=2)).decisions[0]


def listed(top):
    """A distribution from the trace, as a list."""
    return [dict(top.tokens).get(token, 0.0) for token in range(4)]


show("raw p", p_raw)
show("raw q", q_raw)
show("processed p", listed(d.p_top))
show("processed q", listed(d.q_top))

# %% [markdown]
# The drafter draws from the processed q. Suppose the rule is given the processed p, but the q it finds is the raw softmax.
# That is easily done: the logits lie at hand, and the numbers look like probabilities.
#
# **Predict:** does the engine still emit tokens as often as the processed p says? "yes" or "no".

# %%
mixed = engine_with(
    model_of(p_raw),
    sd.ModelDrafter(model_of(q_raw)),
    lambda p, _, draft: fair(p, q_raw, draft),
    lambda p, _, draft: residual(p, q_raw, draft),
)

# BEGIN SOLUTION
guess = "no"
# END SOLUTION
predict("03.p7", guess, lambda: same(first_token(mixed, top2), listed(d.p_top)))

# %%
show("processed p, the right law", first_token(both_sides, top2))
show("raw q in the rule", first_token(mixed, top2))

# %% [markdown]
# With the processed q on both sides the law is right. With the raw one, tokens 0 and 1 change places as favourites. No
# token appears that top-k forbids, so the text looks healthy. Only the law shows it.
#
# ### Exercise 03.6
#
# Given raw p, raw q and k, return the two distributions the rule must use. The check puts them into the engine. You may
# assume that no two tokens are equally likely.

# %%
def both(p: list[float], q: list[float], k: int) -> tuple[list[float], list[float]]:
    """The processed p and the processed q, for top-k."""
    # BEGIN SOLUTION
    def top(law):
        floor = sorted(law)[-k]
        kept = [chance if chance >= floor else 0.0 for chance in law]
        return [chance / sum(kept) for chance in kept]

    return top(p), top(q)
    # END SOLUTION


check("03.6", both)

# %% [markdown]
# <details><summary>Hint 1: each on its own</summary>
#
# p keeps its own k tokens and q keeps its own. They need not be the same ones.
# </details>
# <details><summary>Hint 2: what stays</summary>
#
# `sorted(law)[-k]` is the smallest probability that stays. The others become 0.
# </details>
# <details><summary>Hint 3: the last step</summary>
#
# Divide by the sum of what was kept.
# </details>
#
# ## Try it yourself
#
# - Make q equal to p. What is α, and can a draft fall at all? Then give q nothing in common with p.
# - Run the first cell at temperature 0.2 and at 1.5. Which of its numbers moves most?
# - Let the draft use top-2 and the rule top-3: in `mixed`, put a list of your own in place of `q_raw`. Is the law right?
# - Invent a rule for `engine_with` and try to get p out with a correction other than the residual.
# - In the lab below, drag both laws, compare the rules, and let the engine draw. Its second rule, coupled, is exact too:
#   draft and target draw from one noise. For which p and q does it accept as many drafts as the first?

# %%
sd.labs.acceptance(p4, q4)

# %% [markdown]
# ## Honest limits
#
# - The exact laws here are those of the first new token, on models of three or four tokens with one opinion. Lesson 04
#   has the argument for all of them.
# - "As p says" means the *processed* p. If you ask for top-k, that is what you get, with or without drafts.
# - The rule is exact for drafts drawn from the reported q. It cannot notice a drafter that reports something else.
# - A high α is not yet a saving of time. Lesson 10 sets it against what a draft costs.
#
# ## Can you?
#
# - [ ] write the greedy cycle, ties included (03.1)
# - [ ] write the test for sampling, and say why it is strict and never divides (03.2)
# - [ ] write the correction, and name its rare case (03.3)
# - [ ] compute α from p and q (03.4)
# - [ ] say what q is for a drafter that does not draw (03.5)
# - [ ] say which p and q the rule means under top-k (03.6)
#
# ## In 60 seconds
#
# At temperature 0 a draft stands if it is the favourite of its row. When sampling it stands if u · q < p, strictly, with u
# inside (0, 1): always if p ≥ q, else with chance p/q. After a rejection the token is drawn from the positive part of p − q,
# scaled to 1. A draft stands with chance α = Σ min(p, q). A draft that was certain has a one-hot q and stands with chance p.
# p and q are always the processed distributions, the ones really drawn from.
#
# **Red flags**: "accept if p ≥ q" · "accept if it is the target's argmax" at temperature 1 · "after a rejection, sample from
# the target" · a division by q · an epsilon in the residual · `softmax(logits)` next to top-k or top-p · a drafter that
# takes the argmax and reports its softmax.
#
# **Asked in interviews**
#
# <details><summary>Why may a draft stand although the target likes it less than the draft model does?</summary>
#
# Because the target likes it a little. If it never stood, it would have to come from corrections alone, and they only
# bring tokens of which q offers too little. It would be lost.
# </details>
#
# <details><summary>p = 0.3, q = 0.5. What happens to such a draft?</summary>
#
# It stands in 60 % of the cases. Otherwise the token is drawn from the residual, and that cannot be the same token again,
# since p − q is negative for it.
# </details>
#
# <details><summary>An n-gram drafter copies tokens and has no probabilities. Can sampling still be exact?</summary>
#
# Yes. Its q is one-hot: accept with chance p of the token, otherwise draw from p without that token, scaled to 1.
# </details>
#
# <details><summary>Top-p is set for the target only. Is the result wrong?</summary>
#
# Not if q is what the drafts were really drawn from: any honest q will do. But drafts outside the target's nucleus have p = 0
# and always fall, so α is lower than it need be.
# </details>
#
# <details><summary>Does a draft model that is very sure of itself get more drafts accepted?</summary>
#
# Not by being sure. Only Σ min(p, q) counts. A sure draft under an unsure target has a small overlap.
# </details>
#
# ## Where to read more
#
# Leviathan, Kalman, Matias, *Fast inference from transformers via speculative decoding* (2023), sections 2.2 and 2.3, algorithm 1;
# sections 3.1 and 3.2 for α.
# Chen and others, *Accelerating large language model decoding with speculative sampling* (2023), algorithm 2 and theorem 1.
