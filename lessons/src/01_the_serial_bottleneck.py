# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 20
#     outputs: 16
# ---

# %% [markdown]
# # 01 · The serial bottleneck
#
# **20 minutes · easy · you need lesson 00, and to know that a transformer is mostly matrix products. No GPU, no download.**
#
# Plain decoding writes one token, then reads all weights of the model again for the next one. In this lesson you count
# what that costs, see what the same load of weights could have done besides, and find the one thing that stands in the way.
#
# After it you can
#
# - count the bytes and the FLOPs of a pass, and give a floor for the time per token;
# - say up to how many positions a pass is bound by memory, for any machine;
# - measure on your machine what a pass over 1 to 16 positions costs;
# - explain why tokens that are known share a pass, and tokens that are not yet known cannot.
#
# Everything here is at temperature 0: the next token is the favourite.

# %% [markdown]
# ## Sixty tokens, sixty passes
#
# A *pass* is one forward of the target, over as many tokens as it is fed. Let the target write alone, and look at what
# each pass was fed.

# %%
import torch

import specdec_teach as sd
from specdec_teach.exercises import check, predict

pair = sd.load_pair()
engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
prompt = "Mira had a red lantern and"
greedy = sd.Sampling.greedy()

plain = engine.generate(prompt, greedy, max_new_tokens=60, speculate=False)
passes = [cycle.target_kv.written - cycle.target_kv.before for cycle in plain.trace.cycles]

print(prompt + plain.text)
print()
print(f"{plain.stats.emitted} tokens from {len(passes)} passes; tokens fed to a pass: {min(passes)} to {max(passes)}")

# %% [markdown]
# (One more pass, before these, read the prompt.) Now count the weights. Every pass needs all of them.

# %%
weights = sum(weight.numel() for weight in pair.target.parameters())
size = sum(weight.nbytes for weight in pair.target.parameters())

print(f"weights      {weights / 1e6:.2f} million, {size // weights} bytes each: {size / 1e6:.1f} MB")
print(f"weights read {size * len(passes) / 1e9:.2f} GB in {len(passes)} passes")
print(f"text written {len(plain.text)} characters")

# %% [markdown]
# And the arithmetic? A token meets each weight once: one multiplication, one addition. So a pass over one token should
# take about two FLOPs per weight. torch can count them.

# %%
from torch.utils.flop_counter import FlopCounterMode


@torch.no_grad()
def flops(positions):
    """FLOPs of the matrix products in one pass over so many tokens, counted by torch."""
    with FlopCounterMode(display=False) as counter:
        pair.target(input_ids=torch.tensor([list(range(1, positions + 1))]))
    return counter.get_total_flops()


print(f"counted in a pass over 1 token  {flops(1):>12,}")
print(f"2 × number of weights           {2 * weights:>12,}")

# %% [markdown]
# The small rest are the norms, which are no matrix products. So one token costs 28.3 MB of reading and 14 million FLOPs:
# half a FLOP for every byte. Keep that ratio in mind. It is called the **arithmetic intensity**.
#
# ## Predict: five tokens in a pass
#
# In a pass over one token the target makes 71 matrix products, one for each of its weight matrices. How many does it make
# in a pass over five tokens?


# %%
def products(positions):
    """How many matrix products a pass over so many tokens makes: each linear layer reports its calls."""
    calls = []
    linears = [module for module in pair.target.modules() if isinstance(module, torch.nn.Linear)]
    hooks = [module.register_forward_hook(lambda *_: calls.append(1)) for module in linears]
    with torch.no_grad():
        pair.target(input_ids=torch.tensor([list(range(1, positions + 1))]))
    for hook in hooks:
        hook.remove()
    return len(calls)


# BEGIN SOLUTION
guess = 71
# END SOLUTION
predict("01.p1", guess, lambda: products(5))

# %% [markdown]
# The same 71, each five rows tall in place of one. Each matrix is fetched once and used five times.

# %%
print("positions   products   MB of weights   million FLOPs   FLOPs per byte")
for T in (1, 2, 5, 16):
    print(f"{T:>9}   {products(T):>8}   {size / 1e6:>13.1f}   {flops(T) / 1e6:>13.1f}   {flops(T) / size:>14.1f}")

