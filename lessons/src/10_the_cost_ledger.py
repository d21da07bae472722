# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 30
#     outputs: 34
# ---

# %% [markdown]
# # 10 · The cost ledger
#
# **30 minutes · medium · you need lesson 03. No GPU, no download.**
#
# Drafts are not free, and speculation does not always pay. Whether it does can be worked out beforehand from four
# numbers. In this lesson you count them, measure them on this machine, predict, and let the engine say how good the
# prediction was.
#
# After it you can
#
# - split a run into what was counted and what each item costs;
# - predict tokens per cycle and speed-up from α, c, v and γ, and measure both;
# - choose γ;
# - say beforehand when speculation will lose;
# - tell an honest benchmark from one that only looks like it.
#
# **Two kinds of output.** Counts are the same on every machine. Whatever is measured belongs to the machine and the
# moment. Cells that measure say so in their first line; your numbers there will differ from those stored here.

# %% [markdown]
# ## Where a second goes
#
# Eight stories with γ = 4, and a ledger with two columns. First the column that can be counted.

# %%
import specdec_teach as sd
from specdec_teach.exercises import check, predict
from specdec_teach.exercises.laws import model_of
from specdec_teach.exercises.lesson_04 import expected_accepted
from specdec_teach.exercises.lesson_10 import Clock, best

pair = sd.load_pair()


def engine_with(drafter=None, **settings):
    """An engine on the story target; the story draft unless another drafter is given."""
    drafter = drafter or sd.ModelDrafter(pair.draft)
    return sd.Engine(pair.target, drafter=drafter, tokenizer=pair.tokenizer, gamma=4, **settings)


def story(seed, temperature=0.8):
    """Settings of a text that nothing ends before its length, so that all texts are equally long."""
    return sd.Sampling(temperature=temperature, seed=seed, eos_token_id=None)


prompt = "Mira had a red lantern and"
engine = engine_with()
runs = [engine.generate(prompt, story(seed), max_new_tokens=60) for seed in range(8)]


def tally(results):
    """The counts of several runs, added up."""
    return {name: sum(getattr(r.stats, name) for r in results) for name in ("cycles", "drafted", "accepted", "emitted")}


print(runs[0].text)
print()
for name, number in tally(runs).items():
    print(f"{name:<9} {number:4d}")

# %% [markdown]
# Every cycle is one forward of the target, every draft one step of the draft model. And this is the column of
# seconds, as shares of the whole:

# %% tags=["nbval-ignore-output"]
# measured: your numbers will differ
spent = {name: sum(getattr(r.stats.seconds, name) for r in runs[1:]) for name in ("draft", "target", "verify", "other")}
for name, seconds in spent.items():
    share = seconds / sum(spent.values())
    print(f"{name:<7} {share:5.0%}  {'█' * round(40 * share)}")

# %% [markdown]
# (The first run is left out of the seconds. It paid for everything that happens only once.)
#
# Two lines make up nearly all of the bill, so two prices are enough. Both are given in **plain steps**: what one
# token costs without speculation.
#
# - **v**: one target forward of a cycle. It has γ + 1 rows, and they may cost more than one row does. v₅ = 1.1
#   means: five rows cost 1.1 plain steps.
# - **c**: one draft step.
#
# The bill is cycles · v + drafts · c. Plain decoding would pay 1 for every token. So
#
# **speed-up = emitted / (cycles · v + drafted · c)**


# %%
def speed_up(counts, c, v=1.0):
    """Plain steps for these tokens, divided by the bill with speculation."""
    return counts["emitted"] / (counts["cycles"] * v + counts["drafted"] * c)


for c, v in ((0.0, 1.0), (0.1, 1.0), (0.1, 1.3), (0.5, 1.3)):
    print(f"at c = {c}, v = {v}   {speed_up(tally(runs), c, v):.2f} ×")

# %% [markdown]
# The same runs on four machines. The counts are the engine's, the prices are the machine's.
#
# ## Acceptance rate is not speed-up
#
# What would the perfect draft do? It says just what the target says: the target itself. All drafts stand, and a cycle
# with γ = 4 emits five tokens.
#
# **Predict:** the target drafts for itself, so c = 1. Let v be 1 too. How many times as fast as plain decoding? Give a
# number.


# %%
def count(gamma, who=engine, seeds=range(1, 25), temperature=0.8, tokens=60):
    """Counts over several texts, written side by side."""
    ways = [story(seed, temperature) for seed in seeds]
    return tally(who.generate([prompt] * len(ways), ways, gamma=gamma, max_new_tokens=tokens, trace=False))


