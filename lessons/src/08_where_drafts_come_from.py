# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 35
#     outputs: 18
# ---

# %% [markdown]
# # 08 · Where drafts come from
#
# **35 minutes · medium · you need lesson 03. No GPU, no download.**
#
# So far a small model has drafted. Nothing in the rule asks for one. Whoever can name the next tokens may draft: the text
# itself, other texts, the target's own first layers. They know different things, and they cost different things.
#
# After it you can
#
# - say of five kinds of drafter what each knows, what it costs, and on which text it wins and loses;
# - look drafts up in a text;
# - say what a reported q is worth, and what a wrong one does;
# - let a draft model with another vocabulary draft, or refuse it;
# - choose how much to draft next, without bending the law of the text.

# %% [markdown]
# ## A drafter that knows nothing
#
# The prompt below says the text of a note twice and is about to say it again. One of these two drafters is a language
# model. The other looks where the last words stood before, and copies what followed.

# %%
from textwrap import fill

import specdec_teach as sd
from specdec_teach.bench.task import KINDS
from specdec_teach.exercises import check, predict
from specdec_teach.exercises.laws import first_token, model_of

pair = sd.load_pair()
drafters = sd.drafters_for(pair)


def engine_of(drafter, gamma=4):
    return sd.Engine(pair.target, drafter=drafter, tokenizer=pair.tokenizer, gamma=gamma)


note = (
    'There was a note in the box: "This belongs to Nikolai of Saltmarsh." Tara read it aloud: "This belongs to Nikolai of '
    'Saltmarsh." Then she gave it to Aunt Sage, who read: "This belongs'
)
for name in ("ngram", "model"):
    cycle = next(engine_of(drafters[name], 8).stream(note, sd.Sampling.greedy(), max_new_tokens=12))
    drafted = pair.tokenizer.decode(list(cycle.proposed))
    print(f"{name:<6} drafts {drafted!r}")
    print(f"       {cycle.accepted} of {len(cycle.proposed)} stand, the target says {cycle.text!r}")

# %% [markdown]
# Play the run of the drafter that copies. The last two cycles have no draft at all: it found nothing to copy.

# %%
engine_of(drafters["ngram"], 8).generate(note, sd.Sampling.greedy(), max_new_tokens=12).trace.show()

# %% [markdown]
# The model has learnt that here a name is due. It cannot guess which. The other has no weights, runs no forward and does not know
# what a name is, but it has seen what stood there twice. A drafter need not know language. It must know *what this target will say
# here*. Five kinds of knowledge are in use:
#
# | drafts from | it knows | a draft costs | wins on | loses on |
# | --- | --- | --- | --- | --- |
# | **n-grams** of the text | what stood here before | a look into an index | text that repeats itself: code edits, quotes, summaries | anything new: mostly it has nothing to say |
# | **retrieval** from other texts | what is usually said | a search, and memory for the texts | phrases, templates, answers given before | what no stored text says |
# | **early exit**: the target's first layers | what the target thinks half way | some of the target's layers, and sometimes a small trained output layer | everywhere a little | targets that decide late |
# | **heads** on the target's last state: Medusa guesses each next place alone, EAGLE-style heads feed their guesses back | what the target is about to say | one small layer; training for this very target | high α at little cost | any other target: they must be trained again |
# | a **draft model** | language, less well | a forward of its own and a second cache | new text, also far ahead | when it is slow, or thinks otherwise than the target |
#
# No kind wins by its name. The text decides, and the costs do.
#
# ## One table
#
# `sd.drafters_for(pair)` gives everything that the embedded pair has weights for. Each line is one drafter, each column
# one kind of text: new stories, quotes that stand in the prompt already, and lists. The numbers are tokens per forward of
# the target, at γ = 4 and temperature 0.8, over the first 12 tokens. Plain decoding has 1.
#
# **Predict:** `model` draws its drafts from q. `model-argmax` is the same network, but always proposes its favourite token.
# Which has more tokens per forward on stories?

# %%
texts_of = {"story": KINDS["story"], "quote": (note, KINDS["copying"][1] + ' "What grows'), "list": KINDS["list"]}


