# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 45
#     outputs: 22
# ---

# %% [markdown]
# # 07 · The verify kernel
#
# **45 minutes · hard · you need lessons 03 and 04, and to know what a tensor's stride is. No Triton yet. No GPU.**
#
# The target has spoken: γ + 1 rows, each as wide as the vocabulary. Somebody has to judge the drafts and draw one token,
# on the GPU, without copying the rows anywhere. In this lesson you write that kernel in five steps.
#
# After it you can
#
# - write a Triton kernel of masks, offsets and blocks, and run it where no GPU is;
# - judge a row of drafts without a loop that stops early;
# - say which parts of p and q a verdict has to read, and count them in bytes;
# - compile the kernel for a GPU that you do not have, and say what that proves.

# %% [markdown]
# ## Before anything else
#
# Triton can *interpret* a kernel: numpy does the work of the GPU, one program after the other. It decides between that
# and compiling when it is imported, so the variable has to be set first. (Triton is there for Linux only.
# Elsewhere, read the stored outputs.)

# %%
import os
import sys

if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
    raise RuntimeError("Triton is loaded already, and it compiles. Restart the kernel and run this cell first.")
os.environ["TRITON_INTERPRET"] = "1"

# %% [markdown]
# Now a real run. The engine below gives every block to the finished kernel, the one that you are about to build.

# %%
import specdec_teach as sd

pair = sd.load_pair()
prompt = "Mira had a red lantern and"
story = sd.Sampling(temperature=0.8, seed=8)
engine = sd.Engine(
    pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4, backend="triton"
)
result = engine.generate(prompt, story, max_new_tokens=24)

print(prompt + result.text)
print("accepted in each cycle:", [cycle.accepted for cycle in result.trace.cycles])

# %% [markdown]
# Each number in that list, and the token behind it, came out of one launch.
#
# ## A kernel, in four lines
#
# A kernel is a function that runs many times at once. Each run is a **program** and knows its number. It gets
# *pointers*, not tensors: `x_ptr + 7` is the place of element 7, and shapes are what you make of them. It works on
# blocks whose size is a power of two, fixed when it is compiled (`tl.constexpr`). Real sizes seldom are such powers, so
# every load has a **mask**, and `other` says what stands in the places that are masked out.
#
# This one finds the largest entry of each row. Program `row` reads row `row`.

# %%
import torch
import triton
import triton.language as tl


@triton.jit
def row_max(x_ptr, out_ptr, V, FILL: tl.constexpr, BLOCK_V: tl.constexpr):
    """Store the largest of each program's V numbers; what is masked out counts as FILL."""
    row = tl.program_id(0)
    token = tl.arange(0, BLOCK_V)
    x = tl.load(x_ptr + row * V + token, mask=token < V, other=FILL)
    tl.store(out_ptr + row, tl.max(x, axis=0))


def largest(x, fill):
    out = torch.zeros(len(x))
    row_max[(len(x),)](x, out, x.shape[1], FILL=fill, BLOCK_V=8)
    return out.tolist()


logits = torch.tensor([[2.0, 5.0, -1.0, 0.5, 1.0], [-3.0, -7.0, -2.0, -4.0, -9.0]])
print(largest(logits, float("-inf")))

# %% [markdown]
# `[(len(x),)]` is the **grid**: how many programs there are. Five numbers a row, blocks of eight: three lanes have
# nothing to do.
#
# ## Predict: what fills the tail?
#
# Zeros look harmless, and they are what people write first. With `other=0.0`, what is the largest entry of the second
# row, whose logits are all negative?

# %%
from specdec_teach.exercises import check, predict

# BEGIN SOLUTION
guess = 0.0
# END SOLUTION
predict("07.p1", guess, lambda: largest(logits, 0.0)[1])