itself = engine_with(sd.ModelDrafter(pair.target))

# BEGIN SOLUTION
guess = 1.0
# END SOLUTION
predict("10.p1", guess, lambda: round(speed_up(count(4, itself, range(1, 4)), c=1.0), 2))

# %%
counts = count(4, itself, range(1, 4))
print(counts)
print(f"acceptance rate {counts['accepted'] / counts['drafted']:.2f}")
print(f"tokens a cycle  {counts['emitted'] / counts['cycles']:.2f}")

# %% [markdown]
# Five tokens for five forwards. The best acceptance rate there is, and nothing gained; and rows and bookkeeping are not
# quite free. On this machine:

# %% tags=["nbval-ignore-output"]
# measured: your numbers will differ
from statistics import median

from specdec_teach.probe import alternate, measure


def timed(who, gamma, texts=4, batch=1, tokens=30):
    """How many times as fast as plain decoding, for the same texts: medians over rounds in which both take turns."""

    def write(speculate):
        for first in range(0, texts, batch):
            ways = [story(seed) for seed in range(first, first + batch)]
            who.generate([prompt] * batch, ways, gamma=gamma, max_new_tokens=tokens, speculate=speculate, trace=False)

    turns = {"plain": lambda: write(False), "speculative": lambda: write(True)}
    seconds = alternate(turns, rounds=3, warm_up=1)
    return median(seconds["plain"]) / median(seconds["speculative"])


print(f"the target drafts for itself   {timed(itself, 4):.2f} ×")
print(f"the story draft                {timed(engine, 4):.2f} ×")

# %% [markdown]
# The draft that is wrong now and then is the faster one, since it is cheap.
#
# The rate has another trap. The same draft model, the same prompt, only γ grows.
#
# **Predict:** γ goes from 1 to 8. Does the acceptance rate "rise", "fall" or "stay"?

# %%
by_gamma = {gamma: count(gamma) for gamma in (1, 2, 4, 8)}
rates = {gamma: found["accepted"] / found["drafted"] for gamma, found in by_gamma.items()}


def way(first, last):
    return "stay" if abs(first - last) < 0.02 else "rise" if last > first else "fall"


# BEGIN SOLUTION
guess = "fall"
# END SOLUTION
predict("10.p2", guess, lambda: way(rates[1], rates[8]))

# %%
print("γ   acceptance rate   tokens a cycle   speed-up at c = 0.1")
for gamma, found in by_gamma.items():
    print(f"{gamma}   {rates[gamma]:<15.2f}   {found['emitted'] / found['cycles']:<14.2f}   {speed_up(found, 0.1):.2f}")

# %% [markdown]
# The rate falls by more than a third, and speed rises all the same. The draft has not become worse. The rate is
# accepted through drafted, and it counts every draft that stands *behind* a rejection as a failure, although nobody
# judged it. The longer the block, the more of those.
#
# (Drafts behind the end of a text are left out, and if nothing was drafted the rate is `None`, not 0.)

# %%
print(engine.generate(prompt, story(1), speculate=False, max_new_tokens=4).stats.acceptance_rate)

# %% [markdown]
# ## α: of those that were judged
#
# α is the chance that a draft stands *when its turn comes*. Lesson 03 gave it for one position: Σ min(p, q). From a
# run you estimate it by looking at each cycle up to its first rejection, and no further. Statisticians call such data
# *censored*: what is behind the rejection is not a no, it is unknown.
#
# ### Exercise 10.1
#
# `cycles` holds a list for each cycle, and in it a flag for each draft: was it accepted? Return the estimate of α, or
# None if no draft was judged.


# %%
def estimate_alpha(cycles: list[list[bool]]) -> float | None:
    """Accepted drafts as a part of the drafts that were judged."""
    # BEGIN SOLUTION
    stood = fell = 0
    for cycle in cycles:
        for accepted in cycle:
            if not accepted:
                fell += 1
                break
            stood += 1
    return stood / (stood + fell) if stood + fell else None
    # END SOLUTION


check("10.1", estimate_alpha)

# %% [markdown]
# <details><summary>Hint 1: two numbers</summary>
#
# Count the drafts that stood and the drafts that fell. In a cycle at most one falls.
# </details>
# <details><summary>Hint 2: where to stop</summary>
#
# Go through the flags of a cycle from the left. At the first False count one fallen draft and leave the cycle,
# whatever follows.
# </details>
# <details><summary>Hint 3: the end</summary>
#
# `stood / (stood + fell)`, unless that sum is 0.
# </details>