def fare(drafter, kind, seeds=6, tokens=12):
    """Tokens per forward of the target, and how many drafts stood."""
    texts = [text for text in texts_of[kind] for _ in range(seeds)]
    ways = [sd.Sampling(temperature=0.8, seed=seed, eos_token_id=None) for seed in range(len(texts))]
    stats = [r.stats for r in engine_of(drafter).generate(texts, ways, max_new_tokens=tokens, trace=False)]
    emitted, cycles = sum(s.emitted for s in stats), sum(s.cycles for s in stats)
    return emitted / cycles, sum(s.drafted for s in stats), sum(s.accepted for s in stats)


found = {name: {kind: fare(drafter, kind) for kind in texts_of} for name, drafter in drafters.items()}


def better():
    return max(("model", "model-argmax"), key=lambda name: found[name]["story"][0])


# BEGIN SOLUTION
guess = "model"
# END SOLUTION
predict("08.p1", guess, better)

# %%
print(f"{'':<14}" + "".join(f"{kind:>10}" for kind in texts_of))
for name, line in found.items():
    print(f"{name:<14}" + "".join(f"{tokens:>10.2f}" for tokens, _, _ in line.values()))

# %% [markdown]
# Read it by columns. On new stories everybody with a network is well ahead, and n-grams bring nothing. In a quote n-grams come
# close to the draft model. It pays a forward for each draft, and they pay none. Retrieval looks into two hundred stories of the
# same kind: it knows the phrases of stories, and no note of yours.
#
# The lines of the networks tell what they know. `early-exit` is the target itself, stopped half way: level with the draft model on
# stories, and no second model is needed. `head3` reads three of the target's layers, `head` only its last: more to read, better
# drafts. `medusa` guesses each place alone, without knowing what it put before it, and falls behind. The names with `tree` offer
# several continuations at once, which is lesson 09: `tree` goes with `model`, `head-tree` with `head3`, `medusa-tree` with `medusa`.
#
# A line that leads here need not be the fastest. The table counts forwards of the target and nothing that a draft costs.
#
# Now look at how much each of them drafts, and how much of it stands.

# %%
print(f"{'':<14}" + "".join(f"{kind + ': drafted':>18}{'stood':>7}" for kind in ("story", "quote")))
for name, line in found.items():
    print(f"{name:<14}" + "".join(f"{line[kind][1]:>18}{line[kind][2]:>7}" for kind in ("story", "quote")))

# %% [markdown]
# N-grams draft least, since they have something to say only where the text repeats itself. A drafter may stay silent, and silence
# costs nothing: a cycle without drafts is a plain forward. `medusa-tree` is the other end: it brings more tokens than `medusa`, and
# more than nine of ten drafts are for nothing. Lesson 09 asks what they cost.
#
# ### Exercise 08.1
#
# Write the lookup. Take the longest end of the text, at most `longest` tokens, that also stands earlier. Of several places
# the last one counts. Return the tokens that followed there.

# %%
def look_up(tokens: list[int], count: int, longest: int = 3) -> list[int]:
    """At most `count` tokens; where the copied passage runs into the end of the text, it goes on with the drafts."""
    # BEGIN SOLUTION
    for size in range(min(longest, len(tokens) - 1), 0, -1):
        for start in range(len(tokens) - size - 1, -1, -1):
            if tokens[start : start + size] == tokens[-size:]:
                longer = list(tokens)
                for at in range(start + size, start + size + count):
                    longer.append(longer[at])
                return longer[len(tokens) :]
    return []
    # END SOLUTION


check("08.1", look_up)

# %% [markdown]
# <details><summary>Hint 1: the order</summary>
#
# Two loops: sizes from `longest` down to 1, and for each size the places from the right to the left.
# </details>
# <details><summary>Hint 2: the end is no match</summary>
#
# The end of the text always equals itself. The last place to look at begins at `len(tokens) - size - 1`.
# </details>
# <details><summary>Hint 3: a loop</summary>
#
# Append what you draft to a copy of the text, and read the next token from the copy. `[5, 5]` then drafts 5, 5, 5, …
# </details>
#
# ## What a full q is worth
#
# On stories the favourite lost, though no other single token is as likely. Lesson 03 has the reason. A draft that was *drawn* from q
# stands with chance Σ min(p, q). A favourite was certain, its q is one-hot, and it stands with chance p of that one token.
#
# ### Exercise 08.2
#
# p = [0.6, 0.3, 0.1] and q = [0.5, 0.4, 0.1]. How often does a drawn draft stand, and how often does the favourite of q?
# Give both as a tuple.