# %% [markdown]
# The FLOPs grow with T, the weights to be read do not. With b bytes per weight the intensity is T × 2 / b FLOPs per byte.
#
# ### Exercise 01.1: a floor
#
# A model has 8 billion weights of 2 bytes. A laptop's memory delivers 50 GB per second (1 GB is 10⁹ bytes). How many GB
# does a pass read, and how many seconds does that take at least? Give `(gigabytes, seconds)`.

# %%
# BEGIN SOLUTION
answer = (8 * 2, 8 * 2 / 50)
# END SOLUTION
check("01.1", answer)

# %% [markdown]
# <details><summary>Hint 1: the bytes</summary>
#
# Every weight is read once, and a weight has 2 bytes.
# </details>
# <details><summary>Hint 2: the time</summary>
#
# Bytes divided by bytes per second.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# `(8 * 2, 8 * 2 / 50)`
# </details>
#
# It is a floor: no cleverness in the arithmetic gets below it. Only three things do: fewer bytes per weight, faster
# memory, or **more tokens per pass**.
#
# ### Exercise 01.2
#
# Write the floor for any model. `params` is the number of weights, `bandwidth` is in bytes per second, and on average a
# pass yields `tokens_per_pass` tokens of text.


# %%
def seconds_per_token_floor(params: float, bytes_per_param: float, bandwidth: float, tokens_per_pass: float) -> float:
    """The least time per token of text, if the weights need only be read."""
    # BEGIN SOLUTION
    return params * bytes_per_param / bandwidth / tokens_per_pass
    # END SOLUTION


check("01.2", seconds_per_token_floor)

# %% [markdown]
# <details><summary>Hint 1: one pass</summary>
#
# Its seconds are the ones of exercise 01.1, with names in place of numbers.
# </details>
# <details><summary>Hint 2: several tokens</summary>
#
# They share the pass, so they share its time.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# Bytes of all weights, divided by `bandwidth`, divided by `tokens_per_pass`.
# </details>
#
# ## Memory-bound, compute-bound
#
# A pass has to read the weights and to do the arithmetic. At best the two overlap completely, and then the slower one
# decides. That simple model is called the **roofline**.
#
# Two machines, *by calculation*. The numbers are inputs: typical for a laptop, and those of the data sheet for an H200
# (16-bit arithmetic). Nothing here is measured. The model is the one of exercise 01.1.

# %%
machines = {"laptop": (50e9, 500e9), "H200": (4.8e12, 989e12)}  # bytes per second, FLOPs per second
params, bytes_per_param = 8e9, 2


def three(number):
    """A number with three digits."""
    return f"{float(f'{number:.3g}'):g}"


print("          positions   read   compute   bound by   v(T)     (read and compute in milliseconds)")
for name, (bandwidth, speed) in machines.items():
    read = params * bytes_per_param / bandwidth
    for T in (1, 5, 16, 256):
        compute = T * 2 * params / speed
        v = max(read, compute) / max(read, compute / T)
        bound = "memory" if read >= compute else "compute"
        print(f"{name:<8}  {T:>9}   {three(1e3 * read):>4}   {three(1e3 * compute):>7}   {bound:<8}   {v:.2f}")

# %% [markdown]
# **v(T)** is the cost of a pass over T positions in passes over one. Look at the H200 with T = 1: reading takes 3.33
# milliseconds, computing 0.0162. For more than 99 % of the time the arithmetic waits for weights. Fifteen further
# positions would cost nothing.
#
# While v(T) is 1 the pass is **memory-bound**. Beyond that it is **compute-bound**, and every position has its price.
#
# ### Exercise 01.3
#
# Up to which T is a pass memory-bound? `flops` is in FLOPs per second. You need not round.


# %%
def free_positions(bytes_per_param: float, bandwidth: float, flops: float) -> float:
    """The T at which reading the weights and computing take equally long."""
    # BEGIN SOLUTION
    return bytes_per_param * flops / (2 * bandwidth)
    # END SOLUTION


check("01.3", free_positions)