# %% [markdown]
# Here is a pair of models whose α is 0.6 at every position, by construction. The naive estimate is the acceptance
# rate. The other one uses the trace, which says of every draft whether it was judged.

# %%
p, q = [0.6, 0.3, 0.1], [0.2, 0.5, 0.3]
steady = sd.Engine(model_of(p), drafter=sd.ModelDrafter(model_of(q)))

print("γ   accepted / drafted   accepted / judged")
for gamma in (1, 2, 4, 8):
    trace = steady.generate([0], sd.Sampling(seed=1), gamma=gamma, max_new_tokens=400).trace
    drafts = [d for cycle in trace.cycles for d in cycle.decisions]
    judged = [d for d in drafts if d.status in ("accepted", "rejected")]
    accepted = sum(d.accepted for d in drafts)
    print(f"{gamma}   {accepted / len(drafts):<18.2f}   {accepted / len(judged):.2f}")

# %% [markdown]
# The right column stays near 0.6. The left one measures γ as much as the draft.
#
# ## From α to tokens per cycle
#
# The second draft counts only if the first stands too, and so on. If every draft stands with the same α, whatever came
# before, draft i counts with chance αⁱ. One token more comes in any case. So a cycle emits on average
#
# **E = 1 + α + α² + … + αᵞ = (1 − αᵞ⁺¹) / (1 − α)**
#
# For the pair of models above that "if" is true. Then the formula must give what the engine's rule gives when
# every way the dice can fall is enumerated:


# %%
def tokens_per_cycle(alpha, gamma):
    return sum(alpha**power for power in range(gamma + 1))


print("γ   formula   enumerated   difference below 1e-12")
for gamma in (1, 2, 4, 6):
    exact = 1 + expected_accepted("rejection", p, q, gamma)
    close = abs(exact - tokens_per_cycle(0.6, gamma)) < 1e-12
    print(f"{gamma}   {tokens_per_cycle(0.6, gamma):<7.4f}   {exact:<10.4f}   {close}")

# %% [markdown]
# It is exact there. A real pair has no single α. We take it from texts with γ = 4, and let it predict other texts and
# other γ.

# %%
traces = [
    r.trace for r in engine.generate([prompt] * 24, [story(seed) for seed in range(1, 25)], gamma=4, max_new_tokens=60)
]
judged = [d for t in traces for cycle in t.cycles for d in cycle.decisions if d.status in ("accepted", "rejected")]
alpha = sum(d.accepted for d in judged) / len(judged)
print(f"α = {alpha:.3f}, from {len(judged)} judged drafts")

gammas = (1, 2, 4, 6, 8, 12)
fresh = {gamma: count(gamma, seeds=range(101, 125)) for gamma in gammas}
print()
print("γ    predicted   counted")
for gamma, found in fresh.items():
    wanted, got = tokens_per_cycle(alpha, gamma), found["emitted"] / found["cycles"]
    print(f"{gamma:<2}   {wanted:<9.2f}   {got:.2f}   {got / wanted - 1:+.1%}")

# %% [markdown]
# Off by less than 6 %, from a number that was taken elsewhere. The longer the block, the more an error in α is worth:
# every power of it has the error too. And is there one α at all? Look closer.

# %%
print("draft   judged   stood   mean Σ min(p, q)")
for position in (1, 2, 3, 4):
    here = [d for d in judged if d.position == position]
    stood = sum(d.accepted for d in here) / len(here)
    print(f"{position}       {len(here):<6}   {stood:.2f}    {sum(d.alpha for d in here) / len(here):.2f}")