# %% [markdown]
# A token that does not exist won. So the fill must be what the operation ignores: −∞ before a largest or a softmax, 0
# before a sum. Probabilities are summed, so from here on 0 is right; a kernel that reads logits fills with −∞.
#
# ## Step 1: the drafts' probabilities
#
# One program judges one row of the batch. It has K drafts, and p is `[B, K + 1, V]` in memory, row after row. Draft k of
# program `row` has its probability at
#
# **(row · (K + 1) + k) · V + draft**
#
# K + 1, not K: the last row of p belongs to the bonus. In numbers: program 1, its third draft (k = 2), which is token 3.

# %%
K, V = 4, 5
p = torch.rand(2, K + 1, V)
row, k, draft = 1, 2, 3
place = (row * (K + 1) + k) * V + draft

print(f"behind (1 · 5 + 2) rows of 5, token 3: place {place}")
print("the same number:", bool(p.flatten()[place] == p[row, k, draft]))

# %% [markdown]
# A kernel computes that place for all K drafts at once: `k` is a block of numbers, so the place is a block too. The rest
# is a matter of size.
#
# ## Predict: how far does int32 reach?
#
# A program's number is an int32, and so are K and V. A vocabulary of 151,936 is common today. 3,082
# sequences with γ = 4 make 15,410 rows, nine gigabytes, and a large GPU holds that. Is 15408 × 151936 still positive in
# 32 bits? Answer `True` or `False`.


# %%
def positive_in_32_bits():
    row, width = (torch.tensor(value, dtype=torch.int32) for value in (15408, 151936))
    return bool(row * width > 0)


# BEGIN SOLUTION
guess = False
# END SOLUTION
predict("07.p2", guess, positive_in_32_bits)

# %%
row, width = 15408, 151936
print(f"as it should be  {row * width:>15,}")
print(f"largest int32    {2**31 - 1:>15,}")
print(f"in 32 bits       {int(torch.tensor(row, dtype=torch.int32) * width):>15,}")

# %% [markdown]
# The kernel would read eight gigabytes *before* the tensor. Small tests never see it. The remedy is one word: make `row`
# an int64 (`.to(tl.int64)`), and all that is multiplied with it becomes one too.
#
# ### Exercise 07.1: gather
#
# Store p of every draft. The check runs your kernel on small cases with NaN around the tensors, then has it compiled and
# looks for products that can overflow.


# %%
@triton.jit
def gather(draft_ptr, p_ptr, out_ptr, K, V, BLOCK_K: tl.constexpr):
    """Store p[row, k, draft[row, k]] for K drafts: draft int64 [B, K], p float32 [B, K + 1, V], out float32 [B, K]."""
    # BEGIN SOLUTION
    # One lane a draft; lanes behind K are masked.
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    inside = k < K
    draft = tl.load(draft_ptr + row * K + k, mask=inside, other=0)
    p = tl.load(p_ptr + (row * (K + 1) + k) * V + draft, mask=inside, other=0.0)
    tl.store(out_ptr + row * K + k, p, mask=inside)
    # END SOLUTION


check("07.1", gather)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three steps: load K drafts as one block, load K probabilities from the places that they name, store K numbers. All
# three need the same mask.
# </details>
# <details><summary>Hint 2</summary>
#
# `k = tl.arange(0, BLOCK_K)` and `inside = k < K`. The drafts are at `draft_ptr + row * K + k`. A loaded block may be part
# of the next address.
# </details>
# <details><summary>Hint 3</summary>
#
# `row = tl.program_id(0).to(tl.int64)`, and p is at `p_ptr + (row * (K + 1) + k) * V + draft`.
# </details>

# %% [markdown]
# ## Step 2: how many stand?
#
# A draft stands iff u · q < p, and the count stops at the first that does not. In Python you would write a loop with a
# `break`. The compiler does not take a `break`, and there is no need for one: K is small, so test all drafts side by
# side and look for the *first* failure.
#
# ### Exercise 07.2: count
#
# u, q and p of the drafts lie in three tensors now. Store how many drafts stand before the first that falls.