# %%
# BEGIN SOLUTION
two_chances = (0.9, 0.6)
# END SOLUTION
check("08.2", two_chances)

# %% [markdown]
# <details><summary>Hint 1: drawn</summary>
#
# The smaller of p and q, token by token, added up.
# </details>
# <details><summary>Hint 2: the favourite</summary>
#
# Which token has the largest q? With q = 1 the test u · q < p is u < p.
# </details>
# <details><summary>Hint 3: numbers</summary>
#
# 0.5 + 0.3 + 0.1, and p of token 0.
# </details>

# %% [markdown]
# The order can turn. Where the target is nearly certain, p is nearly one-hot; the favourite then stands nearly always, and a
# drawn draft only as often as q draws that token. Compare the two models in the column of quotes.
#
# N-grams and retrieval have no q to report: their drafts are always certain. That costs acceptance while sampling, and
# nothing at temperature 0, where p is one-hot too.
#
# ### A control: a q that is not the one
#
# It is tempting to have both: propose the favourite, and report the softmax. The engine cannot notice, since it judges by
# the q that it is told. `first_token` adds up every way the dice can fall.

# %%
def show(name, law):
    print(f"{name:<34} {[round(chance, 3) for chance in law]}")


p, q = [0.6, 0.3, 0.1], [0.2, 0.5, 0.3]
target = model_of(p)
show("the target's p", p)
show("drawn from q, q reported", first_token(sd.Engine(target, drafter=sd.ModelDrafter(model_of(q)), gamma=1)))
favourite = sd.ModelDrafter(model_of(q), mode="argmax")
show("favourite, one-hot reported", first_token(sd.Engine(target, drafter=favourite, gamma=1)))
show("favourite, softmax reported", first_token(sd.Engine(target, drafter=sd.ScriptedDrafter([1, 1], q=q), gamma=1)))

# %% [markdown]
# The last line is wrong, and no longer draft or better draft model repairs it. **A drafter owes two things: tokens, and the
# very distribution they were drawn from.** Everything else about it is a matter of speed.
#
# ## Another vocabulary
#
# The rule compares p and q token by token, so both must speak of the same tokens. Three cases:
#
# 1. **Same tokenizer, other widths.** Models are often padded to a round number of ids. The engine cuts or pads the draft's
#    logits to the target's width. An id that the draft lacks has q = 0; the target can still say it.
# 2. **Other tokenizers with tokens in common.** The draft may propose what both share, and its q is its law *over those alone*.
#    All other text is read as the draft's own tokenizer writes it.
# 3. **Nothing in common, or nobody has checked.** Refuse. Equal ids that mean different tokens give wrong drafts without an
#    error; the text stays right and gets slow.
#
# The first case, exactly: a draft that knows two of the target's three tokens.

# %%
narrow = sd.Engine(target, drafter=sd.ModelDrafter(model_of([0.4, 0.6])), gamma=2)
show("the target's p", p)
show("a draft with two of three ids", first_token(narrow))

# %% [markdown]
# Token 2 is never drafted and comes as often as it should. And the third case: to compare two vocabularies, the engine must see both.

# %%
try:
    sd.ModelDrafter(pair.draft, tokenizer=pair.tokenizer)
except sd.InvalidInput as refusal:
    print(fill(str(refusal), 100))

# %% [markdown]
# ### Exercise 08.3
#
# Write the q of the second case. `shared` lists the ids that both tokenizers know.

# %%
def shared_part(q: list[float], shared: list[int]) -> list[float]:
    """The law that drafts are drawn from, as long as q itself: 0 for what is not shared."""
    # BEGIN SOLUTION
    kept = [chance if token in shared else 0.0 for token, chance in enumerate(q)]
    return [chance / sum(kept) for chance in kept]
    # END SOLUTION


check("08.3", shared_part)