spread = sorted(d.alpha for d in judged)
print()
tenth, half = spread[len(spread) // 10], spread[len(spread) // 2]
print(f"of all judged drafts, a tenth has α below {tenth:.2f}, half have α above {half:.2f}")
low, high = (tokens_per_cycle(alpha + step, 8) for step in (-0.01, 0.01))
print(f"γ = 8: with α off by 0.01 the forecast is {low:.2f} or {high:.2f}")

# %% [markdown]
# The first draft of a cycle stands a little less often than the others: the cycle begins where the last one met its
# rejection, and there the text is hard. And single drafts are nothing like their average: half are all but certain,
# some are nearly hopeless. The formula does well in spite of that as long as hard places lie scattered. Where they
# come in clumps, code and then prose, say, it does worse. One α is a *model*: good for a forecast, and the count has
# the last word.
#
# ### Exercise 10.2
#
# α = 0.8, γ = 4, c = 0.05, v = 1. How many tokens does a cycle emit, and how many times as fast as plain is it? Give
# both as a tuple, to two digits behind the point.

# %%
# BEGIN SOLUTION
tokens_and_speed_up = (3.36, 2.80)
# END SOLUTION
check("10.2", tokens_and_speed_up)

# %% [markdown]
# <details><summary>Hint 1: tokens</summary>
#
# 1 + 0.8 + 0.64 + … : five terms.
# </details>
# <details><summary>Hint 2: the bill</summary>
#
# One target forward and four draft steps: 1 + 4 · 0.05.
# </details>
# <details><summary>Hint 3: the quotient</summary>
#
# 3.3616 / 1.2.
# </details>
#
# ## When is it worth it at all?
#
# Per cycle, the formula of the ledger is
#
# **speed-up = E / (vᵧ₊₁ + γ · c)**
#
# Take v = 1 and one draft: (1 + α) / (1 + c). That is above 1 exactly if **α > c**. Do more drafts help where one does
# not? Let α ≤ c. E − 1 is a sum of γ powers of α, none larger than α. So E − 1 ≤ γ · α ≤ γ · c, and the
# quotient is at most 1, for every γ. With α ≤ c it never pays; with α > c one draft does already.
#
# Rows that cost something raise the bar: the first draft pays only if α > c + (v₂ − 1).

# %%
print("speed-up at c = 0.1, v = 1; * is the best of its line, 0 is plain")
print("α      " + "".join(f"γ={gamma:<5}" for gamma in (0, 1, 2, 4, 6, 8, 12)))
for a in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9):
    line = {gamma: tokens_per_cycle(a, gamma) / (1 + gamma * 0.1) for gamma in (0, 1, 2, 4, 6, 8, 12)}
    top = max(line, key=line.get)
    print(f"{a:<5}  " + "".join(f"{value:.2f}{'*' if gamma == top else ' '}  " for gamma, value in line.items()))

# %% [markdown]
# Two things to read off. At α ≤ c the best is plain decoding. And every line has a top: γ can be too small, and it
# can be too large.
#
# ### Exercise 10.3
#
# α = 0.6, γ = 2, and three rows cost v₃ = 1.1. From which c on does speculation lose?

# %%
# BEGIN SOLUTION
break_even = 0.43
# END SOLUTION
check("10.3", break_even)

# %% [markdown]
# <details><summary>Hint 1: even</summary>
#
# At the border the bill of a cycle equals the tokens it emits.
# </details>
# <details><summary>Hint 2: the tokens</summary>
#
# 1 + 0.6 + 0.36.
# </details>
# <details><summary>Hint 3: the equation</summary>
#
# 1.1 + 2 · c = 1.96.
# </details>
#
# ## Choosing γ
#
# One more draft adds αᵞ⁺¹ tokens to a cycle and c to its bill (and the price of one more row). A quotient rises if
# what is added to it has a higher quotient of its own. So one more draft pays as long as
#
# αᵞ⁺¹ / c > the speed-up reached so far.
#
# The left side shrinks with every step, so the top is soon found. Good and cheap drafts deserve long blocks, poor or
# dear ones short blocks.

# %%
for a, c in ((0.8, 0.05), (0.7, 0.1), (0.5, 0.4), (0.3, 0.4)):
    gamma = best(a, c, [1.0] * 13)
    print(f"α = {a}, c = {c:<4}   best γ {gamma}   {tokens_per_cycle(a, gamma) / (1 + gamma * c):.2f} ×")

# %% [markdown]
# ### Exercise 10.4
#
# `v[γ]` is the price of a target forward with γ drafts, that is over γ + 1 rows. Return the γ with the highest
# speed-up. 0 stands for plain decoding, whose speed-up is 1. The largest γ to consider is the last one that has a
# price.


# %%
def best_gamma(alpha: float, c: float, v: list[float]) -> int:
    """The draft length that pays most."""

    # BEGIN SOLUTION
    def gain(gamma):
        return sum(alpha**power for power in range(gamma + 1)) / (v[gamma] + gamma * c)

    return max(range(len(v)), key=gain)
    # END SOLUTION


check("10.4", best_gamma)

# %% [markdown]
# <details><summary>Hint 1: try them all</summary>
#
# There are `len(v)` candidates. Compute the speed-up of each.
# </details>
# <details><summary>Hint 2: α = 1</summary>
#
# The quotient (1 − αᵞ⁺¹) / (1 − α) does not exist there. The sum of powers does.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# `max(range(len(v)), key=...)`. γ = 0 gives 1 / v[0] = 1 by itself.
# </details>
#
# ## The prices of this machine
#
# `measure` times forwards of both models: all sizes in turn, many rounds, medians.