# %%
@triton.jit
def count(u_ptr, q_ptr, p_ptr, out_ptr, K, BLOCK_K: tl.constexpr):
    """Store the number of drafts before the first without u·q < p: u, q, p float32 [B, K], out int64 [B]."""
    # BEGIN SOLUTION
    # The smallest k that fails; K if none does.
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    inside = k < K
    u = tl.load(u_ptr + row * K + k, mask=inside, other=0.0)
    q = tl.load(q_ptr + row * K + k, mask=inside, other=0.0)
    p = tl.load(p_ptr + row * K + k, mask=inside, other=0.0)
    stands = u * q < p
    n = tl.min(tl.where(inside & ~stands, k, K), axis=0)
    tl.store(out_ptr + row, n)
    # END SOLUTION


check("07.2", count)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Do not add up the drafts that stand: a draft behind a failure must not count. Which k is the first to fail?
# </details>
# <details><summary>Hint 2</summary>
#
# Give every lane a number: its k if it fails, K if it does not. Then take the smallest.
# </details>
# <details><summary>Hint 3</summary>
#
# `tl.min(tl.where(inside & ~(u * q < p), k, K), axis=0)`. A cumulative product of ones and zeros, summed up, gives the
# same.
# </details>

# %% [markdown]
# ## Step 3: a row in blocks
#
# K drafts fit into one block; V tokens do not. So a program walks along its row, BLOCK_V tokens at a time, and keeps a
# running block of partial sums. The last block hangs over the end of the row, where the *next* row begins. Only the
# mask keeps them apart.
#
# ### Exercise 07.3: mass
#
# The residual [p − q]₊ is what the correction is drawn from. Store its sum, for rows of any V.


# %%
@triton.jit
def mass(p_ptr, q_ptr, out_ptr, V, BLOCK_V: tl.constexpr):
    """Store the sum of [p − q]₊ over this program's row: p, q float32 [B, V], out float32 [B]."""
    # BEGIN SOLUTION
    # Add up lane by lane, and the lanes only at the end.
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK_V], dtype=tl.float32)
    for start in range(0, V, BLOCK_V):
        token = start + tl.arange(0, BLOCK_V)
        inside = token < V
        p = tl.load(p_ptr + row * V + token, mask=inside, other=0.0)
        q = tl.load(q_ptr + row * V + token, mask=inside, other=0.0)
        total += tl.maximum(p - q, 0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0))
    # END SOLUTION


check("07.3", mass)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Before the loop: a block of zeros. In the loop: one block of p, one of q. Behind it: one sum, one store.
# </details>
# <details><summary>Hint 2</summary>
#
# `for start in range(0, V, BLOCK_V)`, and the tokens of a block are `start + tl.arange(0, BLOCK_V)`.
# </details>
# <details><summary>Hint 3</summary>
#
# `total = tl.zeros([BLOCK_V], dtype=tl.float32)`, then `total += tl.maximum(p - q, 0.0)`, with p and q masked by
# `token < V` and filled with 0.
# </details>

# %% [markdown]
# ## Step 4: a draw without a sum
#
# The usual draw needs the sum first, and then a second walk. A **race** does it in one. Give token v a random time
# E, exponential with mean 1, and let it arrive at E / w, where w is its weight. Token v comes first with chance
# w / Σ w. Nobody has computed Σ w.
#
# So look for the largest w / E. A weight of 0 never arrives. Where two arrive together, the lowest id wins, in every
# implementation: otherwise the token would depend on how the row was cut into blocks.
#
# ### Exercise 07.4: race
#
# Store the winner of each row. The times are given. A row may be longer than a block.


# %%
@triton.jit
def race(weight_ptr, time_ptr, out_ptr, V, BLOCK_V: tl.constexpr):
    """Store the token with the largest weight / time, lowest id on ties: weight, time float32 [B, V], out int64 [B]."""
    # BEGIN SOLUTION
    # The best of each block against the best so far; an equal one that comes later does not replace it.
    row = tl.program_id(0).to(tl.int64)
    best = tl.full([], -1.0, tl.float32)
    winner = tl.full([], 0, tl.int32)
    for start in range(0, V, BLOCK_V):
        token = start + tl.arange(0, BLOCK_V)
        inside = token < V
        weight = tl.load(weight_ptr + row * V + token, mask=inside, other=0.0)
        time = tl.load(time_ptr + row * V + token, mask=inside, other=1.0)
        score = tl.where(weight > 0, weight / time, -1.0)
        top = tl.max(score, axis=0)
        first = tl.min(tl.where(score == top, token, V), axis=0)
        winner = tl.where(top > best, first, winner)
        best = tl.maximum(best, top)
    tl.store(out_ptr + row, winner)
    # END SOLUTION