# %% [markdown]
# <details><summary>Hint 1: what goes</summary>
#
# The list keeps its length. Ids that are not shared get 0.
# </details>
# <details><summary>Hint 2: what stays</summary>
#
# Divide by the sum of what is left.
# </details>
# <details><summary>Hint 3: why not leave it unscaled</summary>
#
# The drafts are drawn from the scaled law. Reporting another one is the control above.
# </details>
#
# ## Confidence
#
# A draft model has an opinion of its own drafts: q of the token it drew.
#
# **Predict:** p = [0.5, 0.5] and q = [0.98, 0.02]. The draft model is nearly sure of token 0. Which draft is surer to stand, token 0
# or token 1?

# %%
def surer():
    engine = sd.Engine(model_of([0.5, 0.5]), drafter=sd.ModelDrafter(model_of([0.98, 0.02])), gamma=1)
    run = engine.generate([0], sd.Sampling(seed=3), max_new_tokens=400).trace
    chances = {d.token: d.accept_probability for c in run.cycles for d in c.decisions if d.accept_probability is not None}
    print({token: round(chance, 2) for token, chance in sorted(chances.items())})
    return max(chances, key=chances.get)


# BEGIN SOLUTION
guess = 1
# END SOLUTION
predict("08.p2", guess, surer)

# %% [markdown]
# The token that the draft hardly believed in stands always, and its favourite falls half of the time. A draft's confidence
# grants nothing: the target's p decides, and q only says how much was offered.
#
# Yet on average a good draft model knows when it knows. All judged drafts of some real stories, by their q:

# %%
stories = [sd.Sampling(temperature=0.8, seed=seed, eos_token_id=None) for seed in range(16)]
runs = engine_of(drafters["model"]).generate([KINDS["story"][1]] * 16, stories, max_new_tokens=48)
judged = [d for r in runs for c in r.trace.cycles for d in c.decisions if d.status in ("accepted", "rejected")]
for low, high in ((0.0, 0.5), (0.5, 0.9), (0.9, 1.01)):
    some = [d.accepted for d in judged if low <= d.q < high]
    print(f"q from {low:.1f} to {min(high, 1.0):.1f}   judged {len(some):>3}   stood {sum(some) / len(some):.2f}")

# %% [markdown]
# So confidence is worth something after all: for deciding *how much to draft*. Where q was below a half, more than half of the drafts
# fell, and whatever had been drafted behind them was not even looked at.
#
# **Predict:** three ways to use it. Which of them keep the law? Answer with their letters in order, such as "AB".
#
# - **A** After each drawn token: if it was unsure, draft no further. The token itself is proposed.
# - **B** After each drawn token: if it was unsure, take it back, and draft no further.
# - **C** Before the cycle: draft little if the last cycle's drafts fell.
#
# (In the code, `Patience` is A: it goes on only behind a draft with q of at least 0.5. `TakesBack` is B, for q below 0.3.)

# %%
from specdec_teach.exercises.lesson_08 import TakesBack
from specdec_teach.pacing import Fixed, Heuristic, Patience

p4, q4 = [0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5]
draft = sd.ModelDrafter(model_of(q4))


def law_of(drafter, planner):
    engine = sd.Engine(model_of(p4), drafter=drafter, gamma="auto", planner=planner)
    return first_token(engine)


laws = {
    "A": law_of(draft, Fixed(2, Patience((0.0, 1.0, 1.0), (0.5,)))),
    "B": law_of(TakesBack(draft, 0.3), Fixed(2)),
    "C": law_of(draft, Heuristic(begin=1, most=2)),
}


def keep_the_law():
    return "".join(name for name, law in laws.items() if max(abs(a - b) for a, b in zip(law, p4)) < 1e-12)


# BEGIN SOLUTION
guess = "AC"
# END SOLUTION
predict("08.p3", guess, keep_the_law)

# %%
show("the target's p", p4)
show("A  stop behind an unsure draft", laws["A"])
show("B  take the unsure draft back", laws["B"])
show("C  plan by the last cycle", laws["C"])

