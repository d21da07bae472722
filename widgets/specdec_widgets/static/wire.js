/**
 * What the views read: the records of a trace and of a timeline as JSON, and the messages of the widgets.
 *
 * Invariant: these types, those of specdec_widgets/wire.py and the JSON Schema of a trace say the same (a test compares
 * the three). It holds no code.
 *
 * A property in brackets may be missing in a run that an earlier version saved.
 */

/**
 * A cache's write pointer through one cycle, counted in tokens.
 * @typedef {object} KV
 * @property {number} before
 * @property {number} written
 * @property {number} after
 */

/**
 * The likeliest tokens of one distribution as (id, probability), likeliest first, and the mass of the rest.
 * @typedef {object} Top
 * @property {[number, number][]} tokens
 * @property {number} rest
 */

/**
 * One token's probabilities in one row: target `p`, draft `q`, and the normalised `residual` [p − q]₊ / β.
 * @typedef {object} Bar
 * @property {number} token
 * @property {number} p
 * @property {number} q
 * @property {number} residual
 */

/**
 * What became of one proposed token.
 * @typedef {object} Decision
 * @property {number} position
 * @property {number|null} token
 * @property {number|null} p
 * @property {number|null} q
 * @property {number|null} u
 * @property {number|null} accept_probability
 * @property {boolean} accepted
 * @property {number|null} alpha
 * @property {Top} p_top
 * @property {Top} q_top
 * @property {Top} residual_top
 * @property {Bar[]} bars
 * @property {"accepted"|"rejected"|"unused"|"cut"} status
 * @property {boolean} [forced]
 */

/**
 * The draw numbers that a cycle used in each random stream, as (first, count): no number is used twice.
 * @typedef {object} Draws
 * @property {[number, number]} draft
 * @property {[number, number]} accept
 * @property {[number, number]} token
 */

/**
 * Where the wall-clock time of a cycle went, in seconds.
 * @typedef {object} Seconds
 * @property {number} draft
 * @property {number} target
 * @property {number} verify
 * @property {number} other
 */

/**
 * The work before the first cycle: tokens fed to each model (None: the drafter keeps no cache), and seconds.
 * @typedef {object} Prefill
 * @property {number} target
 * @property {number|null} draft
 * @property {number} seconds
 * @property {number} [adopted]
 */

/**
 * What a cycle did to the blocks of a paged cache, by block id.
 * @typedef {object} Blocks
 * @property {number} size
 * @property {number[]} owned
 * @property {number[]} [taken]
 * @property {number[]} [freed]
 * @property {number[]} [published]
 * @property {number[]} [shared]
 * @property {[number, number][]} [copied]
 */

/**
 * One round of Draft → Verify → Commit → Rollback.
 * @typedef {object} Cycle
 * @property {number} index
 * @property {number} gamma
 * @property {(number|null)[]} proposed
 * @property {number} accepted
 * @property {number[]} emitted
 * @property {number|null} last
 * @property {"correction"|"bonus"|"none"} last_kind
 * @property {Top|null} last_top
 * @property {number} committed_before
 * @property {number} committed_after
 * @property {KV} target_kv
 * @property {KV|null} draft_kv
 * @property {Decision[]} decisions
 * @property {Draws|null} rng
 * @property {boolean|null} degenerate_residual
 * @property {Seconds|null} seconds
 * @property {number} stop_cut
 * @property {string} text
 * @property {"p"|"residual"|null} [last_from]
 * @property {number} [caught_up]
 * @property {Blocks|null} [blocks]
 * @property {number|null} [step]
 * @property {number[]|null} [parents]
 * @property {number[]|null} [path]
 */

/**
 * How the run was made.
 * @typedef {object} Meta
 * @property {number} schema_version
 * @property {Record<string, string>} models
 * @property {Record<string, string>} revisions
 * @property {string|null} drafter
 * @property {string} dtype
 * @property {string} decoder
 * @property {number|null} vocab
 * @property {Record<string, unknown>} sampling
 * @property {number} gamma
 * @property {string} verify
 * @property {string} cache
 * @property {number|null} seed
 * @property {boolean} speculate
 * @property {number|null} max_new_tokens
 * @property {boolean|null} lossless
 * @property {number|null} [forced]
 * @property {string} [backend]
 * @property {string|null} [planner]
 * @property {number[]} [eos]
 * @property {number[]} [features]
 * @property {boolean} [trees]
 */

/**
 * A whole run: how it was made, the prompt's ids, every cycle, and the display text of every token id in it.
 * @typedef {object} Trace
 * @property {Meta} meta
 * @property {number[]} prompt
 * @property {Prefill|null} prefill
 * @property {Cycle[]} cycles
 * @property {"eos"|"stop"|"length"|"context"|null} finish_reason
 * @property {Record<string, string>} [pieces]
 * @property {number} [dropped]
 */

/**
 * One request in one step.
 * @typedef {object} Row
 * @property {number} request
 * @property {"waiting"|"prefill"|"cycle"|"preempted"|"finished"|"cancelled"|"failed"} state
 * @property {number} computed
 * @property {number} committed
 * @property {number} [fed]
 * @property {number} [adopted]
 * @property {number|null} [cycle]
 * @property {number} [gamma]
 * @property {number} [drafted]
 * @property {number} [accepted]
 * @property {number} [emitted]
 * @property {number[]} [table]
 * @property {string} [text]
 * @property {string|null} [ends]
 */

/**
 * One step: every request that was not over when the last one ended, in order of arrival, and the pool after it.
 * @typedef {object} Step
 * @property {number} index
 * @property {Row[]} rows
 * @property {number[]} published
 * @property {number[]} idle
 * @property {number[]} evicted
 * @property {number} seconds
 */

/**
 * How the scheduler was made: `blocks` blocks of `block_size` tokens, at most `max_batch` requests at once.
 * @typedef {object} TimelineMeta
 * @property {number} schema_version
 * @property {number} blocks
 * @property {number} block_size
 * @property {number} max_batch
 * @property {number} chunk
 * @property {number} gamma
 * @property {string|null} [planner]
 */

/**
 * A scheduler's run. `prompts`: prompt length by request number, `names`: what to call each in a picture.
 * @typedef {object} Timeline
 * @property {TimelineMeta} meta
 * @property {number[]} prompts
 * @property {string[]} names
 * @property {Step[]} steps
 */

/**
 * What the player asks of the engine: a rejection forced at a draft (null: none, 0: accept all).
 * @typedef {object} Request
 * @property {number|null} reject_at
 * @property {number} cycle
 * @property {number} n
 */

/**
 * Two runs for one clock, and what to call them.
 * @typedef {object} Pair
 * @property {[string, string]} names
 * @property {[Trace, Trace]} runs
 */

/**
 * What the cycle player shares with the kernel; a page holds the same in memory.
 * @typedef {object} PlayerState
 * @property {Trace} trace
 * @property {number} step
 * @property {string} status
 * @property {boolean} can_rerun
 * @property {Request|null} request
 */

/**
 * What the view of two runs shares with the kernel.
 * @typedef {object} CompareState
 * @property {Pair} pair
 * @property {number} step
 * @property {"forwards"|"seconds"} clock
 */

/**
 * What the view of a scheduler shares with the kernel.
 * @typedef {object} TimelineState
 * @property {Timeline} timeline
 * @property {number} step
 */

export {};