check("07.4", race)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Carry two numbers through the loop: the best score so far, and its token. Start with a score that everybody beats, made
# by `tl.full([], -1.0, tl.float32)`.
# </details>
# <details><summary>Hint 2</summary>
#
# In a block: `top = tl.max(score, axis=0)`, and the first token that has it is the smallest of
# `tl.where(score == top, token, V)`.
# </details>
# <details><summary>Hint 3</summary>
#
# Replace the winner where `top > best`, strictly: an equal score in a later block has a higher id. Lanes behind V need
# a score below all others, too; a weight of 0 gets −1.
# </details>

# %% [markdown]
# ## Step 5: the kernel
#
# All parts are there. One program for each row of the batch: gather p and q of the drafts, count, and race over **one**
# row, the one behind the drafts that stand. If a draft fell, the weights are [p − q]₊ of its row. If none did, they are
# p of the last row, and there is no q at all: row K of q does not exist.
#
# No sum is needed here: the race takes weights that do not add up to 1.
#
# ### Exercise 07.5: verify
#
# Put it together. `time_ptr` holds a row of times for every row of p; use those of the row that you draw from. The check
# compares with `verify_chain`, the function that the engine calls, exactly.


# %%
@triton.jit
def verify(
    draft_ptr,
    q_ptr,
    p_ptr,
    u_ptr,
    time_ptr,
    accepted_ptr,
    token_ptr,
    K,
    V,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Store how many drafts stand and the token that follows: draft int64 [B, K], q float32 [B, K, V], p and time
    float32 [B, K + 1, V], u float32 [B, K], accepted and token int64 [B]."""
    # BEGIN SOLUTION
    # 1. p, q and u of the drafts.
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    inside = k < K
    draft = tl.load(draft_ptr + row * K + k, mask=inside, other=0)
    p_K = tl.load(p_ptr + (row * (K + 1) + k) * V + draft, mask=inside, other=0.0)
    q_K = tl.load(q_ptr + (row * K + k) * V + draft, mask=inside, other=0.0)
    u = tl.load(u_ptr + row * K + k, mask=inside, other=0.0)
    # 2. How many stand.
    n = tl.min(tl.where(inside & ~(u * q_K < p_K), k, K), axis=0)
    q_width = tl.where(n < K, V, 0)
    # 3. Race over row n.
    best = tl.full([], -1.0, tl.float32)
    winner = tl.full([], 0, tl.int32)
    for start in range(0, V, BLOCK_V):
        token = start + tl.arange(0, BLOCK_V)
        p = tl.load(p_ptr + (row * (K + 1) + n) * V + token, mask=token < V, other=0.0)
        q = tl.load(q_ptr + (row * K + n) * V + token, mask=token < q_width, other=0.0)
        time = tl.load(time_ptr + (row * (K + 1) + n) * V + token, mask=token < V, other=1.0)
        score = tl.where(p > q, (p - q) / time, -1.0)
        top = tl.max(score, axis=0)
        first = tl.min(tl.where(score == top, token, V), axis=0)
        winner = tl.where(top > best, first, winner)
        best = tl.maximum(best, top)
    tl.store(accepted_ptr + row, n)
    tl.store(token_ptr + row, winner)
    # END SOLUTION


check("07.5", verify)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write the body of 07.1 twice, for p and for q, but keep the numbers instead of storing them. Then 07.2, then 07.4 with
# another weight. q has K rows for each program, p has K + 1.
# </details>
# <details><summary>Hint 2</summary>
#
# n is a number inside the kernel, so it may be part of an address: row n of p starts at
# `p_ptr + (row * (K + 1) + n) * V`.
# </details>
# <details><summary>Hint 3</summary>
#
# No `if` is needed for the bonus. Load q with the mask `token < tl.where(n < K, V, 0)` and the fill 0: then p − q is p.
# </details>

# %% [markdown]
# ## The real kernel
#
# The kernel of the engine does the same and some more. It makes its random numbers itself, from a seed and a counter,
# instead of reading them. It notices an id outside the vocabulary, a NaN, a residual that is empty. And it can cut one row
# into **splits**, several programs that race over a part each and then agree by one atomic maximum: for a batch of one,
# a single program would leave the GPU idle.
#
# Here it is in the interpreter, against the reference in torch. Not *nearly* equal: equal.

# %%
from specdec_kernels import verify_chain


def case(batch, K, V, seed):
    """Rows of p and q that resemble each other, and drafts drawn from q."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(batch, K + 1, V, generator=generator)
    q = (logits[:, :K] + 0.7 * torch.randn(batch, K, V, generator=generator)).softmax(-1)
    drafts = torch.multinomial(q.flatten(0, 1), 1, generator=generator).view(batch, K)
    rows = torch.arange(batch) + seed
    return {
        "draft_tokens": drafts,
        "draft_probs": q,
        "target_probs": logits.softmax(-1),
        "seeds": rows,
        "positions": rows,
    }


def both(given):
    """Accepted counts and tokens by torch, then by the kernel."""
    found = (verify_chain(**given, backend=backend) for backend in ("torch", "triton"))
    return [(verdict.accepted.tolist(), verdict.tokens.tolist()) for verdict in found]


cases = {
    f"B = {b}, K = {k}, V = {v}": case(b, k, v, seed)
    for seed, (b, k, v) in enumerate([(6, 4, 300), (3, 1, 5), (2, 7, 129)])
}
for name, given in cases.items():
    by_torch, by_kernel = both(given)
    print(f"{name:<21} accepted {by_kernel[0]}   equal: {by_torch == by_kernel}")

# %% [markdown]
# And however the rows are cut, the answer stays the same. That is more than tidiness: a verdict that depended on the
# number of splits would change with the size of the GPU.

# %%
from specdec_kernels import triton_launch

given = cases["B = 6, K = 4, V = 300"]
wanted = both(given)[0][1]
for tile, splits in ((512, 1), (64, 1), (64, 2), (64, 5)):
    verdict, status = triton_launch.verify(*given.values(), None, "rejection", tile=tile, splits=splits)
    print(f"tiles of {tile:>3}, splits: {splits}   same tokens: {verdict.tokens.tolist() == wanted}")

# %% [markdown]
# ## Kernels that must fail
#
# A comparison that cannot fail proves nothing. So put two mistakes into a copy of the real kernel. First a single
# character: u · q ≤ p instead of u · q < p. The random cases above never meet it, since u · q and p are never exactly
# equal there. They are equal, both zero, for a token that the target never says and whose q was rounded away. Such edges
# need a case of their own.

# %%
from specdec_teach.exercises.lesson_07 import altered

edge = case(1, 1, 5, 0)
edge["target_probs"][0, 0, edge["draft_tokens"][0, 0]] = 0.0
edge["draft_probs"][0, 0, edge["draft_tokens"][0, 0]] = 0.0


def equal():
    """Whether torch and the kernel agree, in the three random cases and in the edge case."""
    return [by_torch == by_kernel for by_torch, by_kernel in map(both, [*cases.values(), edge])]


print("honest          ", equal())
with altered("u * q_K < p_K", "u * q_K <= p_K"):
    print("≤ instead of <  ", equal())
    by_torch, by_kernel = both(edge)
print(f"edge case: torch accepts {by_torch[0][0]}, that kernel {by_kernel[0][0]}")

# %% [markdown]
# Second: the race starts at row 0 instead of row n. The counts stay right, so a dashboard of acceptance rates shows
# nothing. Only the tokens are wrong, and only behind an accepted draft.

# %%
with altered("p_ptr + (row * (K + 1) + n) * V,", "p_ptr + (row * (K + 1)) * V,"):
    by_torch, by_kernel = both(cases["B = 6, K = 4, V = 300"])
print("same counts:", by_torch[0] == by_kernel[0])
for accepted, right, found in zip(by_torch[0], by_torch[1], by_kernel[1]):
    same = right[accepted] == found[accepted]
    print(f"accepted {accepted}   token {right[accepted]:>3}   from row 0 {found[accepted]:>3}   same: {same}")
print("and honest again:", all(equal()))

# %% [markdown]
# ## Predict: what does it read?
#
# γ = 4, V = 1000, and two drafts stand. p has five rows. How many of them does the kernel read from end to end?
#
# `reads` runs a launch in the interpreter and counts, for each element of a tensor, how often it was loaded.

# %%
from specdec_teach.exercises.lesson_07 import picture, reads

wide = case(1, 4, 1000, 4)


def launch():
    return triton_launch.verify(*wide.values(), None, "rejection", tile=256, splits=1)


of_p, of_q = reads(launch, wide["target_probs"], wide["draft_probs"])
of_p, of_q = of_p[0], of_q[0]

# BEGIN SOLUTION
guess = 1
# END SOLUTION
predict("07.p3", guess, lambda: int((of_p > 0).all(-1).sum()))

# %%
print("accepted", int(launch()[0].accepted))
for name, counts in (("p", of_p), ("q", of_q)):
    for row, line in enumerate(counts):
        print(f"{name} row {row}   elements read: {int((line > 0).sum()):>4} of {len(line)}")

# %% [markdown]
# The same as a picture: one line a row, cut into the tiles of 256 that the kernel works with.

# %%
picture(256, p=of_p, q=of_q)

# %% [markdown]
# Row 2 of each, and one number from every other row with a draft. The bonus row was not touched. The target computed the
# rows behind the rejection at some expense, and all that the verdict wants of them is a number that it then ignores.
#
# ## Count the bytes
#
# A verdict does not do much with each number that it reads. So count what it moves, for γ = 4 and a vocabulary of
# 151,936 in float32:

# %%
gamma, V = 4, 151_936
row_bytes = 4 * V
print(f"one row      {row_bytes:>9,} bytes")
print(f"γ + 1 rows   {(gamma + 1) * row_bytes:>9,} bytes")

# %% [markdown]
# First the case of this lesson: probabilities are given. The obvious version in plain torch forms [p − q]₊ of *all* rows
# and picks one afterwards. It reads γ + 1 rows of p and γ of q, and writes γ rows more. (A careful one picks the row
# first, as the reference of this package does. It then writes that row out once for every step of the arithmetic.)

# %%
kernel = 2 * row_bytes + 2 * 4 * gamma
eager = ((gamma + 1) + gamma + gamma) * row_bytes

print(f"one row of p, one of q, and {2 * gamma} single numbers   {kernel / 1e6:5.2f} MB")
print(f"the residual of all rows                     {eager / 1e6:5.2f} MB")
print(f"ratio {eager / kernel:.1f}")

# %% [markdown]
# The count in the interpreter agrees: at V = 1000, it has to be one row of p, one of q, and the single numbers.

# %%
loads = int(of_p.sum() + of_q.sum())
print(f"loads of p and q: {loads} = 2 · 1000 + {loads - 2000}")

# %% [markdown]
# Mostly, though, the target gives **logits**. Then a probability needs the sum over its whole row, and every row with a
# draft must be read once, whoever does it. What can be saved is the rest. An eager softmax of γ + 1 rows reads all, and
# *writes* all; then somebody reads the row that matters. The kernels keep two numbers of each row, its largest logit
# and the sum behind it, and compute the probabilities of row n again when they get there. For the target's side:

# %%
softmax_then_row = ((gamma + 1) + (gamma + 1) + 1) * row_bytes
sums_then_row = ((gamma + 1) + 1) * row_bytes

print(f"softmax of γ + 1 rows, then one row   {softmax_then_row / 1e6:5.2f} MB")
print(f"sums of γ + 1 rows, then one row      {sums_then_row / 1e6:5.2f} MB")
print(f"ratio {softmax_then_row / sums_then_row:.2f}")

# %% [markdown]
# Not five to one, but less than two to one. "We read only one row" is true of probabilities, and half true of logits.
#
# That takes two launches: nobody can start on row n before the sums are there. When the drafts are one-hot, one launch
# does. The residual is then p without the drafted token, and a race needs no sum, since a common factor changes no
# winner. So each program runs the race of its row at once, on logits, and whoever arrives last picks the row. It costs
# arithmetic on rows that nobody wants, and saves a row of reading and a launch.
#
# ## Compile it for a GPU that is not here
#
# Interpreting says that the arithmetic is right. It does not say that a compiler takes the kernel. That can be asked
# too: the compiler needs to know the GPU's *architecture*, not the GPU. `compile_for` starts a process without
# TRITON_INTERPRET, since in this one every kernel interprets, and compiles there for sm_90.

# %%
from specdec_teach.exercises.ahead import compile_for

types = {
    "*i64": "draft_ptr seed_ptr position_ptr scratch_ptr accepted_ptr tokens_ptr status_ptr",
    "*fp32": "q_ptr p_ptr statistics_ptr uniform_ptr",
    "*i1": "degenerate_ptr",
    "fp32": "temperature",
    "i32": "K V tiles",
}
signature = {name: kind for kind, names in types.items() for name in names.split()}
constants = {"HAS_Q": True, "LOGITS": False, "PER_ROW": False, "GIVEN_U": False, "BLOCK_K": 8, "BLOCK_V": 1024}
real = compile_for(
    90, "specdec_kernels.triton_chain:chain_kernel", signature, constants, num_warps=8, enable_fp_fusion=False
)

print("compiled for", real.target)
print("fewer than 128 registers a thread:", real.registers < 128)
print("spills to memory:", real.spills)
print("row · V in 32 bits:", len(real.overflows))

# %% [markdown]
# A **register** holds one number of one thread. When a kernel needs more than there are, the compiler *spills*: it moves
# numbers to memory and back, and all our counting of bytes was for nothing. And the last line is the check of 07.1. It
# can fail: `row_max` above never made its `row` an int64.

# %%
small = compile_for(90, row_max, {"x_ptr": "*fp32", "out_ptr": "*fp32", "V": "i32"}, {"FILL": 0, "BLOCK_V": 8})

print("spills to memory:", small.spills)
print("row · V in 32 bits:", len(small.overflows))

# %% [markdown]
# Compiled without complaint, right on every small test, and wrong from row 14,135 on at V = 151,936. Where is the
# mistake? A kernel this small can be read whole. **PTX** is the assembly language of these GPUs; another version of the
# compiler may write other lines, and name its registers differently.

# %% tags=["nbval-ignore-output"]
# depends on the compiler: your lines may differ
print("registers a thread:", small.registers, "here,", real.registers, "in the real kernel")
print()
print("\n".join(small.ptx))

# %% [markdown]
# You find all of it again. `%ctaid.x` is the program's number. `setp.lt` is the mask, `@%p1` in front of the load says that
# only lanes inside it read. `shfl` and `max` in turn are `tl.max`: lanes hand their numbers to each other. And `mul.lo.s32` is the mistake: row · V, of which the low 32 bits are kept. The next instruction widens to 64 bits
# (`mad.wide`), one line too late.
#
# ## Try it yourself
#
# - Draw the picture of your own `verify`, launched on `wide`. Which tensor does it read from end to end that the real one never has?
# - Repair `row_max` and compile it again. Which instruction stands in the place of `mul.lo.s32`?
# - In `verify`, race over row n of p, but subtract row 0 of q. Which case of the check notices first?
# - `altered("tl.maximum(best, candidate)", …)` does not find its text in this kernel. Where does the real race live? Read
#   `scan_row`, and how it packs score and id into one integer.
# - Change `wide` so that all four drafts stand. Which rows are read now, and how many of q?
# - `compile_for(80, …)` and `compile_for(100, …)`: other architectures, the same kernel.
#
# ## Honest limits
#
# - The interpreter runs programs **in order**, one at a time. A race between programs cannot happen in it. That the
#   answer does not depend on splits is a good sign, not a proof of the atomics.
# - It says nothing about speed. No number in this lesson was measured on a GPU, and bytes moved are an estimate of cost,
#   not a time.
# - A read out of bounds raises nothing; it returns what is there. Our checks put NaN around the tensors to make it show.
#   A wild address can still end the process.
# - It takes Python that the compiler refuses, such as `break`. So compile in your tests, for every target.
# - numpy divides and adds like float32 on a GPU, but a logarithm or exponential may differ in the last bit, and a compiler
#   may fuse a product and a sum. The real kernel forbids the fusion and brings its own logarithm.
# - The interpreter cannot do arithmetic in bfloat16. The launcher converts such rows before an interpreted launch.
# - Your kernel reads its times. The real one makes them, and saves a row of reads.
#
# ## Can you?
#
# - [ ] write an offset with the right number of rows, in the right number of bits (07.1)
# - [ ] find the first failure among K lanes without a break (07.2)
# - [ ] choose the fill of a masked load, and say why (07.3)
# - [ ] draw from weights in one walk, the same whatever the blocks (07.4)
# - [ ] say which rows a verdict reads, from probabilities and from logits (07.5)
# - [ ] say what an ahead-of-time compilation proves, and what the interpreter hides
#
# ## In 60 seconds
#
# One program a row of the batch. It loads p and q of K drafts, tests u · q < p in all lanes at once and takes the first
# failure, n. Then it walks along row n only, block by block, and lets the tokens race: largest weight / time, lowest id on
# ties, so that blocks and splits cannot change the answer. Behind n < K the weights are [p − q]₊, behind the whole block
# p. Offsets with V in them are int64. From probabilities it moves two rows instead of all; from logits each row must still
# be summed once, but nothing is written back. The interpreter tests the arithmetic, a compilation ahead of time tests
# types, registers and spills, and neither tests races or speed.
#
# **Red flags** when you read about it or review a kernel: `tl.program_id(0) * V` without an int64 · `other=0` before a
# softmax · an argmax whose ties depend on the block size · row K of q · "tested in the interpreter, so the atomics are
# right" · a speed-up computed from bytes.
#
# **Asked in interviews**
#
# <details><summary>Why does the kernel recompute n in every split instead of once?</summary>
#
# n needs K numbers of p and q, a few hundred bytes. To hand it on would take a second launch or a wait between programs,
# and both cost more than to compute it again.
# </details>
#
# <details><summary>Why a race and not the usual inverse of the cumulative sum?</summary>
#
# The cumulative sum needs the total before the threshold is known, so the row is read twice, and its rounding depends on the
# order of additions. A race needs one walk, no total, and only maxima, which are exact in any order.
# </details>
#
# <details><summary>Your kernel passes all tests with B = 8 and V = 32,000. What is not tested?</summary>
#
# Offsets beyond 2³¹, which begin at about 67,000 rows there. Vocabularies that are no multiple of the block. Rows with
# NaN behind the rejection, ties, drafts with p = q = 0. And, if it ran in the interpreter, everything concurrent.
# </details>
#
# <details><summary>p comes as bfloat16 logits. What changes?</summary>
#
# Half the bytes, and a sum for each judged row before anything can be compared. Convert to float32 right after the load:
# sums and ratios in bfloat16 have two or three digits.
# </details>
#
# ## Where to read more
#
# Tillet, Kung, Cox, *Triton: an intermediate language and compiler for tiled neural network computations* (2019), section 3.
# Leviathan, Kalman, Matias, *Fast inference from transformers via speculative decoding* (2023), algorithm 1.
# Efraimidis, Spirakis, *Weighted random sampling with a reservoir* (2006), for races of exponential times.
# Milakov, Gimelshein, *Online normalizer calculation for softmax* (2018), for one walk over logits.
