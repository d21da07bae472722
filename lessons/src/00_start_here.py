# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   lesson:
#     minutes: 10
#     outputs: 3
# ---

# %% [markdown]
# # 00 · Start here
#
# **10 minutes.** A draft model proposes four tokens; the target judges them in one forward pass.

# %%
import specdec_teach as sd

pair = sd.load_pair()
engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
result = engine.generate("Once upon a time", sd.Sampling(temperature=0.8, seed=7), max_new_tokens=24)
print(result.text)

# %%
result.trace.show()

# %%
for cycle in result.trace.cycles:
    print(f"cycle {cycle.index}: {cycle.accepted} of {len(cycle.proposed)} drafts kept, then a {cycle.last_kind}")