# %% [markdown]
# B is the trap, and the control of this half: it looks like A. What it takes back was drawn already. Its place is then filled
# from p, as if nothing had been offered. But when another draft falls, the residual counts on those offers: it leaves out what q
# should have brought. Here token 2 comes half as often as it should, and its share goes to tokens 0 and 3.
#
# The rule is: **γ may follow from the past and from what has been drafted, never from the value of a draw that it then
# throws away.**
#
# ## The planner
#
# `gamma="auto"` asks, before every cycle, for the γ with the most expected tokens per second: E(γ) / (v(γ + 1) + γ · c). E(γ) = 1 + α + … +
# αᵞ is what a cycle is expected to emit, v(T) is the price of a target forward over T positions and c that of a draft step, both in
# plain forwards. By default prices are measured on your machine, and a draft is priced by its length: heads that guess at once cost the
# same for one guess as for four. Here prices are given, so that everybody sees the same.
#
# What is α? Nobody tells, so it is estimated from the request's own past. There is a catch: behind a rejection nobody looks.
#
# ### Exercise 08.4
#
# Each cycle is (drafted, accepted, cut): `cut` says that the text ended before the next draft was judged. Count successes
# and failures, begin with 1 and 0.5 so that the first cycle does not decide everything, and return the share of successes.

# %%
def estimate(cycles: list[tuple[int, int, bool]]) -> float:
    """The expected chance that a draft stands."""
    # BEGIN SOLUTION
    stood, fell = 1.0, 0.5
    for drafted, accepted, cut in cycles:
        stood += accepted
        fell += accepted < drafted and not cut
    return stood / (stood + fell)
    # END SOLUTION


check("08.4", estimate)

# %% [markdown]
# <details><summary>Hint 1: what was looked at</summary>
#
# With 2 of 4 accepted, three drafts were looked at: two stood, one fell.
# </details>
# <details><summary>Hint 2: no failure</summary>
#
# If all stood, or the text ended first, nothing fell.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# `stood += accepted`, and `fell += 1` if `accepted < drafted and not cut`.
# </details>

# %% [markdown]
# Dividing accepted by drafted would be wrong in one direction only: it counts drafts as failures that nobody judged, the more so the larger γ
# is. A planner that believes it drafts less and less.
#
# The engine's planner counts as you do, forgets a little each cycle, and begins with more doubt than you. Drafts that never stand shall
# cost next to nothing, so it gives up early. But a γ of 0 shows nothing, so it looks again: soon at first, then ever more seldom.

# %%
from specdec_teach.exercises.lesson_08 import PRICES
from specdec_teach.planner import Planner

print("prices: " + ", ".join(f"v({size}) = {PRICES.v(size):.1f}" for size in (1, 2, 3, 4, 5, 9)) + f", c = {PRICES.c:.1f}")
parrot = sd.ScriptedDrafter(lambda text, count: text[-1:] * count)
for name, drafter in (("model", drafters["model"]), ("parrot", parrot)):
    planned = sd.Engine(pair.target, drafter=drafter, tokenizer=pair.tokenizer, gamma="auto", planner=Planner(PRICES))
    run = planned.generate(KINDS["story"][1], sd.Sampling(temperature=0.8, seed=8, eos_token_id=None), max_new_tokens=60)
    print(fill(" ".join(str(cycle.gamma) for cycle in run.trace.cycles), 100, initial_indent=f"{name:<6} γ ", subsequent_indent=" " * 9))

# %% [markdown]
# Each number is the γ of one cycle. For the draft model it moves with the luck of the last cycles. The parrot repeats the last token and
# is hardly ever right: γ falls to 0, which is plain decoding. Its first cycles are the price of finding out. Then come 4 cycles without
# a draft, one draft to see whether times have changed, 8 cycles without, and 16: each time it is wrong, the wait doubles.
#
# ### Exercise 08.5
#
# The prices v are those printed above. On some text trained heads reach α = 0.6 at c = 0.1, and n-grams α = 0.08 at c = 0. Which γ has
# the most tokens per second for the heads, and which for the n-grams? Give both as a tuple.

# %%
# BEGIN SOLUTION
gammas = (2, 0)
# END SOLUTION
check("08.5", gammas)