# %% [markdown]
# <details><summary>Hint 1: two times</summary>
#
# Per weight: reading takes `bytes_per_param / bandwidth`, computing T × 2 / `flops`.
# </details>
# <details><summary>Hint 2: at the border</summary>
#
# Set them equal and solve for T. The number of weights is not needed.
# </details>
# <details><summary>Hint 3: nearly there</summary>
#
# The laptop above gives 2 × 500 / (2 × 50) = 10.
# </details>
#
# ## Measure: one big matrix
#
# So much for paper. Does a real machine do this? First the cleanest case: one product with a matrix of 134 MB, more than
# most processor caches hold. We time it for several T in turn, and divide the medians by that of T = 1.
#
# Two candidates: torch's own product, and `Linear`, which the engine uses: for several rows it keeps the same weights
# in the order in which oneDNN, the CPU's library of products, likes to read them.
#
# *The outputs of this section and the next were measured when the lesson was built, on a small shared machine. Yours
# will differ, and no check compares them.*

# %% tags=["nbval-ignore-output"]
from functools import cache, partial
from statistics import median

from specdec_teach.linear import Linear
from specdec_teach.probe import alternate

big = torch.nn.Linear(8192, 4096, bias=False)
sizes = (1, 2, 3, 5, 8, 16, 64)
inputs = {str(T): torch.randn(T, 8192) for T in sizes}

print("T                " + "".join(f"{T:>6}" for T in sizes))
with torch.inference_mode():
    for name, product in (("torch", big), ("packed (Linear)", Linear([big]))):
        times = alternate({T: partial(product, x) for T, x in inputs.items()}, rounds=11)
        print(f"{name:<17}" + "".join(f"{median(times[T]) / median(times['1']):>6.2f}" for T in inputs))
print(f"weights read per second at T = 1: {big.weight.nbytes / median(times['1']) / 1e9:.1f} GB")
del big, inputs

# %% [markdown]
# What you should find:
#
# - **packed**: nearly flat for the first few T, then rising. Close to the roofline.
# - **torch**: a step between T = 1 and T = 2, often to two or three times, and then flat for a while. For one row torch
#   calls a matrix-*vector* routine (GEMV), for more a matrix-*matrix* one (GEMM). That one is made for tall inputs: in
#   every call it first copies the weights into an order it likes, and with a few rows the copy can cost more than the
#   product.
#
# So "five positions cost as much as one" is true of the hardware. Of a program one has to make it true.
#
# ## Measure: the whole model
#
# Now the target itself, on this machine, through the engine's own code. `measure` times passes over 1 to 16 positions
# behind a cache of 64 tokens, all sizes in turn, round after round.
#
# **Predict:** how many passes over one position does a pass over five cost? Give a whole number, from 1 to 5.

# %% tags=["nbval-ignore-output"]
from specdec_teach.hf import ModelRunner
from specdec_teach.probe import measure


@cache
def costs(decoder="auto"):
    """The median cost of target passes on this machine, measured once."""
    return measure(ModelRunner(pair.target, "target", decoder=decoder), rounds=20)


# BEGIN SOLUTION
guess = 1
# END SOLUTION
predict("01.p2", guess, lambda: round(costs().v(5)))

# %% tags=["nbval-ignore-output"]
sizes = (1, 2, 3, 5, 8, 16)
print("T                                   " + "".join(f"{T:>6}" for T in sizes))
for name, decoder in (("v(T), the engine's decoder", "auto"), ("v(T), transformers' own forward", "hf")):
    print(f"{name:<36}" + "".join(f"{costs(decoder).v(T):>6.2f}" for T in sizes))
print(f"{'engine, cost of one position':<36}" + "".join(f"{costs().v(T) / T:>6.2f}" for T in sizes))
print(f"weights read per second at T = 1: {size / costs().target[1] / 1e9:.1f} GB")

# %% [markdown]
# In float32 on a CPU, expect a v(5) somewhere between 1 and 2 for the engine, and more for transformers' forward, which
# uses torch's own products. Wherever v(5) is well below 5, there is something to be won.
#
# But compare the last line with that of the big matrix before you call this memory-bound. If far fewer GB are read per
# second here, the weights are not what a pass waits for. This model is tiny. Its 28 MB fit, wholly or nearly, into the
# cache of many processors, and a pass is a few hundred small operations, each with a fixed price. All positions of a
# pass share that price too, so v(T) can be flat for a second reason. With large models the first one rules.
#
# ## Known tokens share a pass
#
# Wide passes are cheap. When may one use them? After every token that it reads, a causal model gives a distribution for
# the next. Take the sixty tokens, *now that they are known*, and run them through the target again: once one token at a
# time, with a cache, as plain decoding does, and once all in a single pass.