# %% tags=["nbval-ignore-output"]
# measured: your numbers will differ
sizes = (1, 2, 3, 5, 7, 9, 13, 33, 65)
costs = measure(engine.target_runner, positions=sizes, rounds=30)
print("rows   " + "".join(f"{rows:<6}" for rows in sizes))
print("v      " + "".join(f"{costs.v(rows):<6.2f}" for rows in sizes))

# %% [markdown]
# Look at the left half. What does a handful of rows cost beside one? Seldom much more: the weights must be read from
# memory anyway. (A v below 1 is no mistake. A product with a single row may be done in another way, and a slower
# one.) Look at the right half: it does not go on like that. When the arithmetic takes longer than the reading, every
# row has to be paid for.
#
# For c we do not time the bare draft model. A draft step also draws a token from q, and that is on the bill. So c is
# taken from the ledger of real runs, in the race below.
#
# ## The result: predicted and measured
#
# Plain decoding and six γ run in turn, with the same seeds, round after round. The first round only warms up. The
# counts come first, and can be compared on any machine.

# %%
from time import perf_counter

race = {gamma: [] for gamma in (0, *gammas)}
for seed in range(200, 211):
    for gamma in race:
        start = perf_counter()
        result = engine.generate(prompt, story(seed), gamma=gamma, max_new_tokens=40, trace=False)
        if seed > 200:
            race[gamma].append((perf_counter() - start, result))

print("γ    tokens   cycles   drafted   predicted tokens a cycle   counted")
for gamma in gammas:
    found = tally([result for _, result in race[gamma]])
    got = found["emitted"] / found["cycles"]
    print(
        f"{gamma:<2}   {found['emitted']}      {found['cycles']:<6}   {found['drafted']:<7}   "
        f"{tokens_per_cycle(alpha, gamma):<24.2f}   {got:.2f}"
    )

# %% tags=["nbval-ignore-output"]
# measured: your numbers will differ
seconds = {gamma: median(took for took, _ in rounds) for gamma, rounds in race.items()}
plain_step = seconds[0] / 40
four = [result.stats for _, result in race[4]]
c = median(stats.seconds.draft / stats.drafted for stats in four) / plain_step
predicted = {gamma: tokens_per_cycle(alpha, gamma) / (costs.v(gamma + 1) + gamma * c) for gamma in gammas}
measured = {gamma: seconds[0] / seconds[gamma] for gamma in gammas}
priced = {gamma: speed_up(tally([result for _, result in race[gamma]]), c, costs.v(gamma + 1)) for gamma in gammas}

print(f"α = {alpha:.2f} (counted), c = {c:.3f} (measured)")
print()
print("γ    v      predicted   counted, then priced   measured")
for gamma in gammas:
    print(
        f"{gamma:<2}   {costs.v(gamma + 1):.2f}   {predicted[gamma]:.2f} ×      {priced[gamma]:.2f} ×"
        f"                 {measured[gamma]:.2f} ×"
    )
print()
print(f"best γ by the formula   {max(predicted, key=predicted.get)}")
print(f"best γ by the clock     {max(measured, key=measured.get)}")

# %% [markdown]
# Read the three columns from the left.
#
# - *Predicted* knows α from other texts, and nothing of this race.
# - *Counted, then priced* takes the race's own cycles and drafts. Its distance from the first column is what one α got
#   wrong: ten texts are few, and one lucky text moves a long γ most.
# - *Measured* is the clock. Its distance from the second column is what two prices leave out: the verdicts, the
#   bookkeeping, a machine that has other things to do.
#
# Near its top the curve is flat. So the γ that the formula chooses and the one that the clock chooses need not be the
# same, and it hardly matters: compare what each of them gains.

# %% tags=["nbval-ignore-output"]
# measured: your numbers will differ
from dataclasses import replace

here = replace(costs, draft=c * costs.target[1])
sd.labs.explorer(here, [(gamma, alpha, measured[gamma]) for gamma in gammas])

# %% [markdown]
# The whole formula at this machine's prices: γ across, α upwards. ◆ are the six points of the race. Follow the ★, the best γ of
# each line: it moves to the right as α grows. Then change c in the form. How dear must a draft step be before the dashed cells,
# where speculation loses, reach the race?
#
# ## Four settings
#
# Now use it. Four settings, all run for real, and priced by the ledger at v = 1:
#
# - **A**: the story draft at temperature 0.8, γ = 12, c = 0.1;
# - **B**: the story draft at temperature 2, γ = 8, c = 0.1;
# - **C**: a draft model with random weights, γ = 4, c = 0.02: tiny, and it knows nothing;
# - **D**: an n-gram drafter, which copies what followed the same words earlier in the text. γ = 4, c = 0. But these
#   stories hardly repeat themselves.
#
# **Predict:** which of the four lose against plain decoding? Give a list of letters.