# %% [markdown]
# <details><summary>Hint 1: one value</summary>
#
# For the heads at γ = 1: (1 + 0.6) / (1.1 + 0.1) = 1.33.
# </details>
# <details><summary>Hint 2: the next</summary>
#
# At γ = 2: (1 + 0.6 + 0.36) / (1.2 + 0.2) = 1.40. Does γ = 3 still gain?
# </details>
# <details><summary>Hint 3: drafts for nothing</summary>
#
# For the n-grams at γ = 1: 1.08 / 1.1. The target's forward is wider, and that has a price.
# </details>
#
# ## Try it yourself
#
# - Give `note` to `gamma="auto"` with the n-gram drafter. How long does γ stay above 0?
# - `drafters["retrieval"].remember(["…"])` adds a text. Add your own story, and generate its beginning.
# - Set the `0.3` of `TakesBack` to 0. What does law B become, and why?
#
# ## Honest limits
#
# - The table belongs to this pair, these prompts and γ = 4, over a few texts each: a difference of a few hundredths is chance.
#   It counts forwards of the target and no seconds. Lesson 10 adds the prices.
# - The embedded target copies a quote that it is in the middle of, and little else; the quotes here are short. Models that edit
#   code or cite a document copy for pages, and there n-grams gain far more.
# - The planner treats drafts of a request as alike. Within one text they are not; it forgets gently, and follows late.
# - With measured prices, two runs may cut their cycles differently. The law is the same; so is the text at temperature 0 and
#   under the coupled rule.
# - Prices are measured for one request at a time. In a full batch wider forwards cost more.
#
# ## Can you?
#
# - [ ] look drafts up in a text, and say when a drafter should stay silent (08.1)
# - [ ] say when a drawn draft stands more often than a favourite, and when it does not (08.p1, 08.2)
# - [ ] say what goes wrong when the reported q is not the one that was drawn from
# - [ ] cut q to a shared vocabulary, or refuse (08.3)
# - [ ] say what a draft's confidence may decide, and what not (08.p2, 08.p3)
# - [ ] estimate α without the drafts behind a rejection (08.4)
# - [ ] choose γ from α and prices, 0 included (08.5)
#
# ## In 60 seconds
#
# Anybody may draft who knows what this target will say: the text, other texts, the target's own layers or heads, a smaller model. The rule
# needs the tokens and the q they were drawn from; one-hot if they were certain. Sampled drafts with a full q stand more
# often than favourites. Vocabularies must agree, or be cut to what they share. Confidence grants no acceptance. It may
# shorten a draft, if no drawn token is taken back. γ = 0 is a choice like any other.
#
# **Red flags**: a drafter that proposes its favourite and reports a softmax · "we drop drafts below a confidence" · acceptance
# of nearly 100 %, by hardly drafting · α as accepted divided by drafted · a benchmark that asks twice, of a drafter that remembers the
# first answers · "they have the same number of tokens, so the vocabularies agree".
#
# **Asked in interviews**
#
# <details><summary>When do n-grams beat a draft model?</summary>
#
# Where the text repeats its context, and drafts must be nearly free. They have no cache and no weights, and are silent where
# they know nothing.
# </details>
#
# <details><summary>Why does greedy drafting lower acceptance while sampling?</summary>
#
# A certain draft stands with chance p of one token. A drawn one stands with chance Σ min(p, q), which is 1 if q = p.
# </details>
#
# <details><summary>May a draft end early on low confidence?</summary>
#
# Yes, behind the unsure token. No, before it: dropping a drawn token for its value changes which tokens are offered, and the
# rule does not know.
# </details>
#
# <details><summary>Draft and target have different tokenizers. What now?</summary>
#
# Draft what both share, with q scaled to it, and read the rest of the text with the draft's own tokenizer. If nothing is
# shared, refuse.
# </details>
#
# ## Where to read more
#
# Saxena, *Prompt lookup decoding* (2023), for n-grams. He and others, *REST: retrieval-based speculative decoding* (2023), section 3.
# Elhoushi and others, *LayerSkip* (2024), section 4, for early exit. Cai and others, *Medusa* (2024), section 2.1, for heads that do
# not hear each other. Li and others, *EAGLE* (2024), section 3, for a head that is fed its own guesses, and *EAGLE-3* (2025), for one
# that reads several layers. Timor and others, *Accelerating LLM inference with lossless speculative decoding algorithms for
# heterogeneous vocabularies* (2025), on the intersection of two vocabularies. Leviathan, Kalman, Matias, *Fast inference from
# transformers via speculative decoding* (2023), section 3.5, for the best γ.