# %%
runner = ModelRunner(pair.target, "target")
committed = pair.tokenizer(prompt).input_ids
written = list(plain.tokens)


def distributions(tokens, at_once):
    """What the target says after each of `tokens`, fed `at_once` per pass."""
    kv = runner.new_cache(len(tokens))
    parts = [tokens[start : start + at_once] for start in range(0, len(tokens), at_once)]
    rows = torch.cat([runner.forward(kv, part, len(part)) for part in parts])
    return rows.softmax(-1)


text = committed + written
narrow, wide = distributions(text, 1), distributions(text, len(text))

print(f"narrow: {len(text)} passes, {len(narrow)} rows      wide: 1 pass, {len(wide)} rows")
print(f"every probability equal within 1e-5: {(narrow - wide).abs().max().item() < 1e-5}")
again = wide[len(committed) - 1 : -1].argmax(-1).tolist()
agree = sum(said == token for said, token in zip(again, written))
print(f"favourites of the wide pass that are the written token: {agree} of {len(written)}")

# %% [markdown]
# One load of the weights, and all sixty decisions are there again. The causal mask makes it possible: the row of a token
# has read that token and those before it, never one behind it. So it does not matter whether the later ones are in the
# same pass.
#
# Then why did plain decoding take sixty passes? Because a row can only be computed when its tokens are known. Token 2 is
# the favourite of the row that has read token 1, and token 1 is the favourite of the row before. Each pass waits for
# the one before it. That is the **serial bottleneck**: no lack of arithmetic, but a chain of unknowns.
#
# ## Guess
#
# And if somebody *guessed* the next tokens? Guesses are known tokens. Whether they are right is another matter.
#
# Here are five guesses. We take the tokens that plain decoding wrote, and spoil the third. One pass over the text and
# the guesses gives six rows for us: row 0 has read the committed text, row i has read guesses 1 to i as well.
#
# **Predict:** compare them with the rows of plain decoding. Which is the *first* row that says something else?

# %%
guesses = written[:5]
guesses[2] = committed[-1]
L = len(committed)
honest = narrow[L - 1 : L + 5]
scored = distributions(committed + guesses, L + 5)[L - 1 :]
off = [(a - b).abs().max().item() for a, b in zip(scored, honest)]

# BEGIN SOLUTION
guess = 3
# END SOLUTION
predict("01.p3", guess, lambda: next(row for row, distance in enumerate(off) if distance > 1e-5))

# %%
piece = {token: repr(pair.tokenizer.decode([token])) for token in range(len(pair.tokenizer))}
print("row   within 1e-5   favourite     plain decoding   next guess")
for row in range(6):
    said, truth = (int(rows[row].argmax()) for rows in (scored, honest))
    ahead = piece[guesses[row]] if row < 5 else ""
    print(f"{row:<5} {off[row] < 1e-5!s:<13} {piece[said]:<13} {piece[truth]:<16} {ahead}".rstrip())

# %% [markdown]
# This is the control: the comparison that held for all 67 rows *must* fail here, and does, from row 3 on.
#
# - Rows 0 and 1 confirm the first two guesses. Row 2 rejects the third guess, and says what belongs there. Three good
#   tokens from one load of weights, although a guess was wrong.
# - Rows 3 to 5 have read the wrong guess. They answer *another question*: how would a text go on that nobody wrote? Row
#   4 even has the same favourite as plain decoding. That is luck, and its probabilities are others.
#
# ### Exercise 01.4
#
# `forward(tokens)` is one pass: it returns a row of logits `[V]` for each token, as a tensor `[len(tokens), V]`. With
# one call, find how many guesses can be kept: each must be the favourite of its row, and so must all guesses before it.

# %%
from collections.abc import Callable