# %%
ngram = engine_with(sd.NgramDrafter())
blind = engine_with(sd.ModelDrafter(sd.testing.tiny_llama(3, vocab=engine.target_runner.vocab, context=512)))
seeds = range(1, 13)
settings = {
    "A": (count(12, engine, seeds), 0.1),
    "B": (count(8, engine, seeds, temperature=2.0), 0.1),
    "C": (count(4, blind, seeds), 0.02),
    "D": (count(4, ngram, seeds), 0.0),
}

# BEGIN SOLUTION
guess = ["B", "C"]
# END SOLUTION
predict("10.p3", guess, lambda: [letter for letter, (found, c) in settings.items() if speed_up(found, c) < 1])

# %%
print("    cycles   drafted   accepted   emitted   tokens a cycle   speed-up")
for letter, (found, price) in settings.items():
    line = "   ".join(f"{found[name]:<{len(name)}}" for name in ("cycles", "drafted", "accepted", "emitted"))
    print(f"{letter}   {line}   {found['emitted'] / found['cycles']:<14.2f}   {speed_up(found, price):.2f} ×")

# %% [markdown]
# A is long and still wins. B emits 1.54 tokens a cycle and pays for a target forward and more than seven drafts. C
# has 2 drafts accepted of 2752; the loss is small since the draft is cheap. D seldom proposes, is seldom right, and
# can't lose at v = 1, because nothing is what it pays.
#
# B can be rescued. And D loses as soon as rows have a price.

# %%
hot = {gamma: count(gamma, engine, seeds, temperature=2.0) for gamma in (1, 2, 4)}
print("B with other γ   " + "   ".join(f"γ = {gamma}: {speed_up(found, 0.1):.2f} ×" for gamma, found in hot.items()))
print()
print("D, if every row behind the first costs s more")
for s in (0.0, 0.05, 0.1, 0.2):
    print(f"s = {s:<4}   {speed_up(settings['D'][0], c=s):.2f} ×")

# %% [markdown]
# (If v grows in a line, v = 1 + γ · s, then a draft costs c + s in all, and the bar is α > c + s.)
#
# ## Short answers
#
# Before the first cycle, both models read the prompt. That happens once, drafts or not, and it cannot be sped up. The
# draft model's reading comes on top. And the last cycle of a text is cut short: γ shrinks to what is still wanted.
#
# Let reading the prompt cost as much as four plain steps, and the draft a tenth of that.

# %%
print("new tokens   tokens a cycle   without the prompt   with it")
for tokens in (1, 2, 4, 8, 32, 96):
    found = count(4, engine, seeds, tokens=tokens)
    reading = 4 * len(seeds)
    whole = (reading + found["emitted"]) / (1.1 * reading + found["cycles"] + 0.1 * found["drafted"])
    print(f"{tokens:<10}   {found['emitted'] / found['cycles']:<14.2f}   {speed_up(found, 0.1):<18.2f}   {whole:.2f} ×")

# %% [markdown]
# One word as an answer, a label say, and speculation is a loss: the draft has read the prompt for nothing. After that
# the gain grows slowly towards what the cycles promise. A benchmark with long texts says little about a service with
# short ones.
#
# ## Full batches
#
# With B requests in a batch, a forward has B · (γ + 1) rows. As long as reading the weights takes longer than the
# arithmetic, rows are free. Suppose that holds up to 200 rows, a usual order of magnitude for a GPU, and that from
# there the price grows in a line. α = 0.8 and c = 0.05 stay.


# %%
def forward(rows, free=200):
    return max(1.0, rows / free)


print("batch   v₅     γ = 4    best γ   with it")
for batch in (1, 16, 40, 64, 128, 200, 400):
    v = [forward(batch * (gamma + 1)) / forward(batch) for gamma in range(13)]
    gamma = best(0.8, 0.05, v)
    line = [tokens_per_cycle(0.8, k) / (v[k] + k * 0.05) if k else 1.0 for k in (4, gamma)]
    print(f"{batch:<5}   {v[4]:.2f}   {line[0]:.2f} ×   {gamma:<6}   {line[1]:.2f} ×")

# %% [markdown]
# At 40 the free rows are used up. From then on every rejected draft takes work away from somebody. At 200 no row is
# free any more: a cycle's γ + 1 rows cost γ + 1, and it emits E < γ + 1 tokens. No draft is good enough for that. A
# server that is full should use a shorter γ, or none. What is left of the gain on this machine?