def agreeing(forward: Callable[[list[int]], torch.Tensor], committed: list[int], guesses: list[int]) -> int:
    """How many guesses, from the left, are what the target would have written."""
    # BEGIN SOLUTION
    favourites = forward(committed + guesses).argmax(-1).tolist()[len(committed) - 1 :]
    kept = 0
    while kept < len(guesses) and guesses[kept] == favourites[kept]:
        kept += 1
    return kept
    # END SOLUTION


check("01.4", agreeing)

# %% [markdown]
# <details><summary>Hint 1: the rows</summary>
#
# Feed `committed + guesses`. The row of the *last committed* token judges the first guess.
# </details>
# <details><summary>Hint 2: the favourites</summary>
#
# `forward(...).argmax(-1).tolist()` is a list of tokens. From place `len(committed) - 1` on, its items stand beside the
# guesses.
# </details>
# <details><summary>Hint 3: the count</summary>
#
# Go from the left and stop at the first guess that is not the favourite. Agreement behind it is luck and does not count.
# </details>
#
# ## But there is a KV cache
#
# Does the cache not save all that work already? It saves arithmetic. Without it, each step would run the whole text
# through the model again. With it, a step feeds one token, and the keys and values of the others are read. By
# calculation, for the last of the sixty tokens:

# %%
config = pair.target.config
per_token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 4  # keys and values, float32
length = len(text) - 1

print("               tokens fed   million FLOPs   MB of weights   MB of keys and values")
for name, fed, kept in (("without cache", length, 0), ("with cache", 1, length)):
    million, kv_MB = fed * 2 * weights / 1e6, kept * per_token / 1e6
    print(f"{name:<13}  {fed:>10}   {million:>13.1f}   {size / 1e6:>13.1f}   {kv_MB:>21.2f}")

# %% [markdown]
# Some 66 times less arithmetic, and the same weights to load. The cache made plain decoding memory-bound in the first
# place: it took away the work that would have kept the processor busy during the load.
#
# ## The result: tokens per load of weights
#
# So: guess cheaply, check in one pass. A draft model of 0.29 million weights guesses four tokens, and one pass over
# five positions checks them: the pending token (the last committed one) and the four guesses. A cycle yields what was
# right and one token more. Four runs of the engine, sixty tokens each. In the third the guesses are the finished text,
# handed over; in the fourth the engine is told to put a wrong token first.

# %%
draft_size = sum(weight.nbytes for weight in pair.draft.parameters())
perfect = sd.Engine(pair.target, drafter=sd.ScriptedDrafter(written), tokenizer=pair.tokenizer, gamma=4)
fast = engine.generate(prompt, greedy, max_new_tokens=60)
runs = {
    "plain decoding": (1, plain),
    "the draft's guesses": (5, fast),
    "every guess right": (5, perfect.generate(prompt, greedy, max_new_tokens=60)),
    "first guess wrong": (5, engine.generate(prompt, greedy, max_new_tokens=60, reject_at=1)),
}

print("                      T   loads   tokens per load   MB per token   draft's MB per token")
for name, (T, run) in runs.items():
    loads, tokens = run.stats.cycles, run.stats.emitted
    drafted = 0 if name == "every guess right" else run.stats.drafted  # those were handed over, not computed
    target_MB, draft_MB = size * loads / tokens / 1e6, draft_size * drafted / tokens / 1e6
    print(f"{name:<20} {T:>2}   {loads:>5}   {tokens / loads:>15.2f}   {target_MB:>12.1f}   {draft_MB:>20.1f}")
print(f"all four texts are the same: {all(run.tokens == plain.tokens for _, run in runs.values())}")

# %% [markdown]
# **One token per load without guesses; up to five with four of them; never less than one.** The text stays the same,
# since only what the target itself would have written is kept. The row of wrong guesses shows their price: nothing
# saved, and the draft's reading on top.
#
# Play the second run: every cycle is one load of the target's weights.

# %%
fast.trace.show()

# %% [markdown]
# Which row judges which guess, and what happens to the caches when one is wrong, begins in
# [lesson 02](02_draft_then_verify.ipynb).
#
# ## Try it yourself
#
# - Put your own machine into `machines`, and a model of 4 bits (0.5 bytes) per weight. Where does the border move?
# - Measure with `measure(runner, context=400)`. Attention reads more keys now. Does v(16) change?
# - Load the pair in another dtype, `sd.load_pair(dtype="bfloat16")`, and measure again. Half the bytes: half the time?
# - Spoil guess 1 in place of guess 3, then guess 5. Say first how many rows are still good.