# %% tags=["nbval-ignore-output"]
# measured: your numbers will differ
for batch in (1, 4, 12):
    print(f"12 texts, {batch:2d} at a time, γ = 4   {timed(engine, 4, texts=12, batch=batch, tokens=16):.2f} ×")

# %% [markdown]
# ## More tokens for the same bill
#
# What can be improved without touching a price? Block verification (lesson 04) judges the drafts of a cycle together,
# is exact, and keeps at least as many on average. The forwards are the same, so every percent of tokens is a percent
# of speed.

# %%
print("γ   standard   block    more    (enumerated, p and q as above)")
for gamma in (1, 2, 4):
    plain, block = (1 + expected_accepted(rule, p, q, gamma) for rule in ("rejection", "block"))
    print(f"{gamma}   {plain:<8.3f}   {block:.3f}    {block / plain - 1:+.1%}")

many = range(1, 41)
standard, block = (count(4, engine_with(verify=rule), many) for rule in ("rejection", "block"))
plain, more = (found["emitted"] / found["cycles"] for found in (standard, block))
print()
print(f"the story pair, {len(many)} texts, γ = 4: {plain:.3f} and {more:.3f}, {more / plain - 1:+.1%}")

# %% [markdown]
# The second comparison is a sample: other seeds give a percent more or less. The first is exact.
#
# ## A control: how to measure it wrong
#
# A benchmark that cannot come out wrong proves nothing. So here we do it wrong on purpose, and it must show. `Clock`
# plays a machine: it counts forwards and waits for nobody, and it has two habits of real ones. The first run of all
# pays 60 forwards on top (memory, kernels, tables). And after 750 forwards the machine gets hot, and each takes three
# times as long.
#
# The counts are those of real runs. The right answer is known: the ledger's.

# %%
texts = [engine.generate(prompt, story(seed), max_new_tokens=60, trace=False).stats for seed in range(1, 13)]
plain_bill = 60.0
bills = [stats.cycles + 0.1 * stats.drafted for stats in texts]
print(f"the ledger says {plain_bill * len(bills) / sum(bills):.2f} ×")


def machine():
    return Clock(first=60, hot_after=750, slow=3)


def one_run():
    clock = machine()
    speculative = clock.run(bills[0])
    return clock.run(plain_bill) / speculative


def one_after_the_other():
    clock = machine()
    clock.run(plain_bill)
    plain = [clock.run(plain_bill) for _ in bills]
    return sum(plain) / sum(clock.run(bill) for bill in bills)


def in_turn():
    clock = machine()
    clock.run(plain_bill)
    rounds = [(clock.run(plain_bill), clock.run(bill)) for bill in bills]
    return sum(plain for plain, _ in rounds) / sum(speculative for _, speculative in rounds)


# %% [markdown]
# **Predict:** a benchmark warms up, then runs plain decoding twelve times, then speculation twelve times. What does
# it say on this machine: "faster" or "slower"?

# %%
# BEGIN SOLUTION
guess = "slower"
# END SOLUTION
predict("10.p4", guess, lambda: "faster" if one_after_the_other() > 1 else "slower")

# %%
single = [plain_bill / bill for bill in bills]
print(f"single texts, by the ledger      {min(single):.2f} to {max(single):.2f} ×")
print(f"one run, no warm-up              {one_run():.2f} ×")
print(f"one after the other, warmed up   {one_after_the_other():.2f} ×")
print(f"in turn, warmed up               {in_turn():.2f} ×")

# %% [markdown]
# Two of them turn a clear gain into a loss. And the first line says what one text is worth even on a perfect machine.
# In turn, both meet the same machine, cold or hot. That is why the race above ran in rounds.
#
# The third mistake needs no moods at all: **different texts.** The same seed does not give the same text with and
# without drafts (lesson 04), so one text may end long before the other. Here the end is left on.

# %%
ends = [sd.Sampling(temperature=0.8, seed=seed) for seed in range(9, 13)]
longer = [
    [r.stats for r in engine.generate([prompt] * 4, ends, max_new_tokens=200, speculate=speculate, trace=False)]
    for speculate in (False, True)
]
print("seed   plain   speculative   ratio of whole runs   per token")
for seed, plain, fast in zip(range(9, 13), *longer):
    bill = fast.cycles + 0.1 * fast.drafted
    whole, each = plain.emitted / bill, fast.emitted / bill
    print(f"{seed:<4}   {plain.emitted:<5}   {fast.emitted:<11}   {whole:<19.2f}   {each:.2f}")