# %% tags=["nbval-ignore-output"]
yours = measure(runner, positions=(4, 32), rounds=10)
for T in (4, 32):
    print(f"v({T:>2}) = {yours.v(T):.2f}")

# %% [markdown]
# ## Honest limits
#
# - The roofline is a floor. It leaves out attention, keys and values, activations, and the fixed price of each
#   operation. Real passes are slower, and with a long text the keys and values can weigh as much as the weights.
# - The ratios in this lesson's outputs come from one small, shared machine. Only yours count, and only for your model.
# - The embedded target is far too small to be bound by memory in the way of a large one.
# - Serving many texts at once also shares a load of weights: T positions of B texts are T × B. Where B is large, the
#   pass may be compute-bound already, and then guesses are not free. Lesson 11 runs such batches.
# - Fewer loads are not yet less time: the draft costs too. Lesson 10 does the sum.
#
# ## Can you?
#
# - [ ] give the floor for an 8-billion model on any machine (01.1, 01.2)
# - [ ] compute the T at which a pass stops being memory-bound (01.3)
# - [ ] say why v(2) can be 2.5 on a CPU although memory is the limit
# - [ ] say which rows stay good when guess j is wrong, and count the guesses to keep (01.4)
# - [ ] say what the KV cache saves and what it does not
#
# ## In 60 seconds
#
# A pass reads every weight once and does two FLOPs per weight and position. With one position that is 2/b FLOPs per
# byte, far less than any machine can do, so the arithmetic waits for memory. More positions in a pass are nearly free
# until T = b × FLOPs per second / (2 × bytes per second). The KV cache removes repeated arithmetic, not the load. Known
# tokens can share a pass, because the causal mask hides the later ones from each row. Unknown ones cannot, because each
# row needs the token before it. So guess, and check the guesses in one pass. Rows that have read no wrong guess are as
# good as plain decoding's; the rows behind it answer another question.
#
# **Red flags**: "decoding is slow because of the FLOPs" · "the KV cache makes decoding compute-bound" · "five positions
# always cost the same as one" · "a batch of one uses the GPU fully" · a guess counted as right because some later row
# agrees.
#
# **Asked in interviews**
#
# <details><summary>Why is a GPU idle most of the time when one user decodes?</summary>
#
# It reads all weights for one token and has two FLOPs to do per weight. A GPU can do hundreds of FLOPs in the time of one
# byte. So it waits for memory.
# </details>
#
# <details><summary>Reading the prompt is fast per token, writing is slow. Same weights, same model: why?</summary>
#
# The prompt is known. All its tokens share one pass, and one load of weights. Written tokens come one per pass.
# </details>
#
# <details><summary>Does quantising the weights to 4 bits make guesses more or less useful?</summary>
#
# It lowers the floor for everyone. But the border moves too: fewer bytes per weight and the same FLOPs, so a pass is
# compute-bound at fewer positions. From 16 to 4 bits: at a quarter of T.
# </details>
#
# <details><summary>Batching also uses a load of weights for many tokens. Why guess as well?</summary>
#
# Batching serves more users, and none of them gets a text sooner. Guessing shortens the chain of passes of a single text.
# The two share the same free positions, so a full batch leaves fewer for guesses.
# </details>
#
# <details><summary>On a CPU v(2) is 2.4. Is the model compute-bound?</summary>
#
# Not necessarily. Look at v(3) and v(5): if they are no higher, it is a step, not a slope. The library changed its
# routine. With weights packed for it the step goes away.
# </details>
#
# ## Where to read more
#
# Williams, Waterman, Patterson, *Roofline: an insightful visual performance model for multicore architectures* (2009).
# Shazeer, *Fast transformer decoding: one write-head is all you need* (2019), section 2: why one token a step is bound
# by memory. Pope and others, *Efficiently scaling transformer inference* (2022), section 2. Leviathan, Kalman, Matias,
# *Fast inference from transformers via speculative decoding* (2023), section 1.