# %% [markdown]
# Text 12 ends after 29 tokens with drafts and runs to the limit without: 15.87 times as fast, a reader would think.
# Had the plain text been the short one, speculation would have looked like a disaster. Per token it is 2.30, as good
# as any other. So fix the length, or divide by tokens, and do it for many texts.
#
# ## Try it yourself
#
# - Put `sd.load_pair(dtype="bfloat16")` in the first cell and run again. Which of α, c and v moves?
# - Run the race at temperature 0, and at 1.5. Where does the best γ go?
# - Set `free=1` in `forward`. Is there an α for which a batch of 1 pays?
# - Find the longest γ that still gains with α = 0.8 and c = 0.1. Then ask what it leaves of the best speed-up.
# - Play a run, and look for the cycles that lost: those with fewer tokens than 1 + γ · c.

# %%
sd.play(engine, prompt, story(8), max_new_tokens=60)

# %% [markdown]
# ## Honest limits
#
# - A single α is a model. Real drafts have easy stretches and hard words; expect the formula to be some percent off.
# - Prices were taken with a short text. As it grows, attention grows too, for the target and for the draft.
# - The ledger adds up forwards. Verdicts and bookkeeping are a few percent here, and more where models are tiny.
# - α belongs to a pair, a temperature and a kind of text. Another prompt, another α.
# - It is about the time of one request or one batch. How long a request waits in a queue is another matter (lesson 11).
#
# ## Can you?
#
# - [ ] say why the acceptance rate falls when γ grows, and estimate α from a run (10.1)
# - [ ] predict tokens per cycle and speed-up (10.2)
# - [ ] say from which c on it loses (10.3)
# - [ ] choose γ from α, c and v, and say when the answer is 0 (10.4)
# - [ ] name four settings that lose, and the price or the count that is to blame
# - [ ] run a benchmark that does not flatter
#
# ## In 60 seconds
#
# Count cycles and drafts; price them with v and c, in plain steps. Speed-up = emitted / (cycles · v + drafted · c),
# and as a forecast E / (vᵧ₊₁ + γ · c) with E = (1 − αᵞ⁺¹) / (1 − α). It can pay only if α > c, and rows that cost
# something raise the bar. α is estimated from judged drafts only. The best γ is where one more draft's chance to
# count, through its price, falls below the speed-up reached. Dear drafts, poor drafts, short answers and full batches
# lose. Measure in turn, warmed up, per token, more than once.
#
# **Red flags**: "80 % acceptance, so five times as fast" · an acceptance rate without its γ · γ = 8 because more is
# more · one run · seconds of two different texts · "the draft is ten times smaller, so c = 0.1" · a figure for batch
# 1 on a server that runs at 64.
#
# **Asked in interviews**
#
# <details><summary>Draft and target agree on 90 % of the tokens. What speed-up do you expect?</summary>
#
# Not enough is known. With γ = 4 a cycle emits about 4.1 tokens. At c = 0.05 and free rows that is 3.4 times, at c =
# 0.5 it is 1.4 times, and at c = 0.9 it is a loss.
# </details>
#
# <details><summary>The acceptance rate went from 0.8 to 0.55 after a change. Is the draft worse?</summary>
#
# First ask whether γ changed. accepted / drafted counts drafts behind a rejection that nobody judged. Compare
# accepted / judged.
# </details>
#
# <details><summary>When does a longer γ make things slower although all rows are free?</summary>
#
# When αᵞ⁺¹ / c drops below the speed-up reached: the extra draft step is paid in every cycle, and its token is kept
# only if all drafts before it stand.
# </details>
#
# <details><summary>Why does speculation stop paying in big batches?</summary>
#
# It lives on arithmetic that would be idle while weights are read. A big batch uses that arithmetic for other
# requests. Then γ + 1 rows cost γ + 1, and a cycle never emits more tokens than that.
# </details>
#
# <details><summary>How would you benchmark it?</summary>
#
# Same prompts, settings and lengths for both; warm-up thrown away; both in turn, many rounds; ratios of medians per
# token, with their spread; and the counts beside them, so that a forecast can be checked.
# </details>
#
# ## Where to read more
#
# Leviathan, Kalman, Matias, *Fast inference from transformers via speculative decoding* (2023), sections 3.1 to 3.5:
# E, the speed-up, the choice of γ and the count of arithmetic. Chen and others, *Accelerating large language model
# decoding with speculative sampling* (2023), on memory and arithmetic. Sun and others, *Block verification
# accelerates speculative decoding* (2024), for the gain per cycle. Liu and others, *Optimizing speculative decoding
# for serving large language models using goodput* (2024), for γ under load.
